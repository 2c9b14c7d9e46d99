"""The thread that polls: what crosses, and how it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from trainfleet_exporter.polling.poll_thread import PollThread


@pytest.fixture(autouse=True)
def _switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_calls_run_in_the_thread_until_it_is_closed() -> None:
    async def where(seconds: float) -> tuple[str, int]:
        await asyncio.sleep(seconds)
        return threading.current_thread().name, os.nice(0)

    async def main() -> None:
        polls, posted = PollThread(lambda: None), threading.Event()
        polls.post(posted.set)  # not yet
        assert await polls.call(where(0)) == ("polls", min(os.nice(0) + 12, 19))  # scrapes go first
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


def test_polls_run_where_a_filter_forbids_their_niceness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "setpriority", Mock(side_effect=PermissionError(1, "Operation not permitted")))

    async def main() -> None:
        polls = PollThread(lambda: None)
        assert await polls.call(asyncio.sleep(0, "here")) == "here"
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
