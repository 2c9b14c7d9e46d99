"""The users that hold accelerators of quotas (PaiStudio ListQuotaActiveUserUsages).

A poll makes one call for each quota and each 100 users. For each other type of workload than training jobs that the
quota accepts, it makes one call for each 100 running workloads, at least one. The number of training jobs does not
matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai import translate_pools as translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.collectors import PerPoolCollector


class PoolUsersCollector(PerPoolCollector[PaiShared]):
    """A part for each quota."""

    async def read(self, part: Part) -> None:
        """Read the users of one quota, and what runs in it next to training jobs."""
        client, quota = self._shared.client, self._shared.pools.value.get(part.key)
        if quota is None:
            return  # gone since this poll began
        listing = await client.list_users(part.key, deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        others: dict[str, Sequence[payloads.Workload]] | None = {}
        for workload_type in quota.workload_types:
            if workload_type == translate.JOBS:
                continue
            running = await client.list_running(part.key, workload_type, deadline=part.deadline)
            part.dropped("malformed", running.malformed)
            if running.malformed:
                others = None
            if others is not None:
                others[workload_type] = list(running.rows.values())
        await part.publish(translate.users(part.key, listing.rows.values(), others))
