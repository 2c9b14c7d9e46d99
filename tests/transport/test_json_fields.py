"""Tolerant reading of fields."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.transport import json_fields
from trainfleet_exporter.transport.json_fields import counting_unusable

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(_JSON)
def test_whatever_a_cloud_sends_is_read_or_passed_over(value: Any) -> None:
    fields = {"key": value}
    readers = (json_fields.number, json_fields.utc_time, json_fields.whole)
    for read in readers:
        found = read(fields, "key")
        assert found is None or math.isfinite(found)
    assert isinstance(json_fields.text(fields, "key"), str)
    assert json_fields.flag(fields, "key") in (None, True, False)


@pytest.mark.parametrize("value", [None, "", True, math.nan, math.inf, -1, "-1", "x", [], {}, 10**400])
def test_not_a_number(value: Any) -> None:
    assert json_fields.number({"n": value}, "n") is None


def test_absent_is_not_zero() -> None:
    assert json_fields.number({}, "n") is None
    assert json_fields.number({"n": 0}, "n") == 0
    assert json_fields.number({"n": "0"}, "n") == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-01T00:00:10Z", 1767225610.0),
        ("2026-01-01T08:00:10+08:00", 1767225610.0),
        ("2026-01-01T00:00:10.250Z", 1767225610.25),
        ("2026-01-01T00:00:10", None),  # no zone: whose noon would it be?
        ("2026-02-30T00:00:00Z", None),
        ("", None),
        (None, None),
        (1767225610, None),
    ],
)
def test_times(text: Any, value: float | None) -> None:
    assert json_fields.utc_time({"t": text}, "t") == value


@given(st.integers(86_400, 4_000_000_000))
def test_times_round_trip(unix: int) -> None:
    assert json_fields.utc_time({"t": json_fields.iso_time(unix)}, "t") == unix


NOT_SET = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00.000Z",
    "0001-01-01T08:05:43+08:05",
    "0001-01-01T00:00:00+08:00",
    "1969-12-31T16:00:00-08:00",
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00.000000000Z",
    "1970-01-01T00:00:00.999Z",
    "1970-01-01T08:00:00+08:00",
    "1970-01-01T00:00:00+08:00",
    "1970-01-01T00:00:00-08:00",
    "1970-01-01T08:00:00Z",
)


@pytest.mark.parametrize("text", NOT_SET)
def test_a_time_that_is_not_set_is_absent(text: str) -> None:
    with counting_unusable() as lost:
        assert json_fields.utc_time({"t": text}, "t") is None
    assert not lost  # nothing was given
