"""Calls from end to end over a mocked network and in stepped time: counting, retries, hints, deadlines, credentials."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest

from tests.transport.rig import HOST, JSON_OK, EchoDialect, Rig, Script, json_answer, now, raw_server
from trainfleet_exporter.errors import (
    AccessDenied,
    CloudError,
    LeaseLost,
    NotFound,
    RequestRefused,
    ServerTrouble,
    Throttled,
    Unreachable,
)
from trainfleet_exporter.transport import CALLER, Account, Call, Caller, CallLimits, TextForm

REFUSED = httpx.ConnectError("connection refused")


@pytest.mark.parametrize(
    ("item", "kind", "outcome"),
    [
        (429, Throttled, "throttled"),
        (403, AccessDenied, "auth"),
        (404, NotFound, "not_found"),
        (400, RequestRefused, "client"),
        (503, ServerTrouble, "server"),
        (httpx.Response(502, text="<html>bad gateway"), ServerTrouble, "server"),
        (REFUSED, Unreachable, "network"),
        (httpx.InvalidURL("no address"), RequestRefused, "client"),
        (httpx.LocalProtocolError("bad header"), RequestRefused, "client"),
    ],
)
async def test_each_failed_attempt_is_counted(
    item: int | httpx.Response | Exception, kind: type[CloudError], outcome: str
) -> None:
    rig = Rig(Script(item))
    error = await rig.failure()
    assert (type(error), error.operation) == (kind, "ListJobs")
    assert rig.outcomes == [outcome] * (3 if kind.transient else 1)
    assert {(attempt.api, attempt.operation) for attempt in rig.attempts} == {("dlc", "ListJobs")}
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


# Retries


async def test_transient_failure_is_retried_with_a_new_signature() -> None:
    rig = Rig(script := Script(503, httpx.ReadError("reset"), 200))
    assert await rig.call() == {"Jobs": []}
    assert rig.outcomes == ["server", "network", "ok"]
    assert [request.headers["authorization"] for request in script.requests] == rig.dialect.signed
    assert len(set(rig.dialect.signed)) == 3
    assert script.times == pytest.approx([0, 0.2, 0.6])
    assert rig.dialect.prepared == 1
    assert isinstance(await Rig(Script(503, httpx.ReadTimeout("silence"))).failure(), ServerTrouble)


# What a poll gives up


async def _failures(rig: Rig, count: int, operation: str = "GetJob", **settings: Any) -> list[CloudError]:
    return [await rig.failure(operation, **settings) for _ in range(count)]


@pytest.mark.parametrize(
    ("item", "last"),
    [
        (503, "HTTP 503 the service failed"),
        (REFUSED, "connection refused"),
        (httpx.ReadTimeout("silence"), "silence"),
    ],
)
async def test_operation_rests_after_five_failed_calls(item: int | Exception, last: str) -> None:
    rig = Rig(Script(item))
    CALLER.set(Caller("pods"))
    attempts = 1 if isinstance(item, httpx.ReadTimeout) else 3  # a call that timed out is not repeated
    *real, refused = await _failures(rig, 6)
    assert len(rig.attempts) == 5 * attempts
    assert type(refused) is type(real[0])
    assert str(refused) == (
        f"GetJob: api.test: not tried, because too many attempts in a row failed in this poll; last: {last}"
    )
    assert isinstance(await rig.failure("ListJobs"), type(real[0]))
    await rig.failure("GetJob", kind="finished")
    assert len(rig.attempts) == 7 * attempts  # other operations and kinds are tried
    CALLER.set(Caller("pods"))
    await rig.failure("GetJob")
    assert len(rig.attempts) == 8 * attempts  # the next poll begins afresh


@pytest.mark.parametrize("between", [200, 404, 403])
async def test_an_answer_between_failures_ends_their_row(between: int) -> None:
    rig = Rig(Script(*[503] * 12, between, *[503] * 12, between, 503))
    CALLER.set(Caller("pods"))
    for _ in range(2):
        await _failures(rig, 4)
        await asyncio.gather(rig.call("GetJob"), return_exceptions=True)
    await _failures(rig, 5)
    assert len(rig.attempts) == 26 + 15


async def test_no_request_is_sent_without_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    holds, loop = True, asyncio.get_running_loop()
    connect = loop.sock_connect

    async def stopped_meanwhile(*to: Any) -> None:
        nonlocal holds
        await connect(*to)
        holds = False  # the process was stopped in between

    monkeypatch.setattr(loop, "sock_connect", stopped_meanwhile)
    account = Account("test", CallLimits(), may_call=lambda: holds)
    async with raw_server(JSON_OK) as server, Rig(base_url=f"http://{server.address}", account=account) as rig:
        assert isinstance(await rig.failure(), LeaseLost)
        assert isinstance(await rig.failure(), LeaseLost)  # without a connection
    assert (server.connections, server.heads, rig.outcomes) == (1, [], [])


@pytest.mark.parametrize("connected", [False, True])
async def test_a_lease_that_is_lost_before_a_retry_hides_no_error(connected: bool) -> None:
    asked = list[httpx.Request]()

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) > 1:
            raise LeaseLost("the connection is there")
        return json_answer(503)

    rig = Rig(answer, account=Account("test", CallLimits(), may_call=lambda: connected or not asked))
    assert isinstance(await rig.failure(), ServerTrouble)
    assert rig.outcomes == ["server"]


# Throttling


async def test_retry_after_is_obeyed_for_the_whole_host() -> None:
    rig = Rig(script := Script(json_answer(429, retry_after="4.5"), 200))
    neighbour = rig.transport.client(f"http://{HOST}", EchoDialect())
    other_host = rig.transport.client("http://other.test", EchoDialect())
    call = asyncio.create_task(rig.call())
    await asyncio.sleep(1)
    await other_host.call(Call(operation="ListQuotas", path="/"), deadline=60)
    await neighbour.call(Call(operation="Other", path="/"), deadline=60)
    await call
    assert script.times == [0, 1, 4.5, 4.5]


async def test_pause_beyond_the_deadline_fails_at_once() -> None:
    rig = Rig(Script(json_answer(429, retry_after="12"), 200))
    await rig.failure(within=12)
    await asyncio.sleep(2)
    error = await rig.failure(within=5)
    assert isinstance(error, Throttled)
    assert str(error) == (
        "ListJobs: api.test asked to wait 10.0 s, which is after the poll's deadline; "
        "500 requests a second (after throttling; else 1000)"
    )
    assert (rig.outcomes, now()) == (["throttled"], 2)
    await rig.call(within=11)
    assert now() == 12


async def test_providers_of_an_account_share_its_rates() -> None:
    account = Account("main", CallLimits(requests_per_second=8, concurrency=4))
    first = Rig(Script(429, 200), account=account)
    second = Rig(Script(200), account=account)
    await first.call()
    assert account.limiter(HOST, "dlc").rate == pytest.approx(4, abs=0.01)
    started = now()
    for _ in range(5):
        await second.call()
    assert now() - started == pytest.approx(1.25, abs=0.3)
    other = EchoDialect()
    other.api = "aiworkspace"
    assert first.transport.client(f"http://{HOST}", other)._limiter.rate == 8


# Credentials


@pytest.mark.parametrize("status", [401, 403])
async def test_a_call_with_expired_credentials_is_repeated_once(status: int) -> None:
    rig = Rig(Script(status, 200))
    rig.dialect.outdated.add(1)
    assert await rig.call() == {"Jobs": []}
    assert (rig.dialect.prepared, rig.outcomes) == (2, ["auth", "ok"])
    assert len(set(rig.dialect.signed)) == 2

    rig = Rig(Script(status))
    rig.dialect.outdated.update(range(100))
    assert isinstance(await rig.failure(), AccessDenied)
    assert (rig.dialect.prepared, rig.outcomes) == (2, ["auth", "auth"])


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Unreachable("no answer from the token service"), Unreachable, "GetJob: no answer from the token service"),
        (NotFound("no role", operation="AssumeRole", status=404), AccessDenied, "AssumeRole: HTTP 404 no role"),
        (RequestRefused("bad role", operation="AssumeRole"), AccessDenied, "AssumeRole: bad role"),
    ],
)
async def test_without_credentials_nothing_is_sent(error: CloudError, kind: type[CloudError], text: str) -> None:
    rig = Rig(Script(200))
    deadlines: list[float] = []

    async def prepare(call: Call, deadline: float) -> object:
        deadlines.append(deadline)
        raise error

    rig.dialect.prepare = prepare  # type: ignore[method-assign]  # a dialect without a token
    found = await rig.failure("GetJob", within=7)
    assert (type(found), str(found), rig.attempts, deadlines) == (kind, text, [], [7])


# Answers that are texts

ROLE = TextForm("the name of a role", re.compile(r"[a-z-]+"))


@pytest.mark.parametrize("body", [b"", b'{"a": 1}', b"\xff\xfe", b"two words"])
async def test_a_text_of_another_form_is_a_bad_answer(body: bytes) -> None:
    rig = Rig(lambda _: httpx.Response(200, content=body))
    assert "the answer is not the name of a role" in str(await rig.failure(text=ROLE))
    assert rig.outcomes == ["bad_answer"]
