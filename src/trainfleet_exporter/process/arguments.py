"""Reads the command line: finds the command among the flags, and reports what is wrong.

It imports nothing slow, because `--version` and `healthcheck` use it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import trainfleet_exporter

COMMANDS = ("backfill", "demo", "diagnose", "healthcheck", "once", "report", "simulate")
SWITCHES = frozenset(
    (
        "-h",
        "--help",
        "--version",
        "--config.check",
        "--json",
        "--tls.insecure-skip-verify",
        "--web.enable-lifecycle",
    )
)
"""The flags without a value. Every other flag takes the next argument as its value, unless it has one after a `=`."""
_MISSING = "the following arguments are required: "
_FLAG = re.compile(r"-(?![0-9])")  # a negative number is a value
_NOT_SHOWN = re.compile(r"[^A-Za-z0-9_./-]")


class Arguments(NamedTuple):
    """A command line in parts."""

    command: str
    """The first word that is not a flag or a flag's value; empty for the daemon."""
    more: tuple[str, ...]
    """The other such words."""
    flags: tuple[str, ...]
    """The flags, each as `--flag` or `--flag=value`."""


def split(arguments: Sequence[str]) -> Arguments:
    """Separate the command from the flags before and after it."""
    words: list[str] = []
    flags: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if not _FLAG.match(argument):
            words.append(argument)
        elif "=" in argument or argument in SWITCHES or not left or _FLAG.match(left[0]):
            flags.append(argument)
        else:
            flags.append(f"{argument}={left.pop(0)}")
    command, *more = words or [""]
    return Arguments(command, tuple(more), tuple(flags))


def version() -> str:
    """The line that `--version` prints."""
    return f"trainfleet-exporter {trainfleet_exporter.__version__} (Python {sys.version.partition(' ')[0]})"


class Parser(argparse.ArgumentParser):
    """The flags of one command. An error names the flag, what is wrong with it, and what to type instead."""

    def __init__(self, command: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"trainfleet-exporter {command}".strip(),
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            exit_on_error=False,
        )

    def read(
        self, arguments: Arguments, commands: Mapping[str, Callable[[], Parser]] | None = None
    ) -> argparse.Namespace:
        """The values of the flags. Ends the process with exit code 2 if something is wrong.

        With the parsers of all `commands`, the message about an unknown flag names the commands that have it.
        """
        for flag in arguments.flags:
            name = flag.partition("=")[0]
            if name not in self._option_string_actions:
                known = ", ".join(sorted(known for known in self._option_string_actions if known.startswith("--")))
                owners = [
                    command or "the exporter"
                    for command, parse in (commands or {}).items()
                    if name in parse()._option_string_actions
                ]
                whose = f", which is a flag of {', '.join(owners)}" if owners else ""
                hint = "" if owners else near(name, self._option_string_actions)
                self._refuse(f'unknown flag "{_shown(name)}"{whose}', hint, known)
        if arguments.more:
            self._refuse(f'unexpected argument "{_shown(arguments.more[0])}": one command at a time', "")
        try:
            return self.parse_args(arguments.flags)
        except argparse.ArgumentError as error:
            self.error(f"{error.argument_name}: {_reworded(error.message)}" if error.argument_name else error.message)

    def refuse_command(self, word: str) -> NoReturn:
        """End the process with exit code 2: there is no such command."""
        if word.endswith((".yaml", ".yml")):
            hint = f"--config.file={_shown(word)}"
        else:
            hint = near(word, (*COMMANDS, "--help", "--version"))
        self._refuse(f'unknown command "{_shown(word)}"', hint)

    def error(self, message: str) -> NoReturn:
        """End the process with exit code 2 and say why."""
        if message.startswith(_MISSING):
            self._refuse(f"required, but missing: {message.removeprefix(_MISSING)}", "")
        self.exit(2, f'{self.prog}: error: {message}\nRun "{self.prog} --help" for all flags.\n')

    def _refuse(self, what: str, hint: str, flags: str = "") -> NoReturn:
        suggestion = f'; did you mean "{hint}"?' if hint else ""
        commands = f"\nCommands: {', '.join(COMMANDS)}; without a command, the exporter runs."
        self.error(f"{what}{suggestion}{commands}" + (f"\nFlags: {flags}" if flags else ""))


def near(word: str, allowed: Collection[str]) -> str:
    """Return the most similar allowed word; empty if none is similar."""
    import difflib  # noqa: PLC0415 - only errors need it

    word = word.lower()
    if word.startswith("-"):
        begun = [flag for flag in allowed if flag.startswith(f"--{word.lstrip('-')}")]
        if len(begun) == 1:
            return begun[0]
    # Go's flags take one hyphen as well as two.
    found = difflib.get_close_matches(f"--{word.lstrip('-')}" if word.startswith("-") else word, allowed, n=1)
    found = found or difflib.get_close_matches(f"--{word}", allowed, n=1)
    return found[0] if found else ""


def one_of(words: Sequence[str]) -> Callable[[str], str]:
    """A type of flags: one of these words."""

    def read(value: str) -> str:
        if value not in words:
            hint = f'did you mean "{value.lower()}"? ' if value.lower() in words else ""
            raise argparse.ArgumentTypeError(f"{found(value)}; {hint}allowed: {', '.join(words)}")
        return value

    return read


def number(least: int, most: int) -> Callable[[str], int]:
    """A type of flags: a number in a range."""

    def read(value: str) -> int:
        if not re.fullmatch(f"[0-9]{{1,{len(str(most))}}}", value) or not least <= int(value) <= most:
            raise argparse.ArgumentTypeError(f"{found(value[:20])}; allowed: a number from {least} to {most}")
        return int(value)

    return read


def whole_number(value: str) -> int:
    """A type of flags: a whole number."""
    try:
        return int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{found(value)}; allowed: a whole number") from None


def file_name(value: str) -> str:
    """A type of flags: the name of a file."""
    if not value:
        raise argparse.ArgumentTypeError("a value is required, but missing")
    return value


def found(value: Any) -> str:
    """A flag's value in an error: one line, shortened."""
    text = str(value)
    shown = text[:80] if text.isprintable() else ascii(text[:80])[1:-1]
    return f'found "{shown}{"…" if len(text) > 80 else ""}"'


def _shown(word: str) -> str:
    """A word or a flag's name in an error, without what may be a user or a password."""
    kept = _NOT_SHOWN.split(word, maxsplit=1)[0][:60]
    return kept if kept == word else f"{kept}…"


def _reworded(message: str) -> str:
    """Return argparse's error about a flag in our words."""
    if message == "expected one argument":
        return "a value is required, but missing"
    if message.startswith("ignored explicit argument"):
        return "takes no value; write the flag alone, or leave it out"
    return message
