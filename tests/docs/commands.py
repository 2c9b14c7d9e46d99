"""The commands of a page, their kinds, and the output that the page shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import Block, blocks

NOT_HERE = {
    "docker": "no container engine runs in the tests; the compose file and the image have tests of their own",
    "podman": "no container engine runs in the tests; the image has tests of its own",
    "helm": "needs a cluster; what the chart renders has tests of its own",
    "kubectl": "needs a cluster; the manifests have tests of their own",
    "systemctl": "needs a machine whose init is systemd; the unit has tests of its own",
    "journalctl": "needs a machine whose init is systemd",
    "chown": "needs root, and a user that the image has",
    "amtool alert": "needs an Alertmanager; test_alerts.py runs one and sends this alert",
}
"""Programs and subcommands that tests do not run, with the reason."""
_RUN = frozenset(
    {
        "amtool",
        "cat",
        "cd",
        "chmod",
        "cp",
        "curl",
        "echo",
        "export",
        "grep",
        "install",
        "mkdir",
        "mv",
        "openssl",
        "pip",
        "promtool",
        "python",
        "python3",
        "trainfleet-exporter",
    }
)
_ENDS = frozenset({"--config.check", "--help", "-h", "--version"})
"""Flags with which the daemon ends at once."""
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page. `shown` is the output on the page."""

    block: Block
    text: str
    shown: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The words of the first line, without `sudo`, variables and the folder of the program."""
        words = shlex.split(self.text.partition("\n")[0], comments=True)
        while words and re.fullmatch(r"\w+=.*|sudo", words[0]):
            words.pop(0)
        return [Path(words[0]).name, *words[1:]] if words else []

    @property
    def kind(self) -> str:
        """`run`, `daemon` (runs until the test ends it), `make` or `not here`. Empty for an unknown command."""
        words = self.words
        if not words:
            return ""
        if words[0] == "make":
            return "make"
        if words[0] in NOT_HERE or " ".join(words[:2]) in NOT_HERE:
            return "not here"
        if any(word.startswith("--lease=") for word in words):  # needs a cluster or a shared volume
            return "not here"
        if words[0] == "trainfleet-exporter":
            subcommand = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
            return "daemon" if subcommand in ("", "demo", "simulate") and not _ENDS & set(words) else "run"
        return "run" if words[0] in _RUN else ""


def commands(page: Path) -> list[Command]:
    """Return the commands of a page, in the order of the page."""
    return [command for block in blocks(page, "sh", "console") for command in _commands(block)]


def _commands(block: Block) -> Iterator[Command]:
    if block.language == "sh":
        for text in _joined(block.text.splitlines()):
            yield Command(block, text)
        return
    # In a console block, commands begin with `$ `. All other lines are output.
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        text, *shown = part.rstrip("\n").split("\n")
        while text.endswith("\\"):
            text = text[:-1] + shown.pop(0).removeprefix("> ")
        yield Command(block, text, tuple(shown))


def _joined(lines: list[str]) -> Iterator[str]:
    """Join continued lines and here-documents, so that each item is a command."""
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        while line.endswith("\\"):
            line = f"{line[:-1].rstrip()} {rest.pop(0).strip()}"
        if match := _HEREDOC.search(line):
            while (more := rest.pop(0)) != match[1]:
                line += f"\n{more}"
            line += f"\n{match[1]}"
        if line.strip() and not line.lstrip().startswith("#"):
            yield line
