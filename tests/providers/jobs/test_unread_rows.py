"""Rows of a list that cannot be read prove nothing gone, as far as they could be what is missing."""

from __future__ import annotations

import pytest

from trainfleet_exporter.providers.jobs.listing import with_unread


@pytest.mark.parametrize(
    ("found", "known", "malformed", "named", "expected"),
    [
        ("ab", "abc", 0, "ab", "ab"),  # every row was read: what is missing is gone
        ("ab", "abc", 1, "ab", "abc"),  # the broken row may be that of c
        ("ab", "abcd", 1, "ab", "ab"),  # one of c and d is surely gone, but not which
        ("ab", "abcd", 2, "ab", "abcd"),
        ("ab", "abc", 1, "abc", "ab"),  # c was read, and left out on purpose
        ("abe", "abc", 1, "abe", "abec"),
        ("", "", 3, "", ""),
    ],
)
def test_what_was_known_is_kept_for_a_broken_row(
    found: str, known: str, malformed: int, named: str, expected: str
) -> None:
    assert with_unread(found, known, malformed=malformed, named=named) == tuple(expected)


def test_it_does_not_grow_while_a_row_stays_broken() -> None:
    known: tuple[str, ...] = tuple("abcde")
    for number in range(200):
        found = [*known[1:5], f"new-{number}"]
        known = with_unread(found, known, malformed=1, named=found)
        assert len(known) <= 6
