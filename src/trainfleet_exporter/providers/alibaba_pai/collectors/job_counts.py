"""Finished jobs by status (DLC ListJobs, TotalCount of a page of one): three calls a workspace, however many jobs."""

from __future__ import annotations

import time

from trainfleet_exporter.model import JobCount
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.collectors import PerWorkspaceCollector
from trainfleet_exporter.transport.json_fields import iso_time


class JobCountsCollector(PerWorkspaceCollector[PaiShared]):
    """A part for each workspace. Jobs count that were created within the last `window` seconds."""

    def __init__(self, shared: PaiShared, interval: float, *, window: float) -> None:
        super().__init__("job_counts", shared, interval)
        self._window = window

    async def read(self, part: Part) -> None:
        """Count the jobs of one workspace."""
        counts = []
        for word in translate.TERMINAL_STATUSES:
            query = {
                "WorkspaceId": part.key,
                "Status": word,
                "StartTime": iso_time(time.time() - self._window),
            }
            count = await self._shared.client.count_jobs(query, deadline=part.deadline)
            counts.append(JobCount(part.key, translate.job_status(word), word, count))
        await part.publish(counts)
