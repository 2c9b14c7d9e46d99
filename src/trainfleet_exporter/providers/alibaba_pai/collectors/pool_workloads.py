"""Workloads of pools (PaiStudio ListQuotaWorkloads): what runs in each quota, and its queue.

Cost of a poll and quota: one call for each 100 that wait in it, at least one, and one for each type of workload that
the quota takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.model import Accelerators, PoolQueue, PoolWorkloads, QueuePlace, Status
from trainfleet_exporter.polling import Part, PartsCollector
from trainfleet_exporter.providers.alibaba_pai import translate_pools as translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared

_RUNNING = "Running"


class PoolWorkloadsCollector(PartsCollector):
    """A part for each quota. A parent's figures include its children's, but the place of a job is shown once.

    Places are shown if jobs are polled (`has_jobs`).
    """

    def __init__(self, shared: PaiShared, interval: float, *, has_jobs: bool) -> None:
        super().__init__("pool_workloads", interval, at_once=shared.at_once)
        self._shared = shared
        self._has_jobs = has_jobs
        self._awaits_jobs = has_jobs
        """Whether this poll has yet to wait for the jobs, which it does once."""

    async def keys(self) -> Sequence[str]:
        """All quotas."""
        self._awaits_jobs = self._has_jobs
        return list(await self._shared.pools.get())

    async def read(self, part: Part) -> None:
        """Read the queue of one quota, and count what runs in it."""
        client = self._shared.client
        known = self._shared.pools.value.get(part.key)
        if known is None:
            return  # gone since this poll began
        listing = await client.list_queue(part.key, deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        queue = translate.queue(listing.rows.values(), part.key, unreadable=listing.malformed)
        del listing  # before the next call
        found: list[object] = []
        for workload_type in dict.fromkeys((*known.workload_types, *sorted(queue.by_type))):
            waiting = queue.by_type.get(workload_type, 0)
            found.append(PoolWorkloads(part.key, workload_type, Status.QUEUED, translate.ENQUEUED, waiting))
        for workload_type in known.workload_types:
            running = await client.count_running(part.key, workload_type, deadline=part.deadline)
            found.append(PoolWorkloads(part.key, workload_type, Status.RUNNING, _RUNNING, running))
        if queue.accelerators is not None:
            found.append(PoolQueue(part.key, (Accelerators("gpu", "", queue.accelerators),)))
        if self._awaits_jobs and queue.places:
            await self._shared.jobs.wait_briefly(part.deadline)  # otherwise their places come an interval after them
            self._awaits_jobs = False
        found += [place for place in queue.places if self._is_shown(part, place)]
        await part.publish(found)

    def _is_shown(self, part: Part, place: QueuePlace) -> bool:
        jobs = self._shared.jobs
        if place.job_id in jobs.live():
            return True
        if jobs.here.is_known and jobs.owner(place.job_id) is None:  # otherwise the config leaves it out
            part.dropped("unlisted")
        return False
