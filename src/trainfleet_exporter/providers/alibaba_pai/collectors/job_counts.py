"""Finished jobs by status (DLC ListJobs, TotalCount of a page of one): three calls a workspace, however many jobs."""

from __future__ import annotations

import time

from trainfleet_exporter.model import JobCount
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.sweeps import each_sweep
from trainfleet_exporter.quantities import iso_time


def job_counts(shared: Shared, *, interval: float, window: float, at_once: int) -> Sweep:
    """The collector. Jobs count that were created within the last `window` seconds."""

    async def read(part: Part) -> None:
        counts = []
        for word in translate.TERMINAL_STATUSES:
            query = {
                "WorkspaceId": part.key,
                "Status": word,
                "StartTime": iso_time(time.time() - window),
            }
            count = await shared.api.count_jobs(query, deadline=part.deadline)
            counts.append(JobCount(part.key, translate.job_status(word), word, count))
        await part.publish(counts)

    return each_sweep("job_counts", interval=interval, at_once=at_once, keys=shared.own_workspaces, read=read)
