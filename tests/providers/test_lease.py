"""Temporary keys and tokens: renewed in time, one renewal at a time, and not more often than is worth it."""

from __future__ import annotations

import asyncio
import copy
import time
from typing import Any

import pytest
import time_machine

from tests.support.clock import run_stepped
from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    BudgetSpent,
    CircuitOpen,
    CloudError,
    NotFound,
    RequestRefused,
    RequestTimedOut,
    ServerTrouble,
    Throttled,
    Unreachable,
)
from trainfleet_exporter.providers.lease import AGAIN, PAUSE, Lease, Leased, Setback, failure_of_all


class Issuer:
    """Hands out numbered keys that live an hour; takes `takes` seconds; fails with `error` while it is set."""

    def __init__(self, lifetime: float = 3600.0, takes: float = 0.0) -> None:
        self.lifetime = lifetime
        self.takes = takes
        self.issued = 0
        self.asked = 0
        self.error: Exception | None = None

    async def fetch(self, deadline: float) -> Leased[str]:
        self.asked += 1
        await asyncio.sleep(self.takes)
        if self.error is not None:
            raise copy.copy(self.error)
        self.issued += 1
        return Leased(f"key {self.issued}", time.time() + self.lifetime)


def soon() -> float:
    return asyncio.get_running_loop().time() + 20


def test_a_thousand_uses_take_one_renewal_a_lifetime() -> None:
    async def run() -> None:
        issuer = Issuer()
        lease = Lease("keys", issuer.fetch, margin=900)
        for _ in range(1000):
            await lease.have(soon())
            assert lease.expires is not None
            assert lease.expires > time.time()
            await asyncio.sleep(10)
        assert issuer.asked == 1 + 10_000 // 2700  # an hour less the margin of 15 minutes

    run_stepped(run)


def test_many_at_once_take_one_renewal() -> None:
    async def run() -> None:
        issuer = Issuer(takes=3)
        lease = Lease("keys", issuer.fetch, margin=900)
        await asyncio.gather(*(lease.have(soon()) for _ in range(50)))
        assert issuer.asked == 1
        await asyncio.sleep(2800)
        began = asyncio.get_running_loop().time()

        async def use() -> float:
            await lease.have(soon())
            return asyncio.get_running_loop().time() - began

        waited = await asyncio.gather(*(use() for _ in range(50)))
        assert issuer.asked == 2
        assert sorted(waited)[-2:] == [0.0, pytest.approx(3.0)]  # all but the one that renews go on at once

    run_stepped(run)


def test_a_short_life_is_used_for_half_of_it() -> None:
    async def run() -> None:
        issuer = Issuer(lifetime=60)
        lease = Lease("keys", issuer.fetch, margin=900)
        for _ in range(60):
            await lease.have(soon())
            await asyncio.sleep(1)
        assert issuer.asked == 2

    run_stepped(run)


def test_what_cannot_be_renewed_is_used_to_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        issuer = Issuer()
        lease = Lease("keys of role x", issuer.fetch, margin=900)
        await lease.have(soon())
        issuer.error = Throttled("busy")
        await asyncio.sleep(2701)
        for _ in range(89):
            await lease.have(soon())
            await asyncio.sleep(10)
        assert issuer.asked == 1 + 3  # at 45, 50 and 55 minutes
        assert lease.current() == "key 1"
        await asyncio.sleep(20)
        with pytest.raises(Throttled):
            await lease.have(soon())
        issuer.error = None
        await asyncio.sleep(PAUSE)
        await lease.have(soon())
        assert lease.current() == "key 2"

    run_stepped(run)
    assert sum("keys of role x could not be renewed" in record.getMessage() for record in caplog.records) == 3


def test_what_was_refused_is_not_tried_again_until_its_basis_changes() -> None:
    async def run() -> None:
        issuer, basis = Issuer(), ["token 1"]
        issuer.error = AccessDenied("wrong password")
        lease = Lease("keys", issuer.fetch, margin=900, basis=lambda: basis[0])
        for _ in range(10):
            with pytest.raises(AccessDenied, match="wrong password"):
                await lease.have(soon())
            await asyncio.sleep(1)
        assert issuer.asked == 1
        basis[0] = "token 2"
        with pytest.raises(AccessDenied):
            await lease.have(soon())
        assert issuer.asked == 2
        await asyncio.sleep(AGAIN)
        issuer.error = None
        await lease.have(soon())
        assert (issuer.asked, lease.current()) == (3, "key 1")

    run_stepped(run)


