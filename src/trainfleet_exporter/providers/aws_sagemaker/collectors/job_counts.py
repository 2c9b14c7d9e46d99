"""Finished jobs by status (Search, TotalHits of a page with one job): three calls for any number of jobs."""

from __future__ import annotations

import time

from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.model import JobCount
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.aws_sagemaker import translate
from trainfleet_exporter.providers.aws_sagemaker.client import search_time
from trainfleet_exporter.providers.aws_sagemaker.collectors.shared import SageMakerShared, lacks_permission
from trainfleet_exporter.providers.collectors import PerWorkspaceCollector


class JobCountsCollector(PerWorkspaceCollector[SageMakerShared]):
    """One part: jobs that were created within the last `window` seconds."""

    def __init__(self, shared: SageMakerShared, interval: float, *, window: float) -> None:
        super().__init__("job_counts", shared, interval)
        self._window = window

    async def read(self, part: Part) -> None:
        """Count the jobs. If a policy denies Search, there are no counts, because only Search has them."""
        try:
            counts = await self._counts(part)
        except AccessDenied as error:
            if not lacks_permission(error):
                raise
            part.lacks("Search", error)
            counts = []
        await part.publish(counts)

    async def _counts(self, part: Part) -> list[JobCount]:
        """Return the counts by status. Search only estimates large numbers: such a status is left out."""
        counts = []
        since = search_time(time.time() - self._window)
        for word in translate.TERMINAL_STATUSES:
            filters = [("TrainingJobStatus", "Equals", word), ("CreationTime", "GreaterThanOrEqualTo", since)]
            count = await self._shared.client.count_jobs(filters, deadline=part.deadline)
            if count is None:
                part.dropped("no_data")
            else:
                counts.append(JobCount(part.key, translate.job_status(word), word, count))
        return counts
