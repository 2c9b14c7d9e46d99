"""The rate of a limiter: down when the service throttles, slowly up again, never above what is configured."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from trainfleet_exporter.errors import RequestTimedOut, Throttled
from trainfleet_exporter.transport.calls import CallLimits, Priority
from trainfleet_exporter.transport.limiter import Limiter

MINUTE = 60.0


def _limiter(rate: float = 8, concurrency: int = 1000) -> Limiter:
    return Limiter("host", CallLimits(requests_per_second=rate, concurrency=concurrency))


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _times(limiter: Limiter, count: int) -> list[float]:
    start = _now()
    times = []
    for _ in range(count):
        await limiter.acquire(Priority.BULK, start + 10_000)
        times.append(_now() - start)
        limiter.release()
    return times


def test_throttling_halves_the_rate_and_the_burst() -> None:
    async def main() -> None:
        limiter = _limiter()
        limiter.throttled(_now())
        assert limiter.rate == 4
        times = await _times(limiter, 6)
        assert times[:4] == [0, 0, 0, 0]
        assert times[4:] == pytest.approx([0.25, 0.5], abs=0.01)

    run_stepped(main)


def test_attempts_that_were_under_way_together_halve_it_once() -> None:
    async def main() -> None:
        limiter = _limiter()
        await asyncio.sleep(5)
        for _ in range(10):
            limiter.throttled(started=4)
        assert limiter.rate == 4
        await asyncio.sleep(0.5)
        limiter.throttled(started=5.2)  # one that began after the rate was halved
        assert limiter.rate == pytest.approx(2, abs=0.01)

    run_stepped(main)


@pytest.mark.parametrize(("configured", "least"), [(8, 0.4), (0.2, 1 / 60), (0.01, 0.01)])
def test_it_never_falls_below_a_floor(configured: float, least: float) -> None:
    async def main() -> None:
        limiter = _limiter(configured)
        for _ in range(20):
            limiter.throttled(_now())
        assert limiter.rate == pytest.approx(least)

    run_stepped(main)


def test_rate_recovers_by_a_twentieth_a_minute() -> None:
    async def main() -> None:
        limiter = _limiter(8)
        limiter.throttled(_now())
        seen = []
        for _ in range(12):
            await asyncio.sleep(MINUTE)
            seen.append(limiter.rate)
        assert seen == pytest.approx([4.4, 4.8, 5.2, 5.6, 6.0, 6.4, 6.8, 7.2, 7.6, 8, 8, 8])

    run_stepped(main)


def test_a_pause_is_no_time_without_throttling() -> None:
    async def main() -> None:
        limiter = _limiter(8)
        limiter.throttled(_now())
        limiter.pause(10 * MINUTE)
        await asyncio.sleep(10 * MINUTE)
        assert limiter.rate == 4
        await asyncio.sleep(MINUTE)
        assert limiter.rate == pytest.approx(4.4)

    run_stepped(main)


def test_a_pace_that_the_service_names_is_kept_for_an_hour() -> None:
    async def main() -> None:
        limiter = _limiter(8)
        limiter.throttled(_now(), pace=1.0)
        assert limiter.rate == 1
        assert await _times(limiter, 4) == pytest.approx([0, 1, 2, 3])
        await asyncio.sleep(50 * MINUTE)
        assert limiter.rate == 1
        await asyncio.sleep(12 * MINUTE)
        assert 1 < limiter.rate <= 8

    run_stepped(main)


def test_throttled_rate_halves_and_recovers_to_the_named_pace() -> None:
    async def main() -> None:
        limiter = _limiter(8)
        limiter.throttled(_now(), pace=2.0)
        await asyncio.sleep(1)
        limiter.throttled(_now(), pace=2.0)  # another program calls with the same user
        assert limiter.rate == 1
        await asyncio.sleep(5 * MINUTE)
        assert limiter.rate == 2

    run_stepped(main)


def test_pace_above_the_configured_rate_is_ignored() -> None:
    async def main() -> None:
        limiter = _limiter(2)
        limiter.throttled(_now(), pace=200.0)
        assert limiter.rate == 1
        await asyncio.sleep(60 * MINUTE)
        assert limiter.rate == 2

    run_stepped(main)


def test_zero_pace_allows_one_request_an_hour() -> None:
    async def main() -> None:
        limiter = _limiter(2)
        limiter.throttled(_now(), pace=0.0)
        await limiter.acquire(Priority.BULK, 10_000)
        await limiter.acquire(Priority.BULK, 10_000)
        assert _now() == pytest.approx(3600, abs=1)

    run_stepped(main)


def test_errors_name_the_present_rate() -> None:
    async def main() -> None:
        limiter = _limiter(8)
        limiter.throttled(_now())
        waiting = [asyncio.create_task(limiter.acquire(Priority.BULK, 100)) for _ in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(RequestTimedOut, match=r"more than 4 requests a second \(after throttling; else 8\) let"):
            await limiter.acquire(Priority.BULK, 0.9)
        await asyncio.gather(*waiting)
        limiter.pause(30)
        with pytest.raises(Throttled, match=r"longer than this poll has left; 4\.\d+ requests a second \(after thr"):
            await limiter.acquire(Priority.BULK, _now() + 10)

    run_stepped(main)


@settings(max_examples=60)
@given(
    configured=st.floats(min_value=0.05, max_value=50),
    steps=st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=900),
            st.floats(min_value=0, max_value=30),
            st.none() | st.floats(min_value=0, max_value=100),
        ),
        max_size=30,
    ),
)
def test_rate_stays_in_bounds_and_recovers(configured: float, steps: list[tuple[float, float, float | None]]) -> None:
    async def main() -> None:
        limiter = _limiter(configured)
        for gap, ago, pace in steps:
            await asyncio.sleep(gap)
            before = limiter.rate
            limiter.throttled(_now() - ago, pace)
            assert 0 < limiter.rate <= before
        await asyncio.sleep(3600 + 21 * MINUTE)
        assert limiter.rate == configured

    run_stepped(main)
