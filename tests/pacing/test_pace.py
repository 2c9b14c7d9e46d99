"""The planned calls of 30 days: never more than allowed, and all collectors of an account stretch alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.pacing import MONTH_SECONDS, Pace

_APIS = ("dlc", "cloudmonitor")
_calls = st.dictionaries(st.sampled_from([*_APIS, "sts"]), st.integers(0, 500), max_size=3)
_polls = st.lists(st.tuples(st.integers(0, 4), _calls), max_size=30)


def _paces(intervals: Sequence[float], allowed: Mapping[str, int]) -> list[Pace]:
    paces: list[Pace] = []
    paces += [Pace(interval, allowed, lambda: paces) for interval in intervals]
    return paces


def _planned(paces: Sequence[Pace], api: str) -> float:
    return sum(MONTH_SECONDS / pace.interval * pace.calls.get(api, 0.0) for pace in paces)


@given(
    st.lists(st.floats(10, 86400), min_size=5, max_size=5),
    st.fixed_dictionaries({}, optional={api: st.integers(1, 10**7) for api in _APIS}),
    _polls,
)
def test_the_plan_is_never_above_the_allowed_calls(
    intervals: list[float], allowed: dict[str, int], polls: list[tuple[int, dict[str, int]]]
) -> None:
    paces = _paces(intervals, allowed)
    for number, calls in polls:
        paces[number].polled(calls)
        for api, limit in allowed.items():
            assert _planned(paces, api) <= limit * (1 + 1e-9)
        assert all(pace.interval >= pace.configured for pace in paces)


def test_jobs_and_details_stretch_by_one_factor() -> None:
    jobs, pods, pools = _paces([60.0, 300.0, 60.0], {"dlc": 43_200})
    jobs.polled({"dlc": 5})
    pods.polled({"dlc": 100})
    pools.polled({"paistudio": 7})
    assert jobs.interval / 60 == pytest.approx(pods.interval / 300)
    assert jobs.interval == pytest.approx(60 * (5 + 20))
    assert pools.interval == 60


def test_a_collector_of_two_apis_keeps_the_slower_pace() -> None:
    both, one = _paces([60.0, 60.0], {"dlc": 43_200, "cloudmonitor": 4_320})
    both.polled({"dlc": 2, "cloudmonitor": 1})
    one.polled({"dlc": 2})
    assert both.interval == pytest.approx(600)
    assert one.interval == pytest.approx(240)


def test_one_expensive_poll_is_paid_by_those_after_it() -> None:
    """Intervals follow the mean, so the calls of a long time are those of the pace."""
    (pace,) = _paces([60.0], {"dlc": 43_200})
    elapsed, made = 0.0, 0
    for number in range(1000):
        calls = 110 if number % 100 == 50 else 10
        pace.polled({"dlc": calls})
        made += calls
        elapsed += pace.interval
    assert made / elapsed * MONTH_SECONDS == pytest.approx(43_200, rel=0.02)
