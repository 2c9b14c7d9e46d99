"""SIGHUP from the start of a process to its end. tests/e2e/test_lifecycle.py has SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from trainfleet_exporter.process.signals import Signals, ignore_hangups


@pytest.fixture(autouse=True)
def _handler_as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def _send() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def test_early_hangup_is_handled_once_the_loop_runs() -> None:
    async def main() -> int:
        reloads: list[None] = []
        signals.on_hangup(lambda: reloads.append(None))
        return len(reloads)

    signals = Signals()
    signals.accept_hangups()
    assert asyncio.run(main()) == 0
    signals = Signals()
    signals.accept_hangups()
    _send()
    assert asyncio.run(main()) == 1


def test_hangup_wakes_the_loop_and_never_ends_the_process() -> None:
    async def run(stopped: asyncio.Event) -> None:
        reload = asyncio.Event()
        signals.on_hangup(reload.set)
        asyncio.get_running_loop().call_later(0, _send)
        await asyncio.wait_for(reload.wait(), 10)

    with Signals() as signals:
        signals.accept_hangups()
        assert signals.serve(run) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signals.accept_hangups()
        _send()  # the loop is closed


def test_hangups_are_ignored_until_they_are_restored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    restore = ignore_hangups()
    _send()
    restore()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_handler_of_a_parent_stays_during_the_imports() -> None:
    """`nohup` sets SIG_IGN, which must not become SIG_DFL."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ignore_hangups()()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
