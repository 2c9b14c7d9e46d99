"""Temporary keys and tokens: renewed in time, one renewal at a time, and not more often than is worth it."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.errors import AccessDenied, Throttled
from trainfleet_exporter.providers.lease import AGAIN, Lease, Leased


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
            raise self.error
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
        assert lease.held == "key 1"
        await asyncio.sleep(20)
        with pytest.raises(Throttled):
            await lease.have(soon())
        issuer.error = None
        await lease.have(soon())
        assert lease.held == "key 2"

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
        assert (issuer.asked, lease.held) == (3, "key 1")

    run_stepped(run)


def test_one_that_a_service_refuses_is_had_anew_but_not_at_once() -> None:
    async def run() -> None:
        issuer = Issuer()
        lease = Lease("keys", issuer.fetch, margin=900)
        first = await lease.have(soon())
        assert not lease.refused(first)  # seconds old: not refused for its age
        await asyncio.sleep(AGAIN)
        assert lease.refused(first)
        assert lease.expires is None
        second = await lease.have(soon())
        assert lease.refused(first)  # somebody has had a new one meanwhile
        assert not lease.refused(second)
        assert issuer.asked == 2

    run_stepped(run)


def test_it_does_not_print_what_it_holds(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        lease = Lease("keys", Issuer().fetch, margin=900)
        await lease.have(soon())
        assert "key 1" not in repr(lease) + repr(Leased("key 1", 0.0))

    with caplog.at_level("DEBUG"):
        run_stepped(run)
    assert caplog.records
    assert not any("key 1" in record.getMessage() for record in caplog.records)
