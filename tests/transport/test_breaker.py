from __future__ import annotations

import asyncio

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.errors import CircuitOpen
from trainfleet_exporter.transport import CALLER, Caller
from trainfleet_exporter.transport.breaker import Breaker


def _fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        breaker.admit().failed("connection refused")


def test_five_failures_in_a_row_open_it() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        _fail(breaker, 4)
        breaker.admit().succeeded()
        _fail(breaker, 4)
        breaker.check()
        _fail(breaker)
        with pytest.raises(CircuitOpen):
            breaker.check()

    run_stepped(main)


def test_the_refusal_says_since_when_for_how_long_and_why() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        _fail(breaker, 4)
        await asyncio.sleep(12)
        _fail(breaker)
        await asyncio.sleep(0.5)
        assert breaker.refusal(asyncio.get_running_loop().time()) == (
            "host: not tried: failing for 12.5 s, 5 times in a row; next try in 0.5 s; last: connection refused"
        )

    run_stepped(main)


def test_each_failed_trial_doubles_the_open_time_to_a_maximum() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        breaker = Breaker("host", max_open=6)
        _fail(breaker, 5)
        for seconds in (1, 2, 4, 6, 6):
            assert breaker.refusal(loop.time() + seconds - 0.01)
            assert not breaker.refusal(loop.time() + seconds)
            await asyncio.sleep(seconds)
            _fail(breaker)

    run_stepped(main)


def test_success_closes_it_and_forgets_how_long_it_was_open() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        _fail(breaker, 5)
        for seconds in (1, 2, 4):
            await asyncio.sleep(seconds)
            _fail(breaker)
        await asyncio.sleep(8)
        breaker.admit().succeeded()
        _fail(breaker, 5)
        await asyncio.sleep(1)
        breaker.check()

    run_stepped(main)


def test_only_one_trial_runs_at_a_time() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        _fail(breaker, 5)
        await asyncio.sleep(1)
        trial = breaker.admit()
        with pytest.raises(CircuitOpen, match="a trial is under way"):
            breaker.admit()
        trial.succeeded()
        breaker.admit().succeeded()

    run_stepped(main)


def test_an_abandoned_trial_leaves_the_next_one_free() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        _fail(breaker, 5)
        await asyncio.sleep(1)
        breaker.admit().abandon()
        trial = breaker.admit()
        assert trial.trial
        trial.failed("again")
        assert "next try in 2.0 s" in breaker.refusal(asyncio.get_running_loop().time())

    run_stepped(main)


def test_a_permit_is_settled_once() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        _fail(breaker, 4)
        permit = breaker.admit()
        permit.abandon()
        permit.failed("late")
        breaker.check()

    run_stepped(main)


def test_failures_of_earlier_attempts_do_not_extend_it() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        late = [breaker.admit() for _ in range(9)]
        for permit in late:
            permit.failed("timeout")
        await asyncio.sleep(1)
        breaker.check()

    run_stepped(main)


def test_late_success_closes_it_and_later_trial_counts_once() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        late = breaker.admit()
        _fail(breaker, 5)
        await asyncio.sleep(1)
        trial = breaker.admit()
        late.succeeded()
        breaker.check()
        trial.abandon()
        _fail(breaker, 4)
        breaker.check()

    run_stepped(main)


def test_failed_trial_after_a_success_is_one_failure() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        late = breaker.admit()
        _fail(breaker, 5)
        await asyncio.sleep(1)
        trial = breaker.admit()
        late.succeeded()
        trial.failed("again")
        breaker.check()

    run_stepped(main)


def test_failed_trial_fails_for_every_waiting_poll() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        _fail(breaker, 5)
        tried: list[str] = []

        async def poll(name: str) -> None:
            CALLER.set(Caller(name))
            await breaker.settled(50)
            try:
                permit = breaker.admit()
            except CircuitOpen:
                return
            tried.append(name)
            await asyncio.sleep(20)
            permit.failed("timeout")

        await asyncio.gather(*(asyncio.create_task(poll(name)) for name in "abcde"))
        assert tried == ["a"]
        assert asyncio.get_running_loop().time() == 20

    run_stepped(main)


def test_a_poll_whose_trial_was_abandoned_may_make_another() -> None:
    async def main() -> None:
        breaker = Breaker("host", max_open=30)
        CALLER.set(Caller("a"))
        _fail(breaker, 5)
        CALLER.set(Caller("b"))
        breaker.admit().abandon()
        assert breaker.admit().trial

    run_stepped(main)
