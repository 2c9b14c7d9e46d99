"""Dated readings: their order, and what wholes made of parts have at each time."""

from __future__ import annotations

from trainfleet_exporter.providers.usage.dated import Dated, whole


def _dated(*pairs: tuple[int, float | None]) -> Dated:
    found = Dated()
    for time, value in pairs:
        found.add(time, value)
    return found


def _pairs(dated: Dated) -> list[tuple[int, float]]:
    return list(zip(dated.times, dated.values, strict=True))


def test_a_whole_of_ratios_is_the_mean_of_who_is_there() -> None:
    parts = [_dated((0, 0.2), (60, 0.2), (120, None)), _dated((0, 0.4), (120, 0.6))]
    assert _pairs(whole(parts, is_ratio=True)) == [(0, 0.3), (60, 0.2), (120, 0.6)]


def test_a_sum_that_lacks_a_part_is_none() -> None:
    gap = [_dated((0, 1.0), (60, 1.0), (120, 1.0)), _dated((0, 2.0), (120, 2.0))]
    assert _pairs(whole(gap, is_ratio=False)) == [(0, 3.0), (120, 3.0)]
    unfit = [_dated((0, 1.0), (60, 1.0)), _dated((0, 2.0), (60, None))]
    assert _pairs(whole(unfit, is_ratio=False)) == [(0, 3.0)]
    assert not whole(unfit, is_ratio=False, spoiled=True).times
    # Who falls silent for good is gone, unless nobody asked for what came after.
    silent = [_dated(*((time, 1.0) for time in range(0, 600, 60))), _dated((0, 2.0), (60, 2.0))]
    assert [time for time, _ in _pairs(whole(silent, is_ratio=False))] == list(range(0, 600, 60))
    assert [time for time, _ in _pairs(whole(silent, is_ratio=False, goes_on=600))] == [0, 60, 300, 360, 420, 480, 540]


def test_readings_are_sorted_and_the_first_of_a_time_counts() -> None:
    dated = _dated((60, 1.0), (0, 2.0), (60, 3.0))
    assert dated.sort() == 1
    assert _pairs(dated) == [(0, 2.0), (60, 1.0)]
