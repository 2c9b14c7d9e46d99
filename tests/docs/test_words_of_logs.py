"""Log messages and errors keep the rules of words.py, and the page of log messages lists each of them."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping

import pytest

from tests.docs.messages import PACKAGES, Message, NotFixedError, error_texts, log_messages, sources
from tests.docs.pages import ROOT
from tests.docs.words import violations

PAGE = ROOT / "docs" / "log-messages.md"
_ROW = re.compile(r"^\| `([^`]+)` \| (warn|error) \| ([^|]*) \| ([^|]+) \|$", re.MULTILINE)

EXCEPTIONS: Mapping[str, str] = {}
"""Sentences that may break a rule, with the reason."""


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message, without the list of allowed values."""
    for clause in re.split(r"; |(?<=[.!?]) ", text):
        if not clause.startswith("allowed: "):
            yield clause


def faults(text: str) -> dict[str, list[str]]:
    """Return the broken rules of each sentence of a message."""
    found = {sentence: violations(sentence) for sentence in sentences(text) if sentence not in EXCEPTIONS}
    return {sentence: broken for sentence, broken in found.items() if broken}


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(log_messages(sources()))


def test_log_messages_keep_the_rules(messages: list[Message]) -> None:
    assert len(messages) > 50
    assert {message.place: found for message in messages if (found := faults(message.text))} == {}


def test_errors_keep_the_rules() -> None:
    found = list(error_texts(sources()))
    assert len(found) > 200
    assert {error.place: broken for error in found if (broken := faults(error.text))} == {}


def test_the_page_lists_every_message(messages: list[Message]) -> None:
    """The page has a row for each message at warning or above: text, level, fields and what to do."""
    serious: dict[tuple[str, str], set[str]] = {}
    for message in messages:
        if message.level in ("warn", "error"):
            serious.setdefault((message.text, message.level), set()).update(message.fields)
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    listed = {(text, level): set(re.findall(r"`([^`]+)`", fields)) for text, level, fields, _ in rows}
    assert len(listed) == len(rows)
    assert listed == serious


@pytest.mark.parametrize("package", PACKAGES)
def test_the_source_avoids_the_words(package: str) -> None:
    """Docstrings, comments, names and other texts do not contain the words."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {fault}"
        for path in sorted((ROOT / "src" / package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for fault in violations(line, words_only=True)
    ]
    assert found == []


def _parsed(code: str) -> dict[str, ast.Module]:
    return {"planted.py": ast.parse(textwrap.dedent(code))}


PLANTED = """
    TEXT = "a text"

    def planted(self, error):
        log.warning("nobody was told", extra=fields(file=1, error=error))
        facts = fields(**self._who, part=2)
        log.error(TEXT if error else "another text", exc_info=error, extra=facts)
        poll.warn("a poll", job=3)
        log.debug("no facts")
"""


def test_planted_messages_are_found() -> None:
    fields = frozenset({"provider", "collector", "part", "trace"})
    assert list(log_messages(_parsed(PLANTED)))[1:] == [
        Message("planted.py:7", "error", "a text", fields),
        Message("planted.py:7", "error", "another text", fields),
        Message("planted.py:8", "warn", "a poll", frozenset({"provider", "collector", "job"})),
        Message("planted.py:9", "debug", "no facts", frozenset()),
    ]


@pytest.mark.parametrize(
    "call",
    [
        'log.warning(f"no {file}")',
        'log.warning("no %s", file)',
        "log.info(text)",
        'log.error("no", extra={"fields": {}})',
        'log.error("no", extra=fields(**others))',
    ],
)
def test_a_message_that_is_not_fixed_is_found(call: str) -> None:
    with pytest.raises(NotFixedError):
        list(log_messages(_parsed(f"def planted(file, text):\n    {call}")))
