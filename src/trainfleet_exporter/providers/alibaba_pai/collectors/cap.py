"""What is asked for job by job stops at a number of jobs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from trainfleet_exporter.model import Job

log = logging.getLogger(__name__)


class Cap:
    """Lets the first `max_jobs` through, and tells once when there begin to be more; `what` is what the others lack."""

    def __init__(self, what: str, max_jobs: int) -> None:
        self._what = what
        self._max_jobs = max_jobs
        self._told = False

    def ids(self, ordered: Sequence[Job]) -> list[str]:
        """The ids of the jobs to ask for; they come in the order of need."""
        beyond = max(0, len(ordered) - self._max_jobs)
        if beyond and not self._told:
            log.warning(
                "%s of %d jobs are not polled: there are more live jobs than max_jobs (%d)",
                self._what,
                beyond,
                self._max_jobs,
            )
        self._told = beyond > 0
        return [job.job_id for job in ordered[: self._max_jobs]]
