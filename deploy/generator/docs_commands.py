"""The reference of commands and flags, from the help texts of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import click

from deploy.generator.docs_tables import code, table
from trainfleet_exporter.cli import cli


def reference() -> str:
    """Return the table of commands, and the flags of each."""
    commands = [cli, *sorted(cli.commands.values(), key=lambda command: str(command.name))]
    parts = [table(("command", "what it does"), ((code(_called(each)), _summary(each)) for each in commands))]
    ours = list(_rows(cli))
    for command in commands:
        name = "the exporter" if command is cli else code(str(command.name))
        rows = list(_rows(command))
        own = rows if command is cli else [row for row in rows if row not in ours]
        parts += [f"## Flags of {name}", table(("flag", "meaning", "default"), own)]
        if also := ", ".join(flag for flag, *_ in rows if flag not in [row[0] for row in own]):
            parts.append(f"Also {also}, as of the exporter.")
    return "\n\n".join(parts)


def _called(command: click.Command) -> str:
    needed = [f"{option.opts[0]}={option.metavar}" for option in _options(command) if option.required]
    name = ["--config.file=FILE"] if command is cli else [str(command.name)]
    return " ".join(("trainfleet-exporter", *name, *needed))


def _summary(command: click.Command) -> str:
    return str(command.help).partition("\n")[0] if command is not cli else "Run the exporter."


def _rows(command: click.Command) -> Iterator[tuple[str, str, str]]:
    for option in _options(command):
        words = option.type.choices if isinstance(option.type, click.Choice) else ()
        allowed = f": {', '.join(map(code, words))}" if words else ""
        default = option.default[0] if isinstance(option.default, tuple) and option.default else option.default
        shown = "required" if option.required else code(str(default)) if option.show_default else ""
        yield code(option.opts[0]), f"{option.help}{allowed}", shown


def _options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]
