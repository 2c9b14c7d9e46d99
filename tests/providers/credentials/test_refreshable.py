"""Temporary credentials are refreshed in time, one refresh at a time, and no more often than it is worth."""

from __future__ import annotations

import asyncio
import copy
import time
from typing import Any

import pytest
import time_machine

from tests.support.clock import run_stepped
from tests.support.logs import text_of
from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    CloudError,
    LeaseLost,
    NotFound,
    RequestRefused,
    RequestTimedOut,
    ServerTrouble,
    Throttled,
    Unreachable,
)
from trainfleet_exporter.providers.credentials import Issued
from trainfleet_exporter.providers.credentials.refreshable import (
    FAILURE_PAUSE,
    REFUSAL_PAUSE,
    BackOff,
    Refreshable,
    failure_of_all,
)


class Issuer:
    """Hands out numbered keys that live an hour; takes `takes` seconds; fails with `error` while it is set."""

    def __init__(self, lifetime: float = 3600.0, takes: float = 0.0) -> None:
        self.lifetime = lifetime
        self.takes = takes
        self.issued = 0
        self.asked = 0
        self.error: Exception | None = None

    async def fetch(self, deadline: float) -> Issued[str]:
        self.asked += 1
        await asyncio.sleep(self.takes)
        if self.error is not None:
            raise copy.copy(self.error)
        self.issued += 1
        return Issued(f"key {self.issued}", time.time() + self.lifetime)


def soon() -> float:
    return asyncio.get_running_loop().time() + 20


def test_a_thousand_uses_take_one_refresh_per_lifetime() -> None:
    async def run() -> None:
        issuer = Issuer()
        credential = Refreshable("keys", issuer.fetch, margin=900)
        for _ in range(1000):
            await credential.prepare(soon())
            assert credential.expires is not None
            assert credential.expires > time.time()
            await asyncio.sleep(10)
        assert issuer.asked == 1 + 10_000 // 2700  # an hour less the margin of 15 minutes

    run_stepped(run)


def test_uses_at_once_share_one_refresh() -> None:
    async def run() -> None:
        issuer = Issuer(takes=3)
        credential = Refreshable("keys", issuer.fetch, margin=900)
        await asyncio.gather(*(credential.prepare(soon()) for _ in range(50)))
        assert issuer.asked == 1
        await asyncio.sleep(2800)
        began = asyncio.get_running_loop().time()

        async def use() -> float:
            await credential.prepare(soon())
            return asyncio.get_running_loop().time() - began

        waited = await asyncio.gather(*(use() for _ in range(50)))
        assert issuer.asked == 2
        assert sorted(waited)[-2:] == [0.0, pytest.approx(3.0)]  # all but the one that renews go on at once

    run_stepped(run)


def test_a_short_life_is_used_for_half_of_it() -> None:
    async def run() -> None:
        issuer = Issuer(lifetime=60)
        credential = Refreshable("keys", issuer.fetch, margin=900)
        for _ in range(60):
            await credential.prepare(soon())
            await asyncio.sleep(1)
        assert issuer.asked == 2

    run_stepped(run)


def test_a_failed_refresh_leaves_it_in_use_until_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        issuer = Issuer()
        credential = Refreshable("keys of role x", issuer.fetch, margin=900)
        await credential.prepare(soon())
        issuer.error = Throttled("busy")
        await asyncio.sleep(2701)
        for _ in range(89):
            await credential.prepare(soon())
            await asyncio.sleep(10)
        assert issuer.asked == 1 + 3  # at 45, 50 and 55 minutes
        assert credential.current() == "key 1"
        await asyncio.sleep(20)
        with pytest.raises(Throttled):
            await credential.prepare(soon())
        issuer.error = None
        await asyncio.sleep(FAILURE_PAUSE)
        await credential.prepare(soon())
        assert credential.current() == "key 2"

    run_stepped(run)
    reported = [text_of(record) for record in caplog.records if "cannot refresh the credential" in record.message]
    assert len(reported) == 3
    assert all("credential=keys of role x" in text for text in reported)