@pytest.mark.parametrize("age", [0.0, 60.0, AGAIN - 1, AGAIN, 1000.0])
def test_a_refused_one_is_replaced_at_any_age(age: float) -> None:
    async def run() -> None:
        issuer = Issuer()
        lease = Lease("keys", issuer.fetch, margin=900)
        first = await lease.have(soon())
        await asyncio.sleep(age)
        ends = lease.expires
        assert lease.refused(first)
        assert lease.refused(first)  # another call that carried it
        assert lease.expires == ends  # of what is shown to people: the latest that is known
        second = await lease.have(soon())
        assert lease.refused(first)  # somebody has had a new one meanwhile
        assert not lease.refused(second)
        assert (issuer.asked, lease.current()) == (2, "key 2")

    run_stepped(run)


def test_refusals_replace_no_more_than_one_in_five_minutes() -> None:
    async def run() -> None:
        issuer = Issuer(lifetime=24 * 3600)
        lease = Lease("keys", issuer.fetch, margin=900)
        for _ in range(3600):  # every one is refused, for an hour
            number = await lease.have(soon())
            if lease.refused(number):
                await lease.have(soon())
            await asyncio.sleep(1)
        assert issuer.asked == 1 + 3600 // AGAIN

    run_stepped(run)


FACTS: dict[str, Any] = {"operation": "AssumeRole", "status": 400, "code": "Some.Code", "request_id": "r"}


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        (AccessDenied("no", **FACTS), AGAIN),
        (NotFound("no", **FACTS), AGAIN),
        (RequestRefused("no", **FACTS), AGAIN),
        (BadAnswer("no", **FACTS), PAUSE),
        (ServerTrouble("no", **FACTS), PAUSE),
        (RequestTimedOut("no", operation="AssumeRole"), PAUSE),
        (Unreachable("no"), PAUSE),
        (Throttled("no", pace=2.0, **FACTS), PAUSE),
        (Throttled("no", retry_after=2.0, **FACTS), PAUSE),
        (Throttled("no", retry_after=100.0, **FACTS), 100.0),
        (ServerTrouble("no", retry_after=1e9, **FACTS), 3600.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, CloudError) else f"{value:.0f}s",
)
def test_a_failure_is_told_to_everybody_and_asked_about_again_after_its_pause(error: CloudError, pause: float) -> None:
    async def run() -> None:
        issuer = Issuer(takes=1)
        issuer.error = error
        lease = Lease("keys", issuer.fetch, margin=900)

        async def use() -> CloudError:
            with pytest.raises(type(error)) as caught:
                await lease.have(soon())
            return caught.value

        told = await asyncio.gather(*(use() for _ in range(20)))
        await asyncio.sleep(pause - 0.5)
        told.append(await use())
        assert issuer.asked == 1
        assert len(set(map(id, told))) == len(told)  # each its own: who gets one writes into it
        assert {str(one) for one in told} == {str(error)}
        assert [vars(one) for one in told] == [vars(error)] * len(told)
        await asyncio.sleep(0.5)
        await use()
        assert issuer.asked == 2
        issuer.error = None
        await asyncio.sleep(pause)
        await lease.have(soon())
        assert lease.current() == "key 1"

    run_stepped(run)


def test_a_failure_is_not_told_as_that_of_the_operation_which_it_met_first() -> None:
    async def run() -> None:
        issuer = Issuer()
        issuer.error = AccessDenied("no credentials are configured")
        lease = Lease("keys", issuer.fetch, margin=900)
        for operation in ("ListWorkspaces", "ListResourceGroups", "ListJobs"):
            with pytest.raises(AccessDenied) as caught:
                await lease.have(soon())
            assert caught.value.operation == ""
            caught.value.operation = operation  # as transport.ApiClient does
        assert issuer.asked == 1

    run_stepped(run)


