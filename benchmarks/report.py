"""What benchmarks report: tables of measurements, and checks of what was promised."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    """One measurement as it is printed and written into docs/evidence/benchmarks.md."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a reader must know to believe it: what was compared with what, and what was skipped for want of what."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of what was promised: the limit, what was measured, whether that is within it (None: not measured)."""

    promise: str
    measured: str
    kept: bool | None


Found = Table | Check

_WIDTH = 120

_VERDICTS = {True: "kept", False: "**not kept**", None: "not measured"}


_TOP = """\
# Benchmarks

`make bench` measures everything on this page (an hour on two cores) and uses no network. What is compared was measured
in the same run. On other machines the times differ, and the ratios less so. [sizing.md](../sizing.md) shows what this
means in practice.

{machine}
{versions}

## What was promised
"""


def markdown(found: Found) -> str:
    """A table as a section without its notes, or a check as a row of the table of checks."""
    if isinstance(found, Check):
        return f"| {found.promise} | {found.measured} | {_VERDICTS[found.kept]} |"
    return "\n".join([f"### {found.title}", "", *_grid(found.columns, found.rows)])


def notes(found: Iterable[Found]) -> str:
    """The notes of several tables as a list, each once."""
    texts = dict.fromkeys(note for one in found if isinstance(one, Table) for note in one.notes)
    return "\n".join(["", *map(_item, texts)])


def document(sections: Mapping[str, Sequence[Found]], *, machine: str, versions: str) -> str:
    """The whole report: what was promised first, then each section's tables and what is to be known of them."""
    promised = [markdown(one) for found in sections.values() for one in found if isinstance(one, Check)]
    parts = [_TOP.format(machine=_item(f"Machine: {machine}."), versions=_item(f"Versions: {versions}."))]
    parts.append("\n".join([*_grid(("promise", "measured", "")), *promised]) + "\n")
    for title, found in sections.items():
        parts.append(f"## {title}\n{notes(found)}\n")
        parts += [f"{markdown(one)}\n" for one in found if isinstance(one, Table)]
    return "\n".join(parts)


def _item(text: str) -> str:
    return textwrap.fill(f"- {text}", _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _grid(columns: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> list[str]:
    rule = "|---" * len(columns) + "|"
    return [f"| {' | '.join(columns)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]
