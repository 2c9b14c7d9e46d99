"""The generated files under deploy/ and docs/. `python -m deploy.generator` writes them, or compares with `--check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent.parent
"""The paths of generated files are relative to this folder."""

Source = Callable[[], Mapping[Path, str]]
"""A function that generates files. It returns the text of each file by path."""


def out_of_step(sources: tuple[Source, ...]) -> dict[Path, str]:
    """Return the generated text of each file that is missing or out of date, by path."""
    wanted: dict[Path, str] = {}
    for source in sources:
        made = source()
        assert wanted.keys().isdisjoint(made), "two sources make the same file"
        wanted.update(made)
    return {path: text for path, text in wanted.items() if _read(DEPLOY / path) != text}


def write(files: Mapping[Path, str]) -> None:
    """Write each text to its file."""
    for path, text in files.items():
        target = DEPLOY / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
