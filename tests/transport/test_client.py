"""Calls from end to end over a mocked network and in stepped time: counting, retries, hints, breakers, deadlines."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from tests.transport.rig import HOST, EchoDialect, Rig, Script, json_answer, now, save_up
from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    CircuitOpen,
    CloudError,
    NotFound,
    RequestRefused,
    RequestTimedOut,
    ServerTrouble,
    Throttled,
    Unreachable,
)
from trainfleet_exporter.transport import (
    Call,
    CallLimits,
    HttpAnswer,
    HttpSettings,
    Priority,
    SignedRequest,
)


def _html() -> httpx.Response:
    return httpx.Response(200, text="<html>")


@pytest.mark.parametrize(
    ("item", "kind", "outcome"),
    [
        (429, Throttled, "throttled"),
        (403, AccessDenied, "auth"),
        (404, NotFound, "not_found"),
        (400, RequestRefused, "client"),
        (503, ServerTrouble, "server"),
        (302, RequestRefused, "client"),
        (_html(), BadAnswer, "bad_answer"),
        (httpx.ReadTimeout("silence"), RequestTimedOut, "timeout"),
        (httpx.ConnectTimeout("no connection in time"), RequestTimedOut, "timeout"),
        (httpx.ConnectError("connection refused"), Unreachable, "network"),
        (httpx.ProxyError("the proxy answered HTTP 407"), Unreachable, "network"),
        (httpx.ReadError("connection reset"), Unreachable, "network"),
        (httpx.RemoteProtocolError("cut off"), Unreachable, "network"),
        (httpx.DecodingError("not gzip"), BadAnswer, "bad_answer"),
        (httpx.InvalidURL("no address"), RequestRefused, "client"),
        (httpx.LocalProtocolError("bad header"), RequestRefused, "client"),
    ],
)
def test_each_failure_has_its_error_and_is_counted_once(
    item: int | httpx.Response | Exception, kind: type[CloudError], outcome: str
) -> None:
    async def main() -> None:
        rig = Rig(Script(item))
        error = await rig.failure()
        assert type(error) is kind
        assert error.operation == "ListJobs"
        assert rig.outcomes == [outcome]
        assert (rig.attempts[0].api, rig.attempts[0].operation) == ("dlc", "ListJobs")
        assert error.__cause__ is None
        assert error.__suppress_context__ or error.__context__ is None

    run_stepped(main)


def test_a_good_answer_is_returned_and_counted() -> None:
    async def main() -> None:
        async def slowly(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(0.25)
            return json_answer(200)

        rig = Rig(slowly)
        assert await rig.call() == {"Jobs": []}
        assert rig.outcomes == ["ok"]
        assert rig.attempts[0].seconds == 0.25

    run_stepped(main)


def test_empty_answer_is_counted_as_no_data_and_returned() -> None:
    async def main() -> None:
        rig = Rig(Script(200))
        assert await rig.call(no_data=lambda payload: not payload["Jobs"]) == {"Jobs": []}
        assert await rig.call(no_data=lambda payload: "Jobs" not in payload) == {"Jobs": []}
        assert rig.outcomes == ["no_data", "ok"]

    run_stepped(main)


def test_the_dialect_judges_before_the_body_does() -> None:
    async def main() -> None:
        rig = Rig(Script(httpx.Response(502, text="<html>bad gateway")))
        assert isinstance(await rig.failure(), ServerTrouble)

    run_stepped(main)


def test_without_credentials_nothing_is_sent_and_nothing_counted() -> None:
    async def main() -> None:
        rig = Rig(Script(200), limits=CallLimits(requests_per_second=1, concurrency=1))
        rig.dialect.refusal = AccessDenied("no credentials")
        for _ in range(5):
            error = await rig.failure()
            assert str(error) == "ListJobs: no credentials"
        assert rig.attempts == []
        assert now() == 0
        rig.dialect.refusal = None
        await rig.call()
        assert now() == 0, "the turn was given back"

    run_stepped(main)


@pytest.mark.parametrize("target", ["/jobs?name=é", "/jobs\nX: y"])
def test_a_request_that_cannot_be_written_is_refused(target: str) -> None:
    async def main() -> None:
        rig = Rig(Script(200))
        rig.dialect.target = target
        error = await rig.failure()
        assert isinstance(error, RequestRefused)
        assert str(error) == "ListJobs: api.test: the request cannot be written as HTTP"

    run_stepped(main)


def test_cancelled_attempt_is_a_timeout_and_frees_its_slot() -> None:
    async def main() -> None:
        async def never(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(3600)
            raise AssertionError

        rig = Rig(never, limits=CallLimits(requests_per_second=100, concurrency=1))
        for _ in range(3):
            task = asyncio.create_task(rig.call())
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert [(attempt.outcome, attempt.seconds) for attempt in rig.attempts] == [("timeout", 1.0)] * 3

    run_stepped(main)


# Deadlines


@pytest.mark.parametrize(
    ("within", "message"),
    [
        (60.0, "api.test: no connection or no answer after 20.0 s, when the request timeout passed"),
        (3.5, "api.test: no connection or no answer after 3.5 s, when the poll's time ended"),
    ],
)
def test_timeout_names_the_limit_that_was_reached(within: float, message: str) -> None:
    async def main() -> None:
        async def never(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(3600)
            raise AssertionError

        rig = Rig(never)
        error = await rig.failure(within=within)
        assert isinstance(error, RequestTimedOut)
        assert error.message == message
        assert rig.outcomes == ["timeout"]
        assert now() == min(within, 20)

    run_stepped(main)


def test_no_attempt_is_made_that_cannot_have_its_turn_in_time() -> None:
    async def main() -> None:
        rig = Rig(Script(200), limits=CallLimits(requests_per_second=0.1, concurrency=1))
        await rig.call()
        error = await rig.failure(within=9)
        assert isinstance(error, RequestTimedOut)
        assert str(error).startswith("ListJobs: api.test: 0 calls wait ahead, more than 0.1 requests a second")
        assert rig.outcomes == ["ok"]
        assert now() == 0

    run_stepped(main)


# Retries


def test_transient_failure_is_retried_with_a_new_signature() -> None:
    async def main() -> None:
        script = Script(*[200] * 20, 503, httpx.ReadError("reset"), 200)
        rig = Rig(script)
        await save_up(rig, 20)
        assert await rig.call() == {"Jobs": []}
        assert rig.outcomes == ["server", "network", "ok"]
        assert [request.headers["authorization"] for request in script.requests[-3:]] == [
            "signature-21",
            "signature-22",
            "signature-23",
        ]
        assert [round(time, 6) for time in script.times[-3:]] == [0, 0.2, 0.6]

    run_stepped(main)


def test_no_call_makes_more_than_three_attempts() -> None:
    async def main() -> None:
        rig = Rig(Script(*[200] * 100, 503))
        await save_up(rig, 100)
        assert isinstance(await rig.failure(), ServerTrouble)
        assert rig.outcomes == ["server"] * 3

    run_stepped(main)


@pytest.mark.parametrize("status", [400, 403, 404])
def test_what_would_fail_again_is_not_tried_again(status: int) -> None:
    async def main() -> None:
        rig = Rig(Script(*[200] * 20, status))
        await save_up(rig, 20)
        await rig.failure()
        assert len(rig.attempts) == 1

    run_stepped(main)


def test_without_savings_there_is_no_retry() -> None:
    async def main() -> None:
        rig = Rig(Script(*[200] * 8, 503))
        await save_up(rig, 8)
        await rig.failure()
        assert len(rig.attempts) == 1

    run_stepped(main)


def test_retry_after_the_deadline_is_not_waited_for() -> None:
    async def main() -> None:
        rig = Rig(Script(*[200] * 20, json_answer(503, retry_after="5")))
        await save_up(rig, 20)
        assert isinstance(await rig.failure(within=5), ServerTrouble)
        assert (now(), len(rig.attempts)) == (0, 1)

    run_stepped(main)


@pytest.mark.long
@settings(max_examples=50)
@given(
    st.lists(
        st.sampled_from([200, 200, 404, 429, 500, 503, "refused", "reset", "silent", "hint", "cancel"]),
        min_size=1,
        max_size=40,
    ),
    st.integers(min_value=1, max_value=5),
)
def test_attempts_never_exceed_eleven_tenths_of_the_calls(script: list[int | str], together: int) -> None:
    async def main() -> None:
        answers = itertools.cycle(script)

        async def answer(_: httpx.Request) -> httpx.Response:
            match next(answers):
                case "refused":
                    raise httpx.ConnectError("connection refused")
                case "reset":
                    raise httpx.ReadError("connection reset")
                case "silent":
                    await asyncio.sleep(3600)
                case "hint":
                    return json_answer(429, retry_after="0.5")
                case "cancel":
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                    await asyncio.sleep(0)
                case int(status):
                    return json_answer(status)
            raise AssertionError

        rig = Rig(answer, limits=CallLimits(requests_per_second=50, concurrency=2))
        calls = 0

        async def some() -> None:
            nonlocal calls
            for _ in range(150 // together):
                calls += 1
                task = asyncio.create_task(rig.call(within=45))
                await asyncio.wait([task])
                error = None if task.cancelled() else task.exception()
                assert error is None or isinstance(error, CloudError), error
                assert len(rig.attempts) * 10 <= 11 * calls
                if isinstance(error, CircuitOpen):
                    await asyncio.sleep(1)

        await asyncio.gather(*(some() for _ in range(together)))

    run_stepped(main)


# Throttling


def test_retry_after_is_obeyed_for_the_whole_host() -> None:
    async def main() -> None:
        script = Script(*[200] * 10, json_answer(429, retry_after="7.5"), 200)
        rig = Rig(script)
        neighbour = rig.transport.client(f"http://{HOST}", EchoDialect())
        await save_up(rig)
        call = asyncio.create_task(rig.call())
        await asyncio.sleep(1)
        await neighbour.call(Call(operation="Other", path="/"), deadline=60)
        await call
        assert script.times[-2:] == [7.5, 7.5]
        assert sorted(rig.outcomes) == ["ok", "ok", "throttled"]

    run_stepped(main)


def test_other_hosts_do_not_wait() -> None:
    async def main() -> None:
        rig = Rig(Script(json_answer(429, retry_after="30"), 200))
        await rig.failure()
        other = rig.transport.client("http://other.test", rig.dialect)
        await other.call(Call(operation="ListQuotas", path="/"), deadline=60)
        assert now() == 0

    run_stepped(main)


def test_pause_beyond_the_deadline_fails_at_once() -> None:
    async def main() -> None:
        rig = Rig(Script(json_answer(429, retry_after="12"), 200))
        await rig.failure()
        await asyncio.sleep(2)
        error = await rig.failure(within=5)
        assert isinstance(error, Throttled)
        assert str(error) == (
            "ListJobs: api.test asked to wait 10.0 s, longer than this poll has left; "
            "500 requests a second (after throttling; else 1000)"
        )
        assert rig.outcomes == ["throttled"]
        await rig.call(within=11)
        assert now() == 12

    run_stepped(main)


def test_throttling_without_hint_pauses_ever_longer() -> None:
    async def main() -> None:
        script = Script(429, 429, 429, 429, 200, 429, 200)
        rig = Rig(script)
        for _ in range(7):
            try:
                await rig.call()
            except Throttled:
                continue
        assert [round(time, 6) for time in script.times] == [0, 0.2, 0.6, 1.4, 3.0, 3.0, 3.2]

    run_stepped(main)


def test_calls_that_were_throttled_together_count_as_one_step() -> None:
    async def main() -> None:
        async def throttle(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(0.1)
            return json_answer(429)

        rig = Rig(throttle)
        await asyncio.gather(*(rig.failure() for _ in range(8)))
        await rig.failure()
        assert now() == pytest.approx(0.1 + 0.2 + 0.1)

    run_stepped(main)


def test_sweeps_go_before_details() -> None:
    async def main() -> None:
        order: list[str] = []

        async def slowly(request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(1)
            return json_answer(200)

        rig = Rig(slowly, limits=CallLimits(requests_per_second=100, concurrency=1))

        async def one(operation: str, priority: Priority) -> None:
            await rig.call(operation, priority=priority)
            order.append(operation)

        await asyncio.gather(
            one("First", Priority.DETAIL), one("GetJob", Priority.DETAIL), one("ListJobs", Priority.BULK)
        )
        assert order == ["First", "ListJobs", "GetJob"]

    run_stepped(main)


# What can be seen


def test_nothing_that_is_shown_holds_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    call = Call(operation="ListJobs", path="/", query={"Token": "SECRET"}, body=b"SECRET")
    signed = SignedRequest("GET", "/?Signature=SECRET", {"Authorization": "SECRET"}, b"SECRET")
    answer = HttpAnswer(200, httpx.Headers({"Set-Cookie": "SECRET"}), b"SECRET", {"Key": "SECRET"})
    http = HttpSettings(proxy_url="http://me:SECRET@proxy")
    assert "SECRET" not in repr((call, signed, answer, http))

    async def main() -> None:
        rig = Rig(Script(httpx.Response(200, text="SECRET", headers={"X": "SECRET"})))
        rig.dialect.target = "/?Signature=SECRET"
        error: Any = await rig.failure()
        logging.getLogger("test").error("failed", exc_info=error)
        assert "SECRET" not in caplog.text
        assert "ListJobs" in caplog.text

    run_stepped(main)


@pytest.mark.parametrize("address", ["ftp://h", "http://", "https://h/path", "https://me@h", "h", "http://h:port"])
def test_a_base_address_is_scheme_host_and_port_alone(address: str) -> None:
    with pytest.raises(ValueError, match="not"):
        Rig(Script(200)).transport.client(address, EchoDialect())


@pytest.mark.parametrize(("rate", "concurrency"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_limits_must_let_something_through(rate: float, concurrency: int) -> None:
    with pytest.raises(ValueError, match="let some request through"):
        CallLimits(requests_per_second=rate, concurrency=concurrency)
