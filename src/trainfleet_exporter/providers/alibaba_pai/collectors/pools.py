"""Pools (PaiStudio ListQuotas, verbose): one call a poll for each 100 quotas; and their nodes (ListNodes, verbose): one
for each quota and each further 100 of its nodes.
"""

from __future__ import annotations

from trainfleet_exporter.polling import BulkCollector, Part, Poll
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai import translate_pools as translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.collectors import PerPoolCollector
from trainfleet_exporter.providers.jobs.listing import Listing, with_unread


class PoolsCollector(BulkCollector):
    """One part for the whole list: its pages make sense only together."""

    def __init__(self, shared: PaiShared, interval: float) -> None:
        super().__init__("pools", interval)
        self._shared = shared

    async def poll(self, poll: Poll) -> None:
        """Show the quotas and their amounts."""
        with self._shared.pools.polling():
            async with poll.part("quotas") as part:
                await self._read(part)

    async def _read(self, part: Part) -> None:
        listing = await self._shared.client.list_quotas(deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        pools = [pool for row in listing.rows.values() if (pool := translate.pool(row)) is not None]
        amounts = [translate.pool_amounts(row) for row in listing.rows.values()]
        self._take(listing)
        del listing  # before publishing, during which other lists are read
        await part.publish([*pools, *amounts])

    def _take(self, listing: Listing[payloads.Quota]) -> None:
        known = self._shared.pools.value
        quotas = {quota_id: translate.quota(row) for quota_id, row in listing.rows.items()}
        ids = with_unread(quotas, known, malformed=listing.malformed)
        self._shared.pools.publish({quota_id: quotas.get(quota_id) or known[quota_id] for quota_id in ids})


class NodesCollector(PerPoolCollector[PaiShared]):
    """A part for each quota; a node of a child quota is one of its parent, too."""

    async def read(self, part: Part) -> None:
        """List the nodes of one quota."""
        listing = await self._shared.client.list_nodes(part.key, deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        found = [translate.node(row, part.key) for row in listing.rows.values()]
        del listing  # before publishing, during which other lists are read
        await part.publish([node for node in found if node is not None])
