"""Markdown tables and code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Bars in cells are escaped."""
    lines = [_row(heads), "|" + "---|" * len(heads)]
    lines += [_row(cells) for cells in rows]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def code(text: str) -> str:
    """Return `text` as Markdown code, or nothing if it is empty."""
    return f"`{text}`" if text else ""
