"""The habits of the command line: flags before and after the command, and hints for what is mistyped.

It imports nothing slow, because `--version` and `healthcheck` use it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NoReturn

import click

import trainfleet_exporter

_FLAG = re.compile(r"-(?![0-9])")  # a negative number is a value
_NOT_SHOWN = re.compile(r"[^A-Za-z0-9_./-]")
_LONGEST_MESSAGE = 600


class Commands(click.Group):
    """Commands, and flags for running without one. A flag may stand before or after its command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command first, and refuse flags and words that no command has."""
        if not args:
            raise click.exceptions.NoArgsIsHelpError(ctx)
        words, flags = self._split(args)
        if "--version" in flags:
            return super().parse_args(ctx, ["--version"])
        command = self.commands.get(words[0], self) if words else self
        self._check(command, words, flags, ctx)
        return super().parse_args(ctx, flags if command is self else [str(command.name), *flags])

    def main(self, args: Sequence[str] | None = None, *given: Any, **settings: Any) -> Any:
        """Run a command; the exit code. A wrong command line is explained on stderr and ends with 2."""
        try:
            return super().main(args, "trainfleet-exporter", standalone_mode=False)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return 2
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "trainfleet-exporter"
            words = error.format_message()
            words = words if len(words) < _LONGEST_MESSAGE else f"{words[:_LONGEST_MESSAGE]}…"
            click.echo(f'{path}: error: {words}\nRun "{path} --help" for all flags.', err=True)
            return 2

    def _split(self, args: Sequence[str]) -> tuple[list[str], list[str]]:
        """The words, and the flags, each as `--flag` or `--flag=value`."""
        every = (self, *self.commands.values())
        switches = {name for command in every for name, option in _options(command) if option.is_flag}
        words, flags, left = list[str](), list[str](), list(args)
        while left:
            word = left.pop(0)
            if not _FLAG.match(word):
                words.append(word)
            elif "=" in word or word in {*switches, "-h", "--help"}:
                flags.append(word)
            elif left and not _FLAG.match(left[0]):
                flags.append(f"{word}={left.pop(0)}")
            else:
                flags.append(f"{word}=")
        return words, flags

    def _check(self, command: click.Command, words: Sequence[str], flags: Sequence[str], ctx: click.Context) -> None:
        inner = ctx if command is self else click.Context(command, parent=ctx, info_name=command.name)
        known = {"-h", "--help", *dict(_options(command))}
        for flag in (flag.partition("=")[0] for flag in flags):
            if flag not in known:
                owners = [
                    "the exporter" if other is self else str(other.name)
                    for other in (self, *sorted(self.commands.values(), key=lambda other: str(other.name)))
                    if flag in dict(_options(other))
                ]
                whose = f", which is a flag of {', '.join(owners)}" if owners else ""
                hint = "" if owners else near(flag, known)
                listed = ", ".join(sorted(name for name in known if name.startswith("--")))
                self._refuse(inner, f'unknown flag "{shown(flag)}"{whose}', hint, f"\nFlags: {listed}")
        if command is self and words:
            is_file = words[0].endswith((".yaml", ".yml"))
            hint = f"--config.file={shown(words[0])}" if is_file else near(words[0], [*self.commands, "--help"])
            self._refuse(inner, f'unknown command "{shown(words[0])}"', hint)
        if len(words) > 1:
            self._refuse(inner, f'unexpected argument "{shown(words[1])}": one command at a time', "")

    def _refuse(self, ctx: click.Context, what: str, hint: str, more: str = "") -> NoReturn:
        suggestion = f'; did you mean "{hint}"?' if hint else ""
        commands = f"Commands: {', '.join(sorted(self.commands))}; without a command, the exporter runs."
        raise click.UsageError(f"{what}{suggestion}\n{commands}{more}", ctx)


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from ((name, parameter) for name in parameter.opts)


def version() -> str:
    """The line that `--version` prints."""
    return f"trainfleet-exporter {trainfleet_exporter.__version__} (Python {sys.version.partition(' ')[0]})"


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


def checked(check: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback of flags: what `check` makes of a given value. Its ValueError or StartError says what is wrong."""

    def callback(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if ctx.get_parameter_source(str(parameter.name)) is not click.core.ParameterSource.COMMANDLINE:
            return value
        from trainfleet_exporter.errors import StartError  # noqa: PLC0415 - --version does without it

        try:
            return tuple(map(check, value)) if parameter.multiple else check(value)
        except (ValueError, OverflowError, StartError) as error:
            raise click.BadParameter(str(error), ctx, parameter) from None

    return callback


def found(value: Any) -> str:
    """A flag's value in an error: one line, shortened."""
    text = str(value)
    words = text[:80] if text.isprintable() else ascii(text[:80])[1:-1]
    return f'found "{words}{"…" if len(text) > 80 else ""}"'


def shown(word: str) -> str:
    """A word or a flag's name in an error, without what may be a user or a password."""
    kept = _NOT_SHOWN.split(word, maxsplit=1)[0][:60]
    return kept if kept == word else f"{kept}…"