def test_a_refusal_is_not_retried_until_the_basis_changes() -> None:
    async def run() -> None:
        issuer, basis = Issuer(), ["token 1"]
        issuer.error = AccessDenied("wrong password")
        credential = Refreshable("keys", issuer.fetch, margin=900, basis=lambda: basis[0])
        for _ in range(10):
            with pytest.raises(AccessDenied, match="wrong password"):
                await credential.prepare(soon())
            await asyncio.sleep(1)
        assert issuer.asked == 1
        basis[0] = "token 2"
        with pytest.raises(AccessDenied):
            await credential.prepare(soon())
        assert issuer.asked == 2
        await asyncio.sleep(REFUSAL_PAUSE)
        issuer.error = None
        await credential.prepare(soon())
        assert (issuer.asked, credential.current()) == (3, "key 1")

    run_stepped(run)


@pytest.mark.parametrize("age", [0.0, 60.0, REFUSAL_PAUSE - 1, REFUSAL_PAUSE, 1000.0])
def test_a_refused_one_is_replaced_at_any_age(age: float) -> None:
    async def run() -> None:
        issuer = Issuer()
        credential = Refreshable("keys", issuer.fetch, margin=900)
        first = await credential.prepare(soon())
        await asyncio.sleep(age)
        ends = credential.expires
        assert credential.refused(first)
        assert credential.refused(first)  # another call that carried it
        assert credential.expires == ends  # of what is shown to people: the latest that is known
        second = await credential.prepare(soon())
        assert credential.refused(first)  # another call has had a new one meanwhile
        assert not credential.refused(second)
        assert (issuer.asked, credential.current()) == (2, "key 2")

    run_stepped(run)


def test_refusals_replace_at_most_one_in_five_minutes() -> None:
    async def run() -> None:
        issuer = Issuer(lifetime=24 * 3600)
        credential = Refreshable("keys", issuer.fetch, margin=900)
        for _ in range(3600):  # every one is refused, for an hour
            number = await credential.prepare(soon())
            if credential.refused(number):
                await credential.prepare(soon())
            await asyncio.sleep(1)
        assert issuer.asked == 1 + 3600 // REFUSAL_PAUSE

    run_stepped(run)


FACTS: dict[str, Any] = {"operation": "AssumeRole", "status": 400, "code": "Some.Code", "request_id": "r"}


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        (AccessDenied("no", **FACTS), REFUSAL_PAUSE),
        (NotFound("no", **FACTS), REFUSAL_PAUSE),
        (RequestRefused("no", **FACTS), REFUSAL_PAUSE),
        (BadAnswer("no", **FACTS), FAILURE_PAUSE),
        (ServerTrouble("no", **FACTS), FAILURE_PAUSE),
        (RequestTimedOut("no", operation="AssumeRole"), FAILURE_PAUSE),
        (Unreachable("no"), FAILURE_PAUSE),
        (Throttled("no", pace=2.0, **FACTS), FAILURE_PAUSE),
        (Throttled("no", retry_after=2.0, **FACTS), FAILURE_PAUSE),
        (Throttled("no", retry_after=100.0, **FACTS), 100.0),
        (ServerTrouble("no", retry_after=1e9, **FACTS), 3600.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, CloudError) else f"{value:.0f}s",
)
def test_a_failure_is_shared_until_its_pause_is_over(error: CloudError, pause: float) -> None:
    async def run() -> None:
        issuer = Issuer(takes=1)
        issuer.error = error
        credential = Refreshable("keys", issuer.fetch, margin=900)

        async def use() -> CloudError:
            with pytest.raises(type(error)) as caught:
                await credential.prepare(soon())
            return caught.value

        reported = await asyncio.gather(*(use() for _ in range(20)))
        await asyncio.sleep(pause - 0.5)
        reported.append(await use())
        assert issuer.asked == 1
        assert len(set(map(id, reported))) == len(reported)  # each its own: who gets one writes into it
        assert {str(one) for one in reported} == {str(error)}
        assert [vars(one) for one in reported] == [vars(error)] * len(reported)
        await asyncio.sleep(0.5)
        await use()
        assert issuer.asked == 2
        issuer.error = None
        await asyncio.sleep(pause)
        await credential.prepare(soon())
        assert credential.current() == "key 1"

    run_stepped(run)


