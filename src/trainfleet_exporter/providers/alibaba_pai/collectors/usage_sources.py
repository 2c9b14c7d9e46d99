"""Which source serves the usage of which job: never two of them, for a series may stand on the page only once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, TypeAlias

from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.providers.jobs.registry import JobRegistry

Source: TypeAlias = Literal["cloudmonitor", "job_metrics", "dlc_metrics"]
_REMEMBERED = 6 * 3600.0
_MEASURED = frozenset({Status.RUNNING, Status.RESTARTING, Status.STOPPING})


class Sources:
    """The source of each live job. `choice` is the config's word.

    What `auto` decided for a job stays: if its row told something else later on, two collectors would show it for a
    while.
    """

    def __init__(self, choice: Literal["auto"] | Source, book: JobRegistry) -> None:
        self._choice = choice
        self._book = book
        self._decided: dict[str, Source] = {}
        self._gone: dict[str, float] = {}
        """By job that has a decision and is not live any more, since when (loop time)."""
        book.watch(self._forget)

    def serving(self, source: Source) -> Callable[[Job | None], bool]:
        """A test for the jobs that a source serves and that use something now."""

        def serves(job: Job | None) -> bool:
            return job is not None and job.status in _MEASURED and self._of(job) == source

        return serves

    def _of(self, job: Job) -> Source:
        if self._choice != "auto":
            return self._choice
        return self._decided.setdefault(job.job_id, "job_metrics" if is_pay_as_you_go(job) else "cloudmonitor")

    def _forget(self) -> None:
        # A job that ended may be started again, and its readings outlive it by a poll: it keeps its source for a while.
        live, now = self._book.listed(), asyncio.get_running_loop().time()
        self._gone = {job_id: self._gone.get(job_id, now) for job_id in self._decided if job_id not in live}
        for job_id in [job_id for job_id, since in self._gone.items() if now - since > _REMEMBERED]:
            del self._decided[job_id], self._gone[job_id]


def is_pay_as_you_go(job: Job) -> bool:
    """GetJobMetrics is kept up for pay-as-you-go jobs on general computing only, and CloudMonitor has all others."""
    return job.payment_type == "PostPaid" and job.resource_type in ("", "ECS")
