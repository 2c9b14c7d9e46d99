"""Markdown tables, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. A bar in a cell would end it, so it is escaped."""
    lines = [_row(heads), "|" + "---|" * len(heads)]
    lines += [_row(cells) for cells in rows]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def code(text: str) -> str:
    """Text as code; none where there is none."""
    return f"`{text}`" if text else ""