def test_a_failure_keeps_no_operation_of_a_caller() -> None:
    async def run() -> None:
        issuer = Issuer()
        issuer.error = AccessDenied("no credentials are configured")
        credential = Refreshable("keys", issuer.fetch, margin=900)
        for operation in ("ListWorkspaces", "ListResourceGroups", "ListJobs"):
            with pytest.raises(AccessDenied) as caught:
                await credential.prepare(soon())
            assert caught.value.operation == ""
            caught.value.operation = operation  # as transport.ApiClient does
        assert issuer.asked == 1

    run_stepped(run)


def test_no_attempt_means_no_pause() -> None:
    async def run() -> None:
        issuer = Issuer()
        issuer.error = LeaseLost("not now")
        credential = Refreshable("keys", issuer.fetch, margin=900)
        with pytest.raises(LeaseLost):
            await credential.prepare(soon())
        issuer.error = None
        await credential.prepare(soon())
        assert credential.current() == "key 1"

    run_stepped(run)


def test_a_pause_ends_with_its_basis_or_a_clock_set_back() -> None:
    async def run() -> None:
        back_off = BackOff()
        back_off.note("hunter2", Unreachable("no"))
        with pytest.raises(Unreachable):
            back_off.check("hunter2")
        back_off.check("hunter3")
        assert "hunter2" not in repr(vars(back_off))
        with time_machine.travel(time.time() - 10, tick=False):
            back_off.check("hunter2")
        back_off.clear()
        back_off.check("hunter2")

    run_stepped(run)


@pytest.mark.parametrize("error", [Throttled("busy"), AccessDenied("no more")])
def test_an_expired_one_is_not_used_after_a_failed_refresh(error: CloudError) -> None:
    async def run() -> None:
        issuer = Issuer()
        credential = Refreshable("keys", issuer.fetch, margin=100)
        first = await credential.prepare(soon())
        ends = credential.expires
        await asyncio.sleep(3590)
        issuer.error = error
        assert await credential.prepare(soon()) == first
        await asyncio.sleep(9)
        assert await credential.prepare(soon()) == first
        assert credential.current() == "key 1"
        await asyncio.sleep(1)
        with pytest.raises(type(error)):
            await credential.prepare(soon())
        with pytest.raises(AccessDenied, match="expired at 2026-01-02T04:04:05Z"):
            credential.current()
        assert credential.expires == ends  # an alert on it fires
        assert credential.refused(first)  # by us, since it has ended: another one is worth a try
        issuer.error = None
        await asyncio.sleep(REFUSAL_PAUSE)
        await credential.prepare(soon())
        assert credential.current() == "key 2"

    run_stepped(run)


def test_one_that_is_issued_expired_is_refused() -> None:
    async def run() -> None:
        issuer = Issuer(lifetime=-10)
        credential = Refreshable("keys", issuer.fetch, margin=900)
        for _ in range(3):
            with pytest.raises(
                AccessDenied, match="expired at 2026-01-02T03:03:55Z, and the time here is 2026-01-02T03:04:05Z"
            ):
                await credential.prepare(soon())
        with pytest.raises(AccessDenied, match="no credentials have been received yet"):
            credential.current()
        assert (issuer.asked, credential.expires) == (1, None)

    run_stepped(run)


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ([], AccessDenied),
        ([AccessDenied("a"), NotFound("b"), RequestRefused("c")], AccessDenied),
        ([AccessDenied("a"), RequestTimedOut("b"), Unreachable("c")], RequestTimedOut),
        ([BadAnswer("a"), Unreachable("b")], Unreachable),
        ([BadAnswer("a"), AccessDenied("b")], BadAnswer),
    ],
)
def test_a_chain_is_not_refused_if_one_link_could_not_answer(
    failures: list[CloudError], kind: type[CloudError]
) -> None:
    error = failure_of_all(failures, "none of them")
    assert (type(error), str(error)) == (kind, "none of them")


def test_a_chain_keeps_the_wait_hint_of_its_link() -> None:
    assert failure_of_all([AccessDenied("a"), Throttled("b", retry_after=7.0)], "none").retry_after == 7.0


def test_it_does_not_print_the_credential(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        credential = Refreshable("keys", Issuer().fetch, margin=900)
        await credential.prepare(soon())
        assert "key 1" not in repr(credential) + repr(Issued("key 1", 0.0))

    with caplog.at_level("DEBUG"):
        run_stepped(run)
    assert caplog.records
    assert not any("key 1" in text_of(record) for record in caplog.records)
