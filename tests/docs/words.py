"""The rules for each sentence for users: words to avoid, at most 25 words, at most two commas."""

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
"""Words of unclear sentences. Comments of the code may still contain them."""


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of Markdown without blocks: of paragraphs, items and cells of tables.

    Code counts as one word, and so does a list of code or links.
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
    """Return the rules that a sentence breaks. With `words_only`, only the rule about `AVOIDED` words counts."""
    found = [f"avoid {word!r}" for word in AVOIDED.findall(sentence)]
    if words_only:
        return found
    found += [f"avoid {word!r}" for word in VAGUE.findall(sentence)]
    if (words := len(sentence.split())) > MOST_WORDS:
        found.append(f"{words} words")
    if (commas := len(re.findall(r",\s", sentence))) > MOST_COMMAS:
        found.append(f"{commas} commas")
    return found
