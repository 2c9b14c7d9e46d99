"""Checks of the series that several shards show together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.gateway import Signatures
from trainfleet_conformance.page import DATED, Key, Page, words
from trainfleet_conformance.stage import INTERVAL, PROVIDER, config_text, load, serve_cloud
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config
from trainfleet_exporter.sharding import WHOLE, Shard, ShardAssignment, apportioned

_SHARDS = (3, 4, 5, 6, 7, 8)
_SPREADS = (16, 64)
"""The kit tries these one by one, until more than one shard has a part of the simulated cloud."""
_POLLS = 3
_WORKSPACE = "trainfleet_workspace_info"


class SharingChecks(ProviderCase):
    """Checks of shards."""

    def test_share_all_shards_together_show_what_one_exporter_shows(self) -> None:
        """Exactly one shard shows each series, with the value that a single exporter shows."""

        shards, spread = dividing({labels["workspace_id"] for labels, _ in self.good.page.of(_WORKSPACE)})

        async def main(folder: Path) -> None:
            async with serve_cloud(self.cloud(self.jobs), Signatures()) as (_, listener):
                provider = self.config(listener.url)
                sharding = {**provider.get("sharding", {}), "spread": spread}
                text = config_text(self.platform, {**provider, "sharding": sharding}, {})
                config = load(folder, self.platform, text)
                exporters = [
                    self._exporter(config, shard) for shard in (WHOLE, *(Shard(n, shards) for n in range(shards)))
                ]
                try:
                    pages = await _polled(exporters)
                finally:
                    for exporter in exporters:
                        await exporter.aclose()
            alone, *parts = pages
            shown = Counter(key for part in parts for key in part.shown)
            complaints = [f"shown by {count} shards: {words(key)}" for key, count in shown.items() if count > 1]
            complaints += [f"shown by no shard: {words(key)}" for key in _sorted(alone.shown.keys() - shown.keys())]
            complaints += [f"shown by shards alone: {words(key)}" for key in _sorted(shown.keys() - alone.shown.keys())]
            divided = {key: value for part in parts for key, value in part.shown.items() if shown[key] == 1}
            complaints += [
                f"{words(key)} is {divided[key]} of a shard, where one exporter shows {alone.shown[key]}"
                for key in _sorted(alone.shown.keys() & divided.keys())
                if key[0] not in DATED and divided[key] != alone.shown[key]
            ]
            if self.platform.splits and sum(bool(part.shown) for part in parts) == 1:
                named = [labels["workspace_id"] for labels, _ in alone.of(_WORKSPACE)]
                of_several = len(_owners(named, shards, spread)) > 1  # one shard may have all by chance
                complaints += ["all of it is with one shard, though Platform.splits"] * of_several
            complain(
                complaints,
                "hand the context to Shared; counts by own_workspaces, what is the account's by shard.is_primary",
            )

        self.play(main)

    def _exporter(self, config: Config, shard: Shard) -> Exporter:
        splits = {self.platform.name: self.platform.splits}
        return Exporter(apportioned(config, shard, splits), {self.platform.name: self.platform}, shard=shard)


def dividing(workspace_ids: Iterable[str]) -> tuple[int, int]:
    """Return the first numbers of shards and members that divide these workspaces among several shards."""
    named = sorted(workspace_ids)
    tried = [(shards, spread) for spread, shards in product(_SPREADS, _SHARDS)]
    return next((each for each in tried if len(_owners(named, *each)) > 1), tried[0])


def _owners(workspace_ids: Iterable[str], shards: int, spread: int) -> set[int]:
    share = ShardAssignment(PROVIDER, Shard(0, shards), spread)
    return {share.owner("workspace", key) for key in workspace_ids}


async def _polled(exporters: Sequence[Exporter]) -> list[Page]:
    """Return the pages of exporters after some polls, all at the same time."""
    for _ in range(_POLLS):
        await asyncio.gather(*(exporter.poll_once() for exporter in exporters), asyncio.sleep(INTERVAL))
    return [Page((await exporter.text()).decode()) for exporter in exporters]


def _sorted(keys: set[Key]) -> list[Key]:
    return sorted(keys)
