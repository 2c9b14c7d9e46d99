"""Files under deploy/ that are made by code: `python -m deploy.generator` writes, or (with `--check`) compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent.parent
"""The folder that every generated file is in; their paths are relative to it."""

Source = Callable[[], Mapping[Path, str]]
"""What makes generated files: their texts by their paths."""


def out_of_step(sources: tuple[Source, ...]) -> dict[Path, str]:
    """The files that are missing or differ from what is generated, with the text that they should have."""
    wanted: dict[Path, str] = {}
    for source in sources:
        made = source()
        assert wanted.keys().isdisjoint(made), "two sources make the same file"
        wanted.update(made)
    return {path: text for path, text in wanted.items() if _read(DEPLOY / path) != text}


def write(files: Mapping[Path, str]) -> None:
    """Write generated files."""
    for path, text in files.items():
        target = DEPLOY / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
