"""Subjects: one object for each thing, until its job is no more."""

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


def test_subjects_of_ended_jobs_are_forgotten_and_others_are_not() -> None:
    subjects = Subjects()
    kept, gone = subjects.get(("a", "a-0")), subjects.get(("b", "b-0"))
    subjects.keep_if({"a"}.__contains__)
    assert len(subjects) == 1
    assert subjects.get(("a", "a-0")) is kept
    assert subjects.get(("b", "b-0")) is not gone
