"""Shards other than the primary: how they know which workspaces there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.config import Global, ProviderConfig
from trainfleet_exporter.errors import NotReady, ServerTrouble
from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.providers.collectors import WorkspacesCollector
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.shared import Shared
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.sharding import Shard, ShardAssignment
from trainfleet_exporter.transport import Account, CallLimits

INTERVAL = 60.0


class _Poll:
    deadline = 50.0

    def __init__(self) -> None:
        self.lost = 0

    def dropped(self, reason: str, count: int = 1) -> None:
        assert reason == "malformed"
        self.lost += count


def _context(share: ShardAssignment) -> BuildContext:
    account = Account("p", CallLimits())
    return BuildContext(settings=Global(), account=account, observe=lambda attempt: None, shard=share)


class _Guest:
    """A shard that polls units of a provider, and is not its primary shard."""

    def __init__(self, configured: Sequence[str] | None = None) -> None:
        shares = (ShardAssignment("p", Shard(n, 4), 16) for n in range(4))
        share = next(share for share in shares if share.is_member and not share.is_primary)
        config = ProviderConfig(
            name="p", platform="x", region="any-1", workspaces=tuple(configured) if configured else "all"
        )
        self.known = Shared(config, _context(share))
        self.listing: Listing[Any] | None = Listing({"a": {}, "b": {}})
        self.asked = 0
        self.collector = WorkspacesCollector[Any](
            self.known,
            INTERVAL,
            list_all=self._list,
            translate=lambda row: Workspace(str(row["id"]), ""),
        )

    async def _list(self, deadline: float) -> Listing[Any]:
        assert deadline == _Poll.deadline
        self.asked += 1
        if self.listing is None:
            raise ServerTrouble("broken")
        return Listing({key: {"id": key} for key in self.listing.rows}, self.listing.malformed)

    async def polls(self, count: int) -> None:
        for _ in range(count):
            await self.collector.poll(cast("Poll", _Poll()))
            await asyncio.sleep(INTERVAL)


def test_a_list_is_looked_at_every_fifteen_polls() -> None:
    async def main() -> None:
        guest = _Guest()
        await guest.polls(15)
        assert guest.asked == 1
        assert guest.known.workspaces.value == ("a", "b")
        guest.listing = Listing({"b": {}, "c": {}})
        await guest.polls(1)
        assert guest.asked == 2
        assert guest.known.workspaces.value == ("b", "c")

    run_stepped(main)


def test_a_look_that_failed_is_repeated_by_the_next_poll() -> None:
    async def main() -> None:
        guest = _Guest()
        guest.listing = None
        with pytest.raises(ServerTrouble):
            await guest.polls(1)
        with pytest.raises(NotReady):
            await guest.known.workspaces.get()
        guest.listing = Listing({"a": {}})
        await guest.polls(3)
        assert guest.asked == 2
        assert await guest.known.workspaces.get() == ("a",)

    run_stepped(main)


def test_a_list_with_a_broken_row_is_looked_at_again_at_once() -> None:
    async def main() -> None:
        guest = _Guest()
        guest.listing = Listing({"a": {}}, 1)
        await guest.polls(3)
        assert guest.asked == 3

    run_stepped(main)


def test_ids_of_the_config_need_no_look() -> None:
    async def main() -> None:
        guest = _Guest(configured=("x", "y"))
        await guest.polls(20)
        assert guest.asked == 0
        assert await guest.known.workspaces.get() == ("x", "y")

    run_stepped(main)
