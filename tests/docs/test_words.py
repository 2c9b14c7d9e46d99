"""Pages keep the rules of words.py. To test a new kind of text, add a function to `SOURCES`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.docs.pages import PAGES, ROOT, name_of, prose
from tests.docs.words import sentences, violations


@dataclass(frozen=True, slots=True)
class Text:
    """A text for users, as Markdown without blocks of code."""

    name: str
    text: str
    words_only: bool = False
    """Whether sentences may be long, because they are generated from data."""

    def __str__(self) -> str:
        return self.name


_MARKS = r"<!-- (generated|measured|mistakes|public)(?:: begin)? -->.*?<!-- (?:end of \1|\1: end) -->"
_FROM_CODE = re.compile(_MARKS, re.DOTALL)
"""Tables from HELP and docstrings. Other tests check these texts."""
_ROWS = re.compile(r"^\|.*$", re.MULTILINE)
_MADE_OF_RULES = "docs/rules.md"
"""Its rows are texts of the rules. Another test checks them."""
_MADE_OF_DATA = "docs/evidence/benchmarks.md"
"""Its sentences list versions, machines and methods of measurement."""


_MORE_PAGES = [
    ROOT / name
    for name in ("CONTRIBUTING.md", "SECURITY.md", "deploy/kubernetes/chart/README.md", "examples/lantern/README.md")
]


def _pages() -> Iterator[Text]:
    for page in (*PAGES, *_MORE_PAGES):
        name, text = name_of(page), _FROM_CODE.sub("", prose(page))
        if name == _MADE_OF_RULES:
            text = _ROWS.sub("", text)
        yield Text(name, text, words_only=name == _MADE_OF_DATA)


SOURCES: tuple[Callable[[], Iterator[Text]], ...] = (_pages,)
EXCEPTIONS: Mapping[str, str] = {}
"""Sentences that may break a rule, with the reason."""


@pytest.mark.parametrize("text", [text for source in SOURCES for text in source()], ids=str)
def test_every_sentence_keeps_the_rules(text: Text) -> None:
    found = {
        sentence: violations(sentence, words_only=text.words_only)
        for sentence in sentences(text.text)
        if sentence not in EXCEPTIONS
    }
    assert {sentence: faults for sentence, faults in found.items() if faults} == {}


def test_planted_sentences_are_found_in_a_page() -> None:
    planted = {
        "Nobody can tell what it was told.": ["avoid 'Nobody'", "avoid 'tell'", "avoid 'told'"],
        "It reads the file, the key, the certificate, and starts.": ["3 commas"],
        " ".join(["This", *["very"] * 23, "long", "sentence."]): ["26 words"],
    }
    page = "# Page\n\nA good sentence.\n\n" + "\n".join(planted)
    assert {sentence: faults for sentence in sentences(page) if (faults := violations(sentence))} == planted
