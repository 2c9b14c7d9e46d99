"""Workloads of each dedicated pool by type and status, and its queue.

One call a pool, however many workloads; and if something is queued, one more for each 500 of what is.
"""

from __future__ import annotations

from collections.abc import Collection

from trainfleet_exporter.errors import BadAnswer, NotFound
from trainfleet_exporter.model import Status
from trainfleet_exporter.polling import BulkCollector, FairQueue, Part, Poll
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.translate_pools import pool_queue, queue_places

_QUEUE = "queue of "
"""The prefix of the part of a pool's queue; the part of its counts is its id."""


class PoolWorkloadsCollector(BulkCollector):
    """Two parts for each pool: counts, and the queue with the places of jobs, if jobs are polled (`has_jobs`)."""

    def __init__(self, shared: ModelArtsShared, interval: float, *, has_jobs: bool) -> None:
        super().__init__("pool_workloads", interval)
        self._shared = shared
        self._has_jobs = has_jobs
        self._queued: dict[str, int] = {}
        """By pool, how many workloads its latest counts have in the queue."""
        self._counts, self._queues = FairQueue(), FairQueue()

    async def poll(self, poll: Poll) -> None:
        """Read the counts of all pools, then the queues that are not empty."""
        pool_ids, at_once = list(await self._shared.pools.get()), self._shared.at_once
        poll.keep_only([*pool_ids, *(_QUEUE + pool_id for pool_id in pool_ids)])
        self._queued.clear()
        await self._counts.read_each(poll, pool_ids, self._read_counts, at_once=at_once)
        if self._has_jobs and any(self._queued.values()):
            await self._shared.wait_briefly(poll.deadline)  # otherwise their places come an interval after them
        counted = [_QUEUE + pool_id for pool_id in pool_ids if pool_id in self._queued]
        await self._queues.read_each(poll, counted, self._read_queue, at_once=at_once)

    async def _read_counts(self, part: Part) -> None:
        try:
            answer = await self._shared.client.workload_statistics(part.key, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        translated = translate.pool_workloads(part.key, answer)
        del answer  # before publishing, during which other answers are read
        if translated is None:
            raise BadAnswer("the answer has no statistics", operation="ShowWorkloadStatistics")
        rows, dropped = translated
        for reason, count in dropped.items():
            part.dropped(reason, count)
        # If a count could not be read, the queue itself is asked for.
        self._queued[part.key] = sum(row.count for row in rows if row.status is Status.QUEUED) or dropped["malformed"]
        await part.publish(rows)

    async def _read_queue(self, part: Part) -> None:
        pool_id = part.key.removeprefix(_QUEUE)
        kinds = self._shared.pools.value.get(pool_id, ())
        if not self._queued[pool_id]:
            await part.publish([pool_queue(pool_id, [], kinds)])
            return
        try:
            listing = await self._shared.client.queued_workloads(pool_id, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        part.dropped("malformed", listing.malformed)
        rows = list(listing.rows.values())
        queue = pool_queue(pool_id, rows, kinds, unreadable=listing.malformed)
        places = queue_places(rows, self._jobs_of(pool_id))
        del listing, rows  # before publishing, during which other lists are read
        await part.publish([queue, *places])

    def _jobs_of(self, pool_id: str) -> Collection[str]:
        # The physical pool may also list a logical pool's workloads: each pool shows the positions of its own jobs.
        return {job.job_id for job in self._shared.live.values() if job.pool_id == pool_id}
