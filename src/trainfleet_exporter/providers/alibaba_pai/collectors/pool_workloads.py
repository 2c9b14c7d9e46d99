"""Workloads of pools (PaiStudio ListQuotaWorkloads): what runs in each quota, and its queue.

Cost a poll and quota: one call for each 100 that wait in it, at least one, and one for each type of workload that the
quota takes.
"""

from __future__ import annotations

from trainfleet_exporter.model import Accelerators, PoolQueue, PoolWorkloads, QueuePlace, Status
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.alibaba_pai import translate_pools as translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.sweeps import each_sweep

_RUNNING = "Running"


def pool_workloads(shared: Shared, *, interval: float, at_once: int, has_jobs: bool) -> Sweep:
    """The collector. A part is a quota; a parent's figures include its children's, but a job's place is told once, and
    where jobs are polled (`has_jobs`)."""
    awaits_jobs = has_jobs

    async def quotas() -> list[str]:
        nonlocal awaits_jobs
        awaits_jobs = has_jobs
        return list(await shared.listed_quotas())

    async def read(part: Part) -> None:
        nonlocal awaits_jobs
        known = shared.quotas.get(part.key)
        if known is None:
            return  # gone since this poll began
        listing = await shared.api.list_queue(part.key, deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        queue = translate.queue(listing.rows.values(), part.key, unreadable=listing.malformed)
        del listing  # before the next call
        found: list[object] = []
        for workload_type in dict.fromkeys((*known.workload_types, *sorted(queue.by_type))):
            waiting = queue.by_type.get(workload_type, 0)
            found.append(PoolWorkloads(part.key, workload_type, Status.QUEUED, translate.ENQUEUED, waiting))
        for workload_type in known.workload_types:
            running = await shared.api.count_running(part.key, workload_type, deadline=part.deadline)
            found.append(PoolWorkloads(part.key, workload_type, Status.RUNNING, _RUNNING, running))
        if queue.accelerators is not None:
            found.append(PoolQueue(part.key, (Accelerators("gpu", "", queue.accelerators),)))
        if awaits_jobs and queue.places:
            await shared.all_jobs_soon(part.deadline)  # else their places come an interval after them
            awaits_jobs = False
        found += [place for place in queue.places if _is_shown(shared, part, place)]
        await part.publish(found)

    return each_sweep("pool_workloads", interval=interval, at_once=at_once, keys=quotas, read=read)


def _is_shown(shared: Shared, part: Part, place: QueuePlace) -> bool:
    if place.job_id in shared.book.listed():
        return True
    is_all_known = shared.jobs_known and shared.elsewhere_known
    if is_all_known and shared.book.owner(place.job_id) is None:  # else it is one that the config leaves out
        part.dropped("unlisted")
    return False
