"""The documents and the blocks of code in them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
"""What is for users: the README, everything under docs/."""
DOCUMENTS = (
    *PAGES,
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "config.example.yaml")),
)
"""Those, and what is for others."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code: where it begins, its language, its text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """A page as a person calls it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """The page's blocks, in some languages only where any are named."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        if not languages or match["language"] in languages:
            inner = textwrap.dedent(match["text"]) if match["indent"] else match["text"]  # within a list
            yield Block(page, text.count("\n", 0, match.start()) + 2, match["language"], inner)


def all_blocks(*languages: str) -> list[Block]:
    """The blocks of all pages."""
    return [block for page in PAGES for block in blocks(page, *languages)]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    """Code within the page's sentences and tables."""
    return _SPAN.findall(prose(page))
