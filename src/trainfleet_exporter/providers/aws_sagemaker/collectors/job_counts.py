"""Finished jobs by status (Search, TotalHits of a page with one job): three calls for any number of jobs."""

from __future__ import annotations

from trainfleet_exporter.model import JobCount
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.aws_sagemaker import translate
from trainfleet_exporter.providers.aws_sagemaker.client import search_time
from trainfleet_exporter.providers.aws_sagemaker.collectors.shared import SageMakerShared
from trainfleet_exporter.providers.collectors import PerWorkspaceCollector


class JobCountsCollector(PerWorkspaceCollector[SageMakerShared]):
    """One part: jobs that were created within the last `window` seconds."""

    def __init__(self, shared: SageMakerShared, interval: float, *, window: float) -> None:
        super().__init__("job_counts", shared, interval)
        self._window = window

    async def read(self, part: Part) -> None:
        """Count the jobs by status. Search only estimates large numbers: such a status is left out."""
        counts = []
        since = search_time(self._shared.now() - self._window)
        for word in translate.TERMINAL_STATUSES:
            filters = [("TrainingJobStatus", "Equals", word), ("CreationTime", "GreaterThanOrEqualTo", since)]
            count = await self._shared.client.count_jobs(filters, deadline=part.deadline)
            if count is None:
                part.dropped("no_data")
            else:
                counts.append(JobCount(part.key, translate.job_status(word), word, count))
        await part.publish(counts)
