"""Golden files: `UPDATE_GOLDEN=1` writes them, every other run compares."""

from __future__ import annotations

import os
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    """Compare `text` with the file, or write it there when UPDATE_GOLDEN is set."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no golden file {path.name}: make it with UPDATE_GOLDEN=1 and read it"
    assert text == path.read_text(encoding="utf-8")
