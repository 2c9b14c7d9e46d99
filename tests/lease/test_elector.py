"""One elector against a simulated API server: how it becomes the leader, and how it stops being it."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest

from tests.lease.api_server import ApiServer, kubernetes
from tests.lease.processes import Process, World
from tests.support.logs import lines_of
from trainfleet_exporter.lease import Elector, Role


class Site:
    """A world with an API server and electors."""

    def __init__(self) -> None:
        self.world = World()
        self.server = ApiServer(self.world.note_holder)
        self.changes: list[tuple[float, str, bool]] = []
        self.electors: list[Elector] = []

    def start(self, name: str) -> tuple[Process, Elector]:
        process = Process(self.world, name)
        store = kubernetes(self.world, process, self.server, random.Random(name))
        elector = Elector(
            store,
            name,
            lambda leads: self.changes.append((self.world.now, name, leads)),
            clock=lambda: self.world.now,
        )
        process.start(elector.run())
        self.electors.append(elector)
        return process, elector

    @property
    def polling(self) -> list[str]:
        return [elector.identity for elector in self.electors if elector.may_poll]

    def role(self, elector: Elector) -> Role:
        return elector.role

    def run(self, until: float) -> None:
        self.world.run(until, lambda: None)

    @property
    def spec(self) -> dict[str, object]:
        spec: dict[str, object] = self.server.leases["trainfleet-exporter"]["spec"]
        return spec


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    yield found
    found.world.close()


def test_a_holder_that_is_cut_off_stops_in_time(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    process, first = site.start("a")
    site.run(20)
    process.is_cut_off = True
    with caplog.at_level(logging.WARNING):
        site.run(28.1)
    assert site.role(first) is Role.STANDBY
    assert {record.message for record in caplog.records} == {"cannot use the lease", "lease lost; all polls end"}
    lines = lines_of(caplog.records)
    assert len(lines) == len({*lines})  # each error once
    assert "cannot use the lease error=the API server: no answer in time" in [line.replace('"', "") for line in lines]
    process.is_cut_off = False
    site.run(40)
    assert first.may_poll


@pytest.mark.parametrize("status", [403, 409, 410, 429, 500])
def test_a_server_that_rejects_ends_polls_and_is_asked_again(site: Site, status: int) -> None:
    _, first = site.start("a")
    site.run(20)
    site.server.rejects = status
    site.server.requests.clear()
    site.run(60)
    assert not first.may_poll
    assert len(site.server.requests) < 2 * 40 + 10
    site.server.rejects = 0
    site.run(75)
    assert first.may_poll


def test_a_deleted_lease_ends_polls_for_one_duration(site: Site) -> None:
    _, first = site.start("a")
    _, second = site.start("b")
    site.run(20)
    holder = first if first.may_poll else second
    site.server.leases.clear()
    site.run(23)
    assert not holder.may_poll
    assert site.spec.get("holderIdentity") is None
    site.run(36)
    assert first.may_poll != second.may_poll
    assert site.spec["leaseTransitions"] == 1