@pytest.mark.parametrize("kind", [CircuitOpen, BudgetSpent])
def test_what_made_no_attempt_is_held_back_by_others(kind: type[CloudError]) -> None:
    async def run() -> None:
        issuer = Issuer()
        issuer.error = kind("not now")
        lease = Lease("keys", issuer.fetch, margin=900)
        with pytest.raises(kind):
            await lease.have(soon())
        issuer.error = None
        await lease.have(soon())
        assert lease.current() == "key 1"

    run_stepped(run)


def test_a_failure_in_passing_is_forgotten_where_the_basis_changes_or_the_clock_is_set_back() -> None:
    async def run() -> None:
        setback = Setback()
        setback.note("hunter2", Unreachable("no"))
        with pytest.raises(Unreachable):
            setback.check("hunter2")
        setback.check("hunter3")
        assert "hunter2" not in repr(vars(setback))
        with time_machine.travel(time.time() - 10, tick=False):
            setback.check("hunter2")
        setback.clear()
        setback.check("hunter2")

    run_stepped(run)


@pytest.mark.parametrize("error", [Throttled("busy"), AccessDenied("no more")])
def test_what_has_ended_is_neither_had_nor_used_however_lately_a_renewal_failed(error: CloudError) -> None:
    async def run() -> None:
        issuer = Issuer()
        lease = Lease("keys", issuer.fetch, margin=100)
        first = await lease.have(soon())
        ends = lease.expires
        await asyncio.sleep(3590)
        issuer.error = error
        assert await lease.have(soon()) == first
        await asyncio.sleep(9)
        assert await lease.have(soon()) == first
        assert lease.current() == "key 1"
        await asyncio.sleep(1)
        with pytest.raises(type(error)):
            await lease.have(soon())
        with pytest.raises(AccessDenied, match="ended at 2026-01-02T04:04:05Z"):
            lease.current()
        assert lease.expires == ends  # an alert on it fires
        assert lease.refused(first)  # by us, since it has ended: another one is worth a try
        issuer.error = None
        await asyncio.sleep(AGAIN)
        await lease.have(soon())
        assert lease.current() == "key 2"

    run_stepped(run)


def test_what_had_ended_when_it_came_is_not_taken() -> None:
    async def run() -> None:
        issuer = Issuer(lifetime=-10)
        lease = Lease("keys", issuer.fetch, margin=900)
        for _ in range(3):
            with pytest.raises(
                AccessDenied, match="ended at 2026-01-02T03:03:55Z, and here it is 2026-01-02T03:04:05Z"
            ):
                await lease.have(soon())
        with pytest.raises(AccessDenied, match="there are no credentials yet"):
            lease.current()
        assert (issuer.asked, lease.expires) == (1, None)

    run_stepped(run)


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ([], AccessDenied),
        ([AccessDenied("a"), NotFound("b"), RequestRefused("c")], AccessDenied),
        ([AccessDenied("a"), RequestTimedOut("b"), Unreachable("c")], RequestTimedOut),
        ([BadAnswer("a"), Unreachable("b")], Unreachable),
        ([BadAnswer("a"), AccessDenied("b")], BadAnswer),
        ([CircuitOpen("a")], CircuitOpen),
    ],
)
def test_none_of_several_refused_where_one_could_not_say(failures: list[CloudError], kind: type[CloudError]) -> None:
    error = failure_of_all(failures, "none of them")
    assert (type(error), str(error)) == (kind, "none of them")


def test_how_long_to_wait_is_that_of_the_one_who_said_so() -> None:
    assert failure_of_all([AccessDenied("a"), Throttled("b", retry_after=7.0)], "none").retry_after == 7.0


def test_it_does_not_print_what_it_holds(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        lease = Lease("keys", Issuer().fetch, margin=900)
        await lease.have(soon())
        assert "key 1" not in repr(lease) + repr(Leased("key 1", 0.0))

    with caplog.at_level("DEBUG"):
        run_stepped(run)
    assert caplog.records
    assert not any("key 1" in record.getMessage() for record in caplog.records)
