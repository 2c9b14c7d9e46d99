"""Turns of a limiter, and its rate: down when the service throttles, slowly up again, never above the config."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from tests.transport.rig import now
from trainfleet_exporter.errors import CloudError, RequestTimedOut
from trainfleet_exporter.transport.calls import CallLimits
from trainfleet_exporter.transport.limiter import Limiter

MINUTE = 60.0


def _limiter(rate: float = 5, concurrency: int = 1000) -> Limiter:
    return Limiter("host", CallLimits(requests_per_second=rate, concurrency=concurrency))


async def _times(limiter: Limiter, count: int) -> list[float]:
    start, times = now(), []
    for _ in range(count):
        await limiter.acquire(start + 10_000)
        times.append(now() - start)
        limiter.release()
    return times


async def _refusal(limiter: Limiter, deadline: float) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await limiter.acquire(deadline)
    return caught.value


@settings(max_examples=60)
@given(
    rate=st.floats(min_value=0.3, max_value=50),
    concurrency=st.integers(min_value=1, max_value=4),
    steps=st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=1.5),  # seconds after the one before
            st.floats(min_value=0, max_value=0.5),  # seconds that it keeps its turn
            st.sampled_from([None, None, 0.0, 0.2]),  # when it is cancelled
            st.sampled_from([0.0, 0.0, 0.0, 0.7]),  # pause that it causes
        ),
        max_size=40,
    ),
)
def test_turns_never_exceed_burst_plus_rate(
    rate: float, concurrency: int, steps: list[tuple[float, float, float | None, float]]
) -> None:
    async def main() -> None:
        limiter = _limiter(rate, concurrency)
        used: list[float] = []
        running = most = 0

        async def one(keep: float, pause: float) -> None:
            nonlocal running, most
            await limiter.acquire(now() + 1000)
            used.append(now())
            running += 1
            most = max(most, running)
            try:
                await asyncio.sleep(keep)
                if pause:
                    limiter.pause(pause)
            finally:
                running -= 1
                limiter.release()

        tasks = []
        for gap, keep, cancel_after, pause in steps:
            await asyncio.sleep(gap)
            tasks.append(asyncio.create_task(one(keep, pause)))
            if cancel_after is not None:
                asyncio.get_running_loop().call_later(cancel_after, tasks[-1].cancel)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        burst = max(1, rate)
        for first, start in enumerate(used):
            for last in range(first, len(used)):
                assert last - first + 1 <= burst + rate * (used[last] - start) + 1e-4
        assert most <= concurrency
        # Nothing was lost on the way: after a rest a whole burst is there again, and every slot.
        await asyncio.sleep(burst / rate + 2)
        assert await _times(limiter, int(burst)) == [0] * int(burst)
        for _ in range(concurrency):
            await limiter.acquire(now() + 1000)

    run_stepped(main)


async def test_a_queue_that_cannot_end_in_time_is_refused_at_once() -> None:
    limiter = _limiter(rate=2)
    await _times(limiter, 2)
    waiting = [asyncio.create_task(limiter.acquire(100)) for _ in range(4)]
    await asyncio.sleep(0)
    error = await _refusal(limiter, 2.5)  # the fifth in the queue would come at 2.5
    assert isinstance(error, RequestTimedOut)
    assert error.message == (
        "host: 4 calls wait before this one; 2 requests a second are too few for the 2.5 s until the poll's deadline"
    )
    assert now() == 0
    await limiter.acquire(2.6)
    await asyncio.gather(*waiting)


# The rate


@settings(max_examples=60)
@given(
    configured=st.floats(min_value=0.05, max_value=50),
    steps=st.lists(
        st.tuples(st.floats(min_value=0, max_value=900), st.floats(min_value=0, max_value=30)),
        max_size=30,
    ),
)
def test_rate_stays_in_bounds_and_recovers(configured: float, steps: list[tuple[float, float]]) -> None:
    async def main() -> None:
        limiter = _limiter(configured)
        for gap, ago in steps:
            await asyncio.sleep(gap)
            before = limiter.rate
            limiter.throttled(now() - ago)
            assert 0 < limiter.rate <= before
        await asyncio.sleep(21 * MINUTE)
        assert limiter.rate == configured

    run_stepped(main)
