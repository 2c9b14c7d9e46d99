"""Durations read and write as Prometheus's do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.config.kinds import MAX_DURATION, format_duration, parse_duration

SECONDS = st.integers(0, MAX_DURATION)


_BAD = "0|60|s|1|1w|1y|500ms|1.5h|-5m|+5m| 5m|5m |5m\n|5 m|5M|1m1h|1m1m|1h 30m|٣m|1_0s|5min|3651d|3650d1s"


@pytest.mark.parametrize("text", ["", *_BAD.split("|")])
def test_rejects(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (60, "1m"), (90, "1m30s"), (86400, "1d"), (93784, "1d2h3m4s")]
)
def test_writes(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.tuples(st.integers(0, 3000), st.integers(0, 9999), st.integers(0, 9999), st.integers(0, 99999)))
def test_duration_is_the_sum_of_its_units_and_writes_shorter(numbers: tuple[int, int, int, int]) -> None:
    days, hours, minutes, seconds = numbers
    text = f"{days}d{hours}h{minutes}m{seconds}s"
    read = parse_duration(text)
    assert read == ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if hours < 24 and minutes < 60 and seconds < 60:  # else 8d58h becomes 10d10h
        assert len(format_duration(read)) <= len(text)
