"""Flags of the command line, and the text of an error in them. It imports little, because `healthcheck` uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pkgutil import resolve_name
from typing import Any

import click

from trainfleet_exporter.errors import StartError

_WITHOUT_FILE = ' To try the exporter without a config file, run "trainfleet-exporter demo".'


class Checked(click.ParamType):  # type: ignore[type-arg] # not generic in older versions
    """Values that `check` takes. It raises ValueError or StartError for others, or returns None if there is `allowed`.

    `check` is a function, or `module:name` of one whose module the daemon does without. `keep` keeps the text in place
    of the result.
    """

    name = "text"

    def __init__(self, check: Callable[[str], Any] | str, allowed: str = "", *, keep: bool = False) -> None:
        self._check, self._allowed, self._keep = check, allowed, keep

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what `check` makes of a text."""
        if not value:
            self.fail("a value is required, but missing", param, ctx)
        check = resolve_name(self._check) if isinstance(self._check, str) else self._check
        result, words = None, ""
        try:
            result = check(value)
        except (ValueError, OverflowError, StartError) as error:
            words = str(error)
        if result is None:
            self.fail(f"{found(value)}; allowed: {self._allowed}" if self._allowed else words, param, ctx)
        return value if self._keep else result


def flag(name: str, text: str, kind: click.ParamType[Any] | None = None, **settings: Any) -> click.Option:
    """A flag with its help text; without a value if `is_flag`."""
    variable = name.removeprefix("--").replace(".", "_").replace("-", "_")
    settings = {"show_default": settings.get("default") not in (None, "")} | settings
    return click.Option([name, variable], help=text, type=kind, **settings)


def refused(words: str) -> click.UsageError:
    """The error of flags that do not fit each other."""
    return click.UsageError(words, click.get_current_context(silent=True))


def run(command: click.Command, arguments: Sequence[str] | None, name: str = "trainfleet-exporter") -> int:
    """Run one command; the exit code. A wrong command line is explained on stderr and ends with 2."""
    try:
        return int(command.main(arguments, name, standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else name
        words = error.format_message()
        words += _WITHOUT_FILE if words == "Missing option '--config.file'." else ""
        click.echo(f'{path}: error: {words}\nRun "{path} --help" for all flags.', err=True)
    return 2


def found(value: object) -> str:
    """A flag's value in an error: one line, shortened."""
    text = str(value)
    words = text[:80] if text.isprintable() else ascii(text[:80])[1:-1]
    return f'found "{words}{"…" if len(text) > 80 else ""}"'
