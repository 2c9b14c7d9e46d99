"""Pools (PaiStudio ListQuotas, verbose): one call a poll for each 100 quotas."""

from __future__ import annotations

from trainfleet_exporter.polling import Poll, Sweep
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai import translate_pools as translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.division import Look
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.sweeps import with_unread


def pools(shared: Shared, *, interval: float) -> Sweep:
    """The collector. The list is one part: its pages make sense only together."""
    look = Look(interval)

    def take(listing: Listing[payloads.Quota]) -> None:
        quotas = {quota_id: translate.quota(row) for quota_id, row in listing.rows.items()}
        listed = with_unread(quotas, shared.quotas, malformed=listing.malformed)
        shared.learn_quotas({quota_id: quotas.get(quota_id) or shared.quotas[quota_id] for quota_id in listed})

    async def show(poll: Poll) -> bool:
        known = False
        async with poll.part("quotas") as part:
            listing = await shared.api.list_quotas(deadline=poll.deadline)
            part.dropped("malformed", listing.malformed)
            pools = [pool for row in listing.rows.values() if (pool := translate.pool(row)) is not None]
            amounts = [translate.pool_amounts(row) for row in listing.rows.values()]
            take(listing)
            del listing  # before publishing, during which other lists are read
            known = True
            await part.publish([*pools, *amounts])
        return known

    async def look_at(poll: Poll) -> bool:
        """Know which quotas there are, and with which accelerators, where another shard shows them."""
        listing = await shared.api.list_quotas(deadline=poll.deadline)
        poll.dropped("malformed", listing.malformed)
        take(listing)
        if not listing.malformed:
            look.done()
        return True

    async def run(poll: Poll) -> None:
        is_home = shared.division.is_home
        if not is_home and not look.is_due():
            return
        shared.pools_polled.begin()
        known = False
        try:
            known = await (show if is_home else look_at)(poll)
        finally:
            shared.pools_known = known
            shared.pools_polled.done(good=known)

    return Sweep(name="pools", interval=interval, run=run)
