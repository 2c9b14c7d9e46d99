"""SIGHUP from the first moment of a process to its last."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from trainfleet_exporter.hangup import Hangup


@pytest.fixture(autouse=True)
def _handler_as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def _send() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def test_one_that_comes_before_anybody_listens_is_told_then() -> None:
    async def main() -> int:
        told: list[None] = []
        hangup.listen(lambda: told.append(None))
        return len(told)

    hangup = Hangup()
    assert asyncio.run(main()) == 0
    hangup = Hangup()
    _send()
    assert asyncio.run(main()) == 1


def test_one_wakes_the_loop_and_none_ends_the_process() -> None:
    hangup = Hangup()

    async def main() -> None:
        came = asyncio.Event()
        hangup.listen(came.set)
        asyncio.get_running_loop().call_later(0, _send)
        await asyncio.wait_for(came.wait(), 10)

    asyncio.run(main())
    _send()  # the loop is closed
    hangup.ignore()
    _send()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
