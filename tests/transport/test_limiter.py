from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from trainfleet_exporter.errors import CloudError, RequestTimedOut, Throttled
from trainfleet_exporter.transport.calls import CallLimits, Priority
from trainfleet_exporter.transport.limiter import Limiter

BULK, DETAIL = Priority.BULK, Priority.DETAIL


def _limiter(rate: float = 5, concurrency: int = 1000) -> Limiter:
    return Limiter("host", CallLimits(requests_per_second=rate, concurrency=concurrency))


def _now() -> float:
    return asyncio.get_running_loop().time()


@settings(max_examples=60)
@given(
    rate=st.floats(min_value=0.3, max_value=50),
    concurrency=st.integers(min_value=1, max_value=4),
    steps=st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=1.5),  # when it comes after the one before
            st.floats(min_value=0, max_value=0.5),  # how long it keeps its turn
            st.sampled_from([None, None, 0.0, 0.2]),  # when it is cancelled
            st.sampled_from([BULK, DETAIL]),
            st.sampled_from([0.0, 0.0, 0.0, 0.7]),  # pause that it causes
        ),
        max_size=40,
    ),
)
def test_turns_never_exceed_burst_plus_rate(
    rate: float, concurrency: int, steps: list[tuple[float, float, float | None, Priority, float]]
) -> None:
    async def main() -> None:
        limiter = _limiter(rate, concurrency)
        used: list[float] = []
        running = most = 0

        async def one(keep: float, priority: Priority, pause: float) -> None:
            nonlocal running, most
            await limiter.acquire(priority, _now() + 1000)
            used.append(_now())
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
        for gap, keep, cancel_after, priority, pause in steps:
            await asyncio.sleep(gap)
            task = asyncio.create_task(one(keep, priority, pause))
            tasks.append(task)
            if cancel_after is not None:
                asyncio.get_running_loop().call_later(cancel_after, task.cancel)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        burst = max(1, math.ceil(rate))
        for first, start in enumerate(used):
            for last in range(first, len(used)):
                assert last - first + 1 <= burst + rate * (used[last] - start) + 1e-4
        assert most <= concurrency
        # Nothing was lost on the way: after a rest a whole burst is there again, and every slot.
        await asyncio.sleep(burst / rate + 2)
        start = _now()
        for _ in range(burst):
            await limiter.acquire(BULK, start + 1000)
            limiter.release()
        assert _now() == start
        for _ in range(concurrency):
            await limiter.acquire(BULK, start + 1000)

    run_stepped(main)


def test_turns_come_at_the_rate_once_the_burst_is_used() -> None:
    async def main() -> None:
        limiter = _limiter(rate=2)
        times = []
        for _ in range(6):
            await limiter.acquire(BULK, 100)
            times.append(_now())
        assert times == pytest.approx([0, 0, 0.5, 1.0, 1.5, 2.0])

    run_stepped(main)


def test_a_rate_below_one_has_a_burst_of_one() -> None:
    async def main() -> None:
        limiter = _limiter(rate=0.25)
        times = []
        for _ in range(3):
            await limiter.acquire(BULK, 100)
            times.append(_now())
        assert times == pytest.approx([0, 4, 8])

    run_stepped(main)


def test_sweeps_precede_details_in_order_of_arrival() -> None:
    async def main() -> None:
        limiter = _limiter(concurrency=1)
        order: list[str] = []

        async def one(name: str, priority: Priority) -> None:
            await limiter.acquire(priority, 100)
            order.append(name)
            limiter.release()

        await limiter.acquire(BULK, 100)
        tasks = [
            asyncio.create_task(one(name, priority))
            for name, priority in (("d1", DETAIL), ("s1", BULK), ("d2", DETAIL), ("s2", BULK))
        ]
        await asyncio.sleep(1)
        limiter.release()
        await asyncio.gather(*tasks)
        assert order == ["s1", "s2", "d1", "d2"]

    run_stepped(main)


def test_cancelled_waiter_blocks_no_other() -> None:
    async def main() -> None:
        limiter = _limiter(concurrency=1)
        await limiter.acquire(BULK, 100)
        first = asyncio.create_task(limiter.acquire(BULK, 100))
        second = asyncio.create_task(limiter.acquire(BULK, 100))
        await asyncio.sleep(1)
        first.cancel()
        limiter.release()
        await second
        assert first.cancelled()

    run_stepped(main)


