"""Pages that keep the style rules: sentences of at most 25 words and two commas, and none of the words to avoid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name_of, prose

_NAMES = (
    "command-line",
    "credentials",
    "install-compose",
    "install-docker",
    "install-kubernetes",
    "install-pip",
    "install-systemd",
    "operate",
    "troubleshoot",
    "upgrade",
)
STYLED = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in _NAMES))
_MOST_WORDS = 25
_MOST_COMMAS = 2
AVOIDED = re.compile(
    r"\b(told|tells?|mend(?:s|ed)?|anew|whoever|nobody|somebody|beside|for good|by far|to be had|comes? about"
    r"|as far as may be|what is no more|it is so that)\b",
    re.IGNORECASE,
)


def sentences(text: str) -> Iterator[str]:
    """The sentences of Markdown without its blocks: those of paragraphs, of items, and of each cell of a table."""
    text = re.sub(r"<[^>]+>|!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"(?:\[[^\]]+\]\([^)]*\)(?:, )?){3,}", "LINKS", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`\n]+`", "CODE", text)
    text = re.sub(r"^ *(?:[-*]|\d+\.|#+) ", "\n\n", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\|", text):
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())):
            if re.search(r"\w", sentence):
                yield sentence


def violations(sentence: str) -> list[str]:
    """What the rules have against a sentence."""
    found = [f"avoid {word!r}" for word in AVOIDED.findall(sentence)]
    if (words := len(sentence.split())) > _MOST_WORDS:
        found.append(f"{words} words")
    if (commas := sentence.count(", ")) > _MOST_COMMAS:
        found.append(f"{commas} commas")
    return found


@pytest.mark.parametrize("page", STYLED, ids=name_of)
def test_every_sentence_keeps_the_rules(page: Path) -> None:
    found = {sentence: violations(sentence) for sentence in sentences(prose(page))}
    assert {sentence: faults for sentence, faults in found.items() if faults} == {}


def test_sentences_are_found() -> None:
    text = "# A head\n\nOne is here. Two `a, b, c` is\nthere: [three](x.md).\n\n- an item\n\n| a | b, c |\n|---|---|\n"
    assert list(sentences(text)) == [
        "A head",
        "One is here.",
        "Two CODE is there: three.",
        "an item",
        "a",
        "b, c",
    ]


@pytest.mark.parametrize(
    ("sentence", "fault"),
    [
        ("The log tells why.", "avoid 'tells'"),
        ("Whoever reads it, waits.", "avoid 'Whoever'"),
        ("a, b, c, d", "3 commas"),
        ("word " * 26, "26 words"),
    ],
)
def test_a_violation_is_found(sentence: str, fault: str) -> None:
    assert violations(sentence) == [fault]
