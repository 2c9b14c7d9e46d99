"""Finished jobs by status (DLC ListJobs, TotalCount of a page of one): three calls a workspace, however many jobs."""

from __future__ import annotations

import asyncio
import time

from trainfleet_exporter.model import JobCount
from trainfleet_exporter.polling import Poll, Sweep
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.quantities import iso_time


def job_counts(shared: Shared, *, interval: float, window: float) -> Sweep:
    """The collector. Jobs count that were created within the last `window` seconds."""

    async def run(poll: Poll) -> None:
        workspace_ids = await shared.workspaces()
        poll.keep_only(workspace_ids)
        async with asyncio.TaskGroup() as group:
            for workspace_id in workspace_ids:
                group.create_task(read(poll, workspace_id))

    async def read(poll: Poll, workspace_id: str) -> None:
        async with poll.part(workspace_id) as part:
            counts = []
            for word in translate.TERMINAL_STATUSES:
                query = {
                    "WorkspaceId": workspace_id,
                    "Status": word,
                    "StartTime": iso_time(time.time() - window),
                }
                count = await shared.api.count_jobs(query, deadline=part.deadline)
                counts.append(JobCount(workspace_id, translate.job_status(word), word, count))
            await part.publish(counts)

    return Sweep(name="job_counts", interval=interval, run=run)
