"""The thread that polls: what crosses, how it ends, and what happens if it dies."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.logs import line_of
from trainfleet_exporter.polling.poll_thread import PollThread
from trainfleet_exporter.process.logs import facts_of


@pytest.fixture(autouse=True)
def _switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_calls_run_in_the_thread_until_it_is_closed() -> None:
    async def where(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return threading.current_thread().name

    async def main() -> None:
        polls, posted = PollThread(lambda: None), threading.Event()
        polls.post(posted.set)  # not yet
        assert await polls.call(where(0)) == "polls"
        assert not posted.is_set()
        polls.post(posted.set)
        hanging = asyncio.create_task(polls.call(where(3600)))
        assert await asyncio.to_thread(posted.wait, 10)
        await polls.close()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        polls.post(posted.clear)  # no more
        with pytest.raises(RuntimeError):
            await polls.call(where(0))
        assert posted.is_set()

    asyncio.run(main())


def test_error_of_a_call_reaches_the_caller() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        polls = PollThread(lambda: None)
        with pytest.raises(ZeroDivisionError):
            await polls.call(fail())
        await polls.close()

    asyncio.run(main())


def test_cancelled_wait_cancels_the_call() -> None:
    async def main() -> None:
        polls, begun, ended = PollThread(lambda: None), threading.Event(), threading.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

        waiting = asyncio.create_task(polls.call(work()))
        assert await asyncio.to_thread(begun.wait, 10)
        waiting.cancel()
        assert await asyncio.to_thread(ended.wait, 10)
        await polls.close()

    asyncio.run(main())


def test_main_thread_runs_while_the_other_computes() -> None:
    async def main() -> None:
        polls, over = PollThread(lambda: None), threading.Event()

        async def compute() -> None:
            while not over.is_set():
                sum(range(1000))

        computing = asyncio.create_task(polls.call(compute()))
        for _ in range(100):  # else it would not end
            await asyncio.sleep(0.001)
        assert sys.getswitchinterval() < 0.001
        over.set()
        await computing
        await polls.close()

    asyncio.run(main())


def test_thread_that_dies_is_reported_with_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        died = threading.Event()
        polls = PollThread(died.set)
        await polls.call(asyncio.sleep(0))

        def die() -> None:
            raise SystemExit("Authorization: Bearer abcdefgh12345678abcd")

        polls.post(die)
        assert await asyncio.to_thread(died.wait, 10)
        await polls.close()

    with caplog.at_level(logging.CRITICAL):
        asyncio.run(main())
    (record,) = caplog.records
    assert line_of(record).startswith("the poll thread died; the exporter exits")
    trace = facts_of(record)["trace"]
    assert "in die" in trace
    assert "abcdefgh" not in trace.splitlines()[-1]


def test_close_does_not_wait_for_a_thread_that_hangs() -> None:
    async def main() -> None:
        polls, goes_on = PollThread(lambda: None), threading.Event()
        await polls.call(asyncio.sleep(0))
        polls.post(lambda: goes_on.wait(30))
        began = time.monotonic()
        await polls.close()
        assert time.monotonic() - began < 10
        goes_on.set()

    asyncio.run(main())
