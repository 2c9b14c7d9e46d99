"""Jobs that are not translated again: the same as if they were, in everything that is shown and counted."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.translated import DurationField, Translated, with_duration
from trainfleet_exporter.quantities import counting_unusable, mapping, number, text

DURATION = DurationField((("state", "duration"),), lambda row: number(mapping(row, "state"), "duration"))
Row = dict[str, Any]


def _job(row: Row) -> Job | None:
    job_id = text(row, "id")
    state = mapping(row, "state")
    return (
        Job(job_id=job_id, name=text(row, "name"), nodes=number(row, "nodes"), duration=number(state, "duration"))
        if job_id
        else None
    )


class Translator:
    """What a cloud hands in, counting how often it is asked."""

    def __init__(self, depends: str = "") -> None:
        self.depends = depends
        self.calls = 0
        self.translated = Translated()

    def __call__(self, row: Row) -> Job | None:
        def translate(given: Row) -> Job | None:
            self.calls += 1
            job = _job(given)
            return job and replace(job, reason=self.depends)

        return self.translated.job(text(row, "id"), row, DURATION, depends=self.depends, translate=translate)


def _row(duration: object = 5, **fields: object) -> Row:
    return {"id": "a", "name": "train", "nodes": 2, "state": {"phase": "Running", "duration": duration}, **fields}


def test_a_row_in_which_time_went_by_is_not_translated_again() -> None:
    ask = Translator()
    first, later = ask(_row(5)), ask(_row(65))
    assert ask.calls == 1
    assert first == Job(job_id="a", name="train", nodes=2, duration=5)
    assert later == Job(job_id="a", name="train", nodes=2, duration=65)
    assert first is not None
    assert first.duration == 5  # who still holds the job of the last poll finds it as it was
    assert later is not None
    assert later.name is first.name


def test_what_did_not_change_at_all_is_the_very_same_object() -> None:
    ask = Translator()
    first = ask(_row(5))
    assert ask(_row(5)) is first
    later = ask(_row(6))
    assert ask(_row(6)) is later
    assert ask.calls == 1


@pytest.mark.parametrize("change", [{"name": "other"}, {"nodes": "2"}, {"more": None}, {"state": {"phase": "Running"}}])
def test_any_other_change_is_translated(change: Row) -> None:
    ask = Translator()
    ask(_row())
    assert ask(_row(**copy.deepcopy(change))) == _job(_row(**change))
    assert ask.calls == 2


def test_what_a_translation_depends_on_besides_the_row_counts_as_well() -> None:
    ask = Translator("v100")
    ask(_row())
    ask.depends = "a100"
    job = ask(_row())
    assert job is not None
    assert job.reason == "a100"
    assert ask.calls == 2


def test_a_row_is_handed_back_as_it_was() -> None:
    ask = Translator()
    for duration in (5, 6, "soon"):
        row = _row(duration)
        ask(row)
        assert row == _row(duration)


def test_a_duration_in_any_of_its_places_is_hidden() -> None:
    field = DurationField((("duration",), ("version", "duration")), lambda row: number(row, "duration"))
    translated = Translated()
    calls = []

    def translate(row: Row) -> Job:
        calls.append(row)
        return Job(job_id="a")

    for seconds in range(3):
        row = {"id": "a", "duration": seconds, "version": {"duration": seconds, "name": "V1"}}
        found = translated.job("a", row, field, depends=None, translate=translate)
        assert found == Job(job_id="a", duration=seconds)
    assert len(calls) == 1


def test_what_cannot_be_used_is_counted_each_time_and_once() -> None:
    ask = Translator()
    expected = [
        (_row("soon", nodes="many"), {"malformed": 2}),
        (_row("soon", nodes="many"), {"malformed": 2}),
        (_row(5, nodes="many"), {"malformed": 1}),
        (_row(-5, nodes="many"), {"malformed": 1, "out_of_range": 1}),
        (_row(5), {}),
    ]
    for row, lost in expected:
        with counting_unusable() as counts:
            ask(row)
        assert counts == lost
    assert ask.calls == 2


def test_without_anybody_who_counts_it_is_all_the_same() -> None:
    ask = Translator()
    assert ask(_row("soon", nodes="many")) == ask(_row("soon", nodes="many")) == Job(job_id="a", name="train")


def test_a_row_that_is_no_job_is_none_each_time() -> None:
    ask = Translator()
    assert ask(_row(id="")) is None
    assert ask(_row(id="")) is None
    assert len(ask.translated) == 0


def test_rows_that_cannot_be_digested_are_translated_each_time() -> None:
    ask = Translator()
    for _ in range(2):
        assert ask(_row(huge=10**30)) == _job(_row())
    assert ask.calls == 2


def test_a_failed_translation_leaves_the_row_whole_and_is_tried_again() -> None:
    translated, row = Translated(), _row()

    def fail(row: Row) -> Job:
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            translated.job("a", row, DURATION, depends=None, translate=fail)
        assert row == _row()


def test_jobs_that_are_no_more_are_forgotten() -> None:
    ask = Translator()
    for job_id in "abc":
        ask(_row(id=job_id))
    ask.translated.keep_only({"b", "d"})
    assert len(ask.translated) == 1
    ask(_row(id="b"))
    assert ask.calls == 3
    ask(_row(id="a"))
    assert ask.calls == 4


def test_bytes_may_stand_for_the_row_that_was_just_translated() -> None:
    ask = Translator()
    job = ask(_row(5))
    assert job is not None
    ask.translated.recognize(job, b"raw", is_looked_up=True)
    known = ask.translated.again(b"raw", 5)
    assert known is not None
    assert known.job is job
    assert known.is_looked_up
    known = ask.translated.again(b"raw", 6)
    assert known is not None
    assert known.job == replace(job, duration=6)
    assert ask(_row(6)) is known.job
    assert ask.translated.again(b"other", 6) is None


def test_bytes_do_not_stand_for_a_job_that_has_become_another_one() -> None:
    ask = Translator()
    first = ask(_row())
    assert first is not None
    ask.translated.recognize(first, b"first")
    second = ask(_row(name="other"))
    assert second is not None
    assert ask.translated.again(b"first", 5) is None
    ask.translated.recognize(first, b"first")  # not what was translated last
    assert ask.translated.again(b"first", 5) is None
    ask.translated.recognize(second, b"second")
    ask.translated.recognize(second, b"third")
    assert ask.translated.again(b"second", 5) is None
    assert ask.translated.again(b"third", 5) is not None


def test_bytes_are_forgotten_with_their_job() -> None:
    ask = Translator()
    job = ask(_row())
    assert job is not None
    ask.translated.recognize(job, b"raw")
    ask.translated.keep_only({"a"})
    assert ask.translated.again(b"raw", 5) is not None
    ask.translated.keep_only({"b"})
    assert ask.translated.again(b"raw", 5) is None


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
ROW = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", "b"])},
    optional={
        "nodes": ANY | st.integers(-1, 2),
        "name": st.sampled_from(["x", "y"]),
        "state": ANY | st.fixed_dictionaries({}, optional={"duration": ANY | st.integers(-1, 3)}),
    },
)


@given(st.lists(ROW, max_size=12))
def test_whatever_comes_the_job_is_that_of_a_translation(rows: list[Row]) -> None:
    ask = Translator()
    for row in rows:
        as_given = json.dumps(row)
        with counting_unusable() as expected:
            job = _job(row)
        with counting_unusable() as counts:
            found = ask(row)
        assert found == job
        assert counts == expected
        assert json.dumps(row) == as_given


@given(st.builds(Job, job_id=st.text(), name=st.text(), nodes=st.none() | st.floats(allow_nan=False)), st.floats(0))
def test_a_job_at_another_time_is_the_same_otherwise(job: Job, seconds: float) -> None:
    before = replace(job)
    assert with_duration(job, seconds) == replace(job, duration=seconds)
    assert job == before


def test_nothing_is_counted_for_a_field_that_was_not_given() -> None:
    ask = Translator()
    with counting_unusable() as counts:
        ask(_row(None))
        ask(_row(-1))
    assert counts == Counter()
