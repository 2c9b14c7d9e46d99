"""Usage that is asked for job by job, of at most so many jobs, the newest first."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from trainfleet_exporter.model import Job
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.jobs.collectors import PerJobCollector
from trainfleet_exporter.providers.jobs.shared import Shared

log = logging.getLogger(__name__)


class Cap:
    """Lets the first `max_jobs` through, and logs once when there begin to be more. `data` names in the log what is
    not polled of the others."""

    def __init__(self, data: str, max_jobs: int) -> None:
        self._data = data
        self._max_jobs = max_jobs
        self.beyond = 0
        """How many jobs were left out last."""

    def ids(self, ordered: Sequence[Job]) -> list[str]:
        """The ids of the jobs to ask for; they come in the order of need."""
        before, self.beyond = self.beyond, max(0, len(ordered) - self._max_jobs)
        if self.beyond and not before:
            facts = fields(data=self._data, jobs_left_out=self.beyond, max_jobs=self._max_jobs)
            log.warning("more jobs than max_jobs; some are not polled", extra=facts)
        return [job.job_id for job in ordered[: self._max_jobs]]


class UsageByJobCollector(PerJobCollector):
    """A part for each job that `serves` says is this source's."""

    def __init__(self, name: str, shared: Shared, interval: float, cap: Cap) -> None:
        super().__init__(name, shared, interval)
        self._cap = cap

    def objects(self) -> Sequence[str]:
        """The ids of the jobs to ask for. Raises NotReady where the latest poll of jobs read none."""
        served = [job for job in self._jobs.live_jobs() if self.serves(job)]
        return self._cap.ids(sorted(served, key=lambda job: -(job.created or 0.0)))
