"""Workloads of each dedicated pool by type and status, and its queue.

One call a pool, however many workloads; and where something is queued, one more for each 500 of what is.
"""

from __future__ import annotations

from collections.abc import Collection

from trainfleet_exporter.errors import BadAnswer, NotFound
from trainfleet_exporter.model import Status
from trainfleet_exporter.polling import Part, Poll, Sweep
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.pool_details import pool_queue, queue_places
from trainfleet_exporter.providers.turns import Turns

_QUEUE = "queue of "
"""What the parts begin with that show a pool's queue; the part of its counts is its id."""


def pool_workloads(shared: Shared, *, interval: float, at_once: int, has_jobs: bool) -> Sweep:
    """The collector: two parts for each pool. Where jobs are polled (`has_jobs`), so are their places in the queue."""
    queued: dict[str, int] = {}
    """By pool, how many workloads its latest counts have in the queue."""
    turns, of_queues = Turns(), Turns()

    async def run(poll: Poll) -> None:
        pool_ids = await shared.pools()
        poll.keep_only([*pool_ids, *(_QUEUE + pool_id for pool_id in pool_ids)])
        queued.clear()
        turns.read(await poll.read_each(turns.order(pool_ids), read, at_once=at_once))
        if has_jobs and any(queued.values()):
            await shared.all_jobs_soon(poll.deadline)  # else their places come an interval after them
        counted = [_QUEUE + pool_id for pool_id in pool_ids if pool_id in queued]
        of_queues.read(await poll.read_each(of_queues.order(counted), read_queue, at_once=at_once))

    async def read(part: Part) -> None:
        try:
            answer = await shared.api.workload_statistics(part.key, deadline=part.deadline)
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
        # Where a count could not be read, the queue itself is asked.
        queued[part.key] = sum(row.count for row in rows if row.status is Status.QUEUED) or dropped["malformed"]
        await part.publish(rows)

    async def read_queue(part: Part) -> None:
        pool_id = part.key.removeprefix(_QUEUE)
        kinds = shared.accelerators.get(pool_id, ())
        if not queued[pool_id]:
            await part.publish([pool_queue(pool_id, [], kinds)])
            return
        try:
            listing = await shared.api.queued_workloads(pool_id, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        part.dropped("malformed", listing.malformed)
        rows = list(listing.rows.values())
        queue = pool_queue(pool_id, rows, kinds, unreadable=listing.malformed)
        places = queue_places(rows, jobs_of(pool_id))
        del listing, rows  # before publishing, during which other lists are read
        await part.publish([queue, *places])

    def jobs_of(pool_id: str) -> Collection[str]:
        # A logical pool's workloads may be listed by the physical one, too: each job's place is shown by its own.
        return {job.job_id for job in shared.book.listed().values() if job.pool_id == pool_id}

    return Sweep(name="pool_workloads", interval=interval, run=run)
