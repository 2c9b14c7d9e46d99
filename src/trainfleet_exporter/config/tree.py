"""The tree of a config file: lines for every key and item, and the text of scalars as written.

The schema decides the type of a scalar, not its form: `name: no` is a text, `0123` keeps its zero, and `"5"` is a
number if the schema requires a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from trainfleet_exporter.config.environment import Expansion
from trainfleet_exporter.config.plain import is_like_name, is_plain
from trainfleet_exporter.errors import Fault

Loc: TypeAlias = tuple[str | int, ...]
"""A place in the config: keys and list positions from the top."""


@dataclass(frozen=True, slots=True, repr=False)
class Scalar:
    """One scalar; without a repr, because it may be a secret."""

    line: int
    expansion: Expansion


class Table(dict[str, "Node"]):
    """A mapping that knows its line and those of its keys."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.key_lines: dict[str, int] = {}


class Row(list["Node"]):
    """A list that knows the lines of its items."""

    def __init__(self) -> None:
        super().__init__()
        self.item_lines: list[int] = []


Node: TypeAlias = Table | Row | Scalar | None


_NOT_OF_A_KEY = re.compile(r"[^A-Za-z0-9_.<-]")


def word_of(key: str) -> str:
    """The part of a key that is one: in `{access_key_secret:xyz}`, which lacks a space, YAML takes all of it."""
    return _NOT_OF_A_KEY.split(key, maxsplit=1)[0]


def show_key(key: str, *, has_value: bool) -> str:
    """A key as it is written. What cannot be a key is cut off, since it may be a secret or break the line.

    A key without a value may be a secret as a whole, as in `{xyz}`: of those, only plain words are shown.
    """
    word = word_of(key)
    if not is_plain(word) and not (has_value and word == key and is_like_name(word)):
        return "…"
    return word if word == key else f"{word}…"


def show_path(loc: Sequence[str | int], *, has_value: bool = True) -> str:
    """`providers[0].collectors.jobs`; of its last key it matters whether the file gives it a value."""
    path = ""
    for position, step in enumerate(loc, 1):
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            shown = show_key(step, has_value=has_value or position < len(loc))
            path += f".{shown}" if path else shown
    return path


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its tree, and the faults that were found while it was built."""

    file: str
    root: Table
    faults: list[Fault] = field(default_factory=list)
    broken: frozenset[Loc] = frozenset()
    """Places where such an error left nothing to validate."""

    def line(self, loc: Sequence[str | int]) -> int:
        """The line of `loc`, or of the nearest place above it that is in the file."""
        line = self.root.line
        node: Node = self.root
        for step in loc:
            if isinstance(node, Table) and isinstance(step, str) and step in node:
                line, node = node.key_lines[step], node[step]
            elif isinstance(node, Row) and isinstance(step, int) and step < len(node):
                line, node = node.item_lines[step], node[step]
            else:
                break
        return line

    def find(self, loc: Sequence[str | int]) -> Node:
        """Return the node at `loc`; None if there is none."""
        node: Node = self.root
        for step in loc:
            if isinstance(node, Table) and isinstance(step, str):
                node = node.get(step)
            elif isinstance(node, Row) and isinstance(step, int) and step < len(node):
                node = node[step]
            else:
                return None
        return node

    def fault(self, loc: Sequence[str | int], message: str) -> Fault:
        """A fault at `loc`."""
        return Fault(self.file, self.line(loc), show_path(loc, has_value=self.find(loc) is not None), message)


def shape(value: object) -> str:
    """Describe the kind of a value, without its content."""
    if value is None:
        return "no value"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else "a single value"
