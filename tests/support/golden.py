"""Golden files. `UPDATE_GOLDEN=1` writes them, and other runs compare."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    """Compare `text` with the file. With UPDATE_GOLDEN, write the file first."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no golden file {path.name}: make it with UPDATE_GOLDEN=1 and read it"
    assert text == path.read_text(encoding="utf-8")


def in_order(lines: Sequence[str]) -> list[str]:
    """Sort the samples of each family, because the order of parts on a page varies.

    The families keep their order. The samples of a family must be together.
    """
    names = [line.partition("{")[0] for line in lines]
    families = [name for name, _ in groupby(names)]
    assert len(set(families)) == len(families)
    return [line for family in families for line in sorted(line for line in lines if line.partition("{")[0] == family)]


def check_golden_samples(path: Path, lines: Sequence[str]) -> None:
    """Compare sorted samples with the file, as `check_golden` does."""
    check_golden(path, "".join(f"{line}\n" for line in in_order(lines)))
