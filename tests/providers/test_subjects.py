"""Subjects: one object for each thing."""

from __future__ import annotations

from trainfleet_exporter.providers.subjects import Subjects


def test_what_has_the_same_name_is_the_same_object() -> None:
    subjects = Subjects()
    first = subjects.get(("a", "a-0"))
    assert subjects.get(("a", "a-0")) is first
    assert first.keys == ("a", "a-0")
    assert first.labels == ""
    assert subjects.get(("a", "a-1")) is not first
    assert len(subjects) == 2
