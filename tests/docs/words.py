"""The rules for every sentence that a user reads: words to avoid, at most 25 words, at most two commas."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_WORDS = 25
MOST_COMMAS = 2
AVOIDED = re.compile(
    r"\b(told|tell(?:s|ing)?|mend(?:s|ed|ing)?|anew|whoever|nobody|somebody|beside|for good|by far|to be had"
    r"|c[oa]mes? about|as far as may be|what is no more|it is so that)\b",
    re.IGNORECASE,
)
VAGUE = re.compile(r"\b(as far as|whatever|whichever|wherever|nothing but|cannot print)\b", re.IGNORECASE)
"""Words of sentences that do not say what they mean; old comments of the code still have them."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of Markdown without its blocks: those of paragraphs, of items, and of each cell of a table.

    Code is one word, and so is a list of code or links.
    """
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n)+", "", text)  # indented code
    text = text.replace("<br>", "|")
    text = re.sub(r"<[^>]+>|!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"(?:\[[^\]]+\]\([^)]*\)(?:,\s+)?){3,}", "LINKS", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`\n]+`", "CODE", text)
    text = re.sub(r"CODE(?:(?:,|,? and|,? or)\s+CODE){2,}", "CODE", text)
    text = re.sub(r"^ *(?:[-*]|\d+\.|#+) ", "\n\n", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\|", text):
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())):
            if re.search(r"\w", sentence):
                yield sentence


def violations(sentence: str, *, words_only: bool = False) -> list[str]:
    """The rules that a sentence breaks. `words_only` leaves out its length, its commas and VAGUE words."""
    found = [f"avoid {word!r}" for word in AVOIDED.findall(sentence)]
    if words_only:
        return found
    found += [f"avoid {word!r}" for word in VAGUE.findall(sentence)]
    if (words := len(sentence.split())) > MOST_WORDS:
        found.append(f"{words} words")
    if (commas := len(re.findall(r",\s", sentence))) > MOST_COMMAS:
        found.append(f"{commas} commas")
    return found
