"""Circuit breakers as calls meet them: what opens one, what a trial decides, who is refused."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.support.clock import run_stepped
from tests.transport.rig import Rig, Script, hanging, json_answer, now, raw_server, save_up
from trainfleet_exporter.errors import (
    CircuitOpen,
    RequestRefused,
    RequestTimedOut,
    ServerTrouble,
    Throttled,
    Unreachable,
)
from trainfleet_exporter.transport import (
    CALLER,
    Caller,
    CallLimits,
)

# Breakers


def test_unreachable_host_opens_the_breaker_of_all_operations() -> None:
    async def main() -> None:
        script = Script(httpx.ConnectError("connection refused"))
        rig = Rig(script)
        for operation in ("A", "B", "C", "D", "E"):
            assert isinstance(await rig.failure(operation), Unreachable)
        await asyncio.sleep(0.25)
        error = await rig.failure("F")
        assert isinstance(error, CircuitOpen)
        assert str(error) == (
            "F: api.test: not tried: failing for 0.2 s, 5 times in a row; next try in 0.8 s; last: connection refused"
        )
        assert rig.outcomes == ["network"] * 5

    run_stepped(main)


@pytest.mark.parametrize("item", [503, httpx.ReadTimeout("silence"), httpx.ReadError("reset")])
def test_a_broken_operation_does_not_take_its_neighbours_down(item: int | Exception) -> None:
    async def main() -> None:
        async def answer(request: httpx.Request) -> httpx.Response:
            if rig.dialect.target == "/good":
                return json_answer(200)
            if isinstance(item, Exception):
                raise item
            return json_answer(item)

        rig = Rig(answer)
        for _ in range(5):
            await rig.failure("GetJob")
        assert isinstance(await rig.failure("GetJob"), CircuitOpen)
        rig.dialect.target = "/good"
        await rig.call("ListJobs")
        await asyncio.sleep(1)
        await rig.call("GetJob")
        await rig.call("GetJob")

    run_stepped(main)


@pytest.mark.parametrize("status", [400, 403, 404])
def test_refusals_open_nothing(status: int) -> None:
    async def main() -> None:
        rig = Rig(Script(status))
        for _ in range(20):
            assert not isinstance(await rig.failure(), CircuitOpen)

    run_stepped(main)


def test_a_throttled_trial_is_followed_by_another() -> None:
    async def main() -> None:
        rig = Rig(Script(*[503] * 5, json_answer(429, retry_after="1"), 200))
        for _ in range(5):
            await rig.failure()
        await asyncio.sleep(1)
        assert isinstance(await rig.failure(), Throttled)
        await rig.call()
        assert rig.outcomes == ["server"] * 5 + ["throttled", "ok"]

    run_stepped(main)


def test_throttling_does_not_close_a_breaker() -> None:
    async def main() -> None:
        rig = Rig(Script(*[503] * 5, json_answer(429, retry_after="1"), 503))
        for _ in range(5):
            await rig.failure()
        await asyncio.sleep(1)
        assert isinstance(await rig.failure(), Throttled)
        assert isinstance(await rig.failure(), ServerTrouble)
        assert "6 times in a row; next try in 2.0 s" in str(await rig.failure())

    run_stepped(main)


def test_unsent_request_does_not_close_a_breaker() -> None:
    async def main() -> None:
        rig = Rig(Script(httpx.ConnectError("connection refused")))
        for _ in range(5):
            await rig.failure()
        await asyncio.sleep(1)
        rig.dialect.target = "/é"
        assert isinstance(await rig.failure(), RequestRefused)
        rig.dialect.target = None
        assert isinstance(await rig.failure(), Unreachable)
        assert "6 times in a row; next try in 2.0 s" in str(await rig.failure())

    run_stepped(main)


def test_an_open_breaker_refuses_before_the_queue_does() -> None:
    async def main() -> None:
        rig = Rig(Script(*[503] * 5, 200), limits=CallLimits(requests_per_second=5, concurrency=1))
        for _ in range(5):
            await rig.failure()
        start = now()
        assert isinstance(await rig.failure(), CircuitOpen)
        assert isinstance(await rig.failure(within=0.1), CircuitOpen)
        assert now() == start

    run_stepped(main)


def test_opening_breaker_refuses_waiting_calls_and_frees_slots() -> None:
    async def main() -> None:
        async def fail(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(0.1)
            return json_answer(503)

        rig = Rig(fail, limits=CallLimits(requests_per_second=1000, concurrency=2))
        errors = await asyncio.gather(*(rig.failure() for _ in range(20)))
        assert len(rig.attempts) == 6  # the sixth was under way already
        assert [type(error) for error in errors].count(CircuitOpen) == 14
        await rig.failure("Other")
        assert len(rig.attempts) == 7

    run_stepped(main)


def test_a_retry_that_gets_no_turn_leaves_the_real_error() -> None:
    async def main() -> None:
        script = Script(*[200] * 10, 503, json_answer(429, retry_after="100"))
        rig = Rig(script)
        await save_up(rig)
        first = asyncio.create_task(rig.failure(within=10))
        await asyncio.sleep(0.1)  # it waits for its second attempt while the host is paused by another
        assert isinstance(await rig.failure("Other"), Throttled)
        error = await first
        assert isinstance(error, ServerTrouble)
        assert error.__cause__ is None
        assert now() == pytest.approx(0.2)

    run_stepped(main)


@pytest.mark.parametrize("broken", [503, httpx.ConnectError("connection refused")])
def test_a_cancelled_trial_is_followed_by_another(broken: int | Exception) -> None:
    async def main() -> None:
        script = Script(*[broken] * 5, 200)
        slow = True

        async def answer(request: httpx.Request) -> httpx.Response:
            if len(script.times) == 5 and slow:
                await asyncio.sleep(3600)
            return await script(request)

        rig = Rig(answer)
        for _ in range(5):
            await rig.failure()
        await asyncio.sleep(1)
        trial = asyncio.create_task(rig.call())
        await asyncio.sleep(1)
        waiting = asyncio.create_task(rig.call())
        await asyncio.sleep(1)
        assert not waiting.done()
        slow = False
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        await waiting
        assert rig.outcomes[-2:] == ["timeout", "ok"]

    run_stepped(main)


def test_what_comes_of_a_trial_comes_of_all_that_wait_for_it() -> None:
    async def main() -> None:
        script = Script(*[503] * 6)

        async def answer(request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(1)
            return await script(request)

        rig = Rig(answer)
        for _ in range(5):
            await rig.failure()
        await asyncio.sleep(1)
        errors = await asyncio.gather(*(rig.failure() for _ in range(9)))
        assert [type(error) for error in errors].count(ServerTrouble) == 1
        assert [type(error) for error in errors].count(CircuitOpen) == 8
        assert len(rig.attempts) == 6

    run_stepped(main)


def test_a_poll_tries_at_once_what_earlier_polls_saw_fail() -> None:
    async def main() -> None:
        rig = Rig(Script(*[503] * 6, 200))
        CALLER.set(Caller("jobs"))
        for _ in range(5):
            await rig.failure()
        assert isinstance(await rig.failure(), CircuitOpen)
        CALLER.set(Caller("jobs"))
        assert isinstance(await rig.failure(), ServerTrouble), "one trial for the new poll"
        assert isinstance(await rig.failure(), CircuitOpen), "and no other"
        CALLER.set(Caller("jobs"))
        await rig.call()
        assert rig.outcomes == ["server"] * 6 + ["ok"]

    run_stepped(main)


def test_a_retry_that_a_breaker_will_refuse_is_not_waited_for() -> None:
    async def main() -> None:
        rig = Rig(Script(*[200] * 100, 503))
        await save_up(rig, 100)
        await rig.failure()  # three attempts
        start = now()
        error = await rig.failure()  # the fifth failure opens
        assert isinstance(error, ServerTrouble), "the last real error, not the breaker's"
        assert rig.outcomes == ["server"] * 5
        assert now() == pytest.approx(start + 0.2)

    run_stepped(main)


def test_silent_answer_opens_the_operation_and_not_the_host() -> None:
    async def main() -> None:
        async with raw_server(hanging()) as server, Rig(base_url=f"http://{server.address}") as rig:
            errors = [await rig.failure("GetJob") for _ in range(6)]
            assert "no whole answer after 20.0 s, when the request timeout passed" in errors[0].message
            assert [type(error) for error in errors] == [RequestTimedOut] * 5 + [CircuitOpen]
            assert isinstance(await rig.failure("ListJobs"), RequestTimedOut)

    run_stepped(main)
