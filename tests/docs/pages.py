"""The documents and their blocks of code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
"""Pages for users: the README and everything under docs/."""
DOCUMENTS = (
    *PAGES,
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "config.example.yaml")),
)
"""The pages for users, and files for contributors and the example config."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code. `line` is its first line on the page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """Return the path of a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """Yield the blocks of a page in these languages, or in all languages if none is given."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        if not languages or match["language"] in languages:
            inner = textwrap.dedent(match["text"]) if match["indent"] else match["text"]  # in a list
            yield Block(page, text.count("\n", 0, match.start()) + 2, match["language"], inner)


def all_blocks(*languages: str) -> list[Block]:
    """Return the blocks of all pages for users."""
    return [block for page in PAGES for block in blocks(page, *languages)]


def prose(page: Path) -> str:
    """Return the text of a page without its blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    """Return the code in sentences and tables of a page."""
    return _SPAN.findall(prose(page))
