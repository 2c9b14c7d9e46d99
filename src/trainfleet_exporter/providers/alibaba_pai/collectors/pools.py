"""Pools (PaiStudio ListQuotas, verbose): one call a poll for each 100 quotas."""

from __future__ import annotations

from trainfleet_exporter.polling import BulkCollector, Poll
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai import translate_pools as translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.division import Look
from trainfleet_exporter.providers.jobs.listing import Listing, with_unread


class PoolsCollector(BulkCollector):
    """One part for the whole list: its pages make sense only together.

    Shards other than the primary read the list now and then, and show nothing.
    """

    def __init__(self, shared: PaiShared, interval: float) -> None:
        super().__init__("pools", interval)
        self._shared = shared
        self._look = Look(interval)

    async def poll(self, poll: Poll) -> None:
        """Read the list, unless another shard shows it and it was read lately."""
        is_primary = self._shared.assignment.is_home
        if not is_primary and not self._look.is_due():
            return
        with self._shared.pools.polling():
            await (self._show if is_primary else self._learn)(poll)

    async def _show(self, poll: Poll) -> None:
        async with poll.part("quotas") as part:
            listing = await self._shared.client.list_quotas(deadline=poll.deadline)
            part.dropped("malformed", listing.malformed)
            pools = [pool for row in listing.rows.values() if (pool := translate.pool(row)) is not None]
            amounts = [translate.pool_amounts(row) for row in listing.rows.values()]
            self._take(listing)
            del listing  # before publishing, during which other lists are read
            await part.publish([*pools, *amounts])

    async def _learn(self, poll: Poll) -> None:
        """Know which quotas exist, and their accelerators."""
        listing = await self._shared.client.list_quotas(deadline=poll.deadline)
        poll.dropped("malformed", listing.malformed)
        self._take(listing)
        if not listing.malformed:
            self._look.done()

    def _take(self, listing: Listing[payloads.Quota]) -> None:
        known = self._shared.pools.value
        quotas = {quota_id: translate.quota(row) for quota_id, row in listing.rows.items()}
        ids = with_unread(quotas, known, malformed=listing.malformed)
        self._shared.pools.publish({quota_id: quotas.get(quota_id) or known[quota_id] for quota_id in ids})