def test_call_cancelled_at_its_turn_returns_the_turn() -> None:
    async def main() -> None:
        limiter = _limiter(rate=1, concurrency=1)
        await limiter.acquire(BULK, 100)
        waiter = asyncio.create_task(limiter.acquire(BULK, 100))
        await asyncio.sleep(10)  # the token is there, the slot is not
        limiter.release()
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert waiter.cancelled()
        start = _now()
        await limiter.acquire(BULK, 100)
        assert _now() == start

    run_stepped(main)


def test_an_unused_turn_gives_its_token_back() -> None:
    async def main() -> None:
        limiter = _limiter(rate=1)
        for _ in range(5):
            await limiter.acquire(BULK, 100)
            limiter.release(used=False)
        assert _now() == 0

    run_stepped(main)


async def _refusal(limiter: Limiter, deadline: float) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await limiter.acquire(BULK, deadline)
    return caught.value


def test_a_queue_that_cannot_end_in_time_is_refused_at_once() -> None:
    async def main() -> None:
        limiter = _limiter(rate=2)
        for _ in range(2):
            await limiter.acquire(BULK, 100)
        waiting = [asyncio.create_task(limiter.acquire(BULK, 100)) for _ in range(4)]
        await asyncio.sleep(0)
        error = await _refusal(limiter, 2.5)  # the fifth in the queue would come at 2.5
        assert isinstance(error, RequestTimedOut)
        assert error.message == (
            "host: 4 calls wait ahead, more than 2 requests a second let through in the 2.5 s that this poll has left"
        )
        assert _now() == 0
        await limiter.acquire(BULK, 2.6)
        await asyncio.gather(*waiting)

    run_stepped(main)


def test_only_those_count_who_go_before_and_still_wait() -> None:
    async def main() -> None:
        limiter = _limiter(rate=1)
        await limiter.acquire(BULK, 100)
        details = [asyncio.create_task(limiter.acquire(DETAIL, 100)) for _ in range(5)]
        gone = [asyncio.create_task(limiter.acquire(BULK, 100)) for _ in range(5)]
        await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        await asyncio.wait(gone)
        await limiter.acquire(BULK, 1.5)
        assert _now() == 1
        await asyncio.gather(*details)
        assert _now() == pytest.approx(6)

    run_stepped(main)


def test_busy_slots_end_in_a_timeout_at_the_deadline() -> None:
    async def main() -> None:
        limiter = _limiter(concurrency=1)
        await limiter.acquire(BULK, 100)
        error = await _refusal(limiter, 7)
        assert isinstance(error, RequestTimedOut)
        assert _now() == 7
        limiter.release()
        await limiter.acquire(BULK, 100)

    run_stepped(main)


def test_a_deadline_that_has_passed_is_refused() -> None:
    async def main() -> None:
        assert isinstance(await _refusal(_limiter(), 0), RequestTimedOut)

    run_stepped(main)


def test_all_wait_through_a_pause() -> None:
    async def main() -> None:
        limiter = _limiter(rate=2)
        limiter.pause(3)
        limiter.pause(1)  # a shorter one does not shorten it
        times = []
        for _ in range(3):
            await limiter.acquire(BULK, 100)
            times.append(_now())
        assert times == pytest.approx([3, 3, 3.5])

    run_stepped(main)


def test_a_pause_beyond_the_deadline_is_refused_at_once() -> None:
    async def main() -> None:
        limiter = _limiter()
        limiter.pause(12)
        error = await _refusal(limiter, 12)
        assert isinstance(error, Throttled)
        assert error.message == "host asked to wait 12.0 s, longer than this poll has left"
        assert _now() == 0

    run_stepped(main)


def test_a_pause_with_a_queue_behind_it_is_refused_as_throttling() -> None:
    async def main() -> None:
        limiter = _limiter(rate=1)
        limiter.pause(5)
        waiting = asyncio.create_task(limiter.acquire(BULK, 100))
        await asyncio.sleep(0)
        error = await _refusal(limiter, 5.5)
        assert isinstance(error, Throttled)
        assert "asked to wait 5.0 s and 1 calls wait ahead" in error.message
        await waiting

    run_stepped(main)


def test_waiting_call_fails_at_a_pause_beyond_its_deadline() -> None:
    async def main() -> None:
        limiter = _limiter(concurrency=1)
        await limiter.acquire(BULK, 100)
        hasty = asyncio.create_task(limiter.acquire(BULK, 10))
        patient = asyncio.create_task(limiter.acquire(BULK, 100))
        await asyncio.sleep(1)
        limiter.pause(30)
        with pytest.raises(Throttled):
            await hasty
        assert _now() == 1
        limiter.release()
        await patient
        assert _now() == 31

    run_stepped(main)
