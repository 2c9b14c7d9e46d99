"""Golden files: `UPDATE_GOLDEN=1` writes them, every other run compares."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    """Compare `text` with the file, or write it there when UPDATE_GOLDEN is set."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no golden file {path.name}: make it with UPDATE_GOLDEN=1 and read it"
    assert text == path.read_text(encoding="utf-8")


def in_order(lines: Sequence[str]) -> list[str]:
    """Samples of a page, each family's sorted: of several parts they stand as they came, which differs by chance.

    The families keep their order, and none may be split.
    """
    names = [line.partition("{")[0] for line in lines]
    families = [name for name, _ in groupby(names)]
    assert len(set(families)) == len(families)
    return [line for family in families for line in sorted(line for line in lines if line.partition("{")[0] == family)]


def check_golden_samples(path: Path, lines: Sequence[str]) -> None:
    """The same for samples of a page of several parts."""
    check_golden(path, "".join(f"{line}\n" for line in in_order(lines)))
