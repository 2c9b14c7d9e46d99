"""Usage by v2 task metrics: one call for each task of each running job and cycle, of at most `max_jobs` jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job, Status, UsageValues
from trainfleet_exporter.polling import Part, Poll
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.handover import Handover
from trainfleet_exporter.providers.huawei_modelarts.usage import pod_values, usage
from trainfleet_exporter.providers.jobs.collectors import PerJobCollector

SOURCE = "task_metrics"
log = logging.getLogger(__name__)


class TaskMetricsCollector(PerJobCollector):
    """The running jobs: the last value of any other is from its end.

    `handover` leaves out the jobs that AOM serves, which is asked for the whole project: then other shards' jobs are
    polled as well. Beyond `max_jobs`, new jobs come before old ones.
    """

    def __init__(
        self, shared: ModelArtsShared, interval: float, *, max_jobs: int, handover: Handover | None = None
    ) -> None:
        super().__init__(SOURCE, shared, interval)
        self._shared = shared
        self._max_jobs = max_jobs
        self._handover = handover
        self._left_out = 0

    async def begin(self, poll: Poll) -> None:
        """Wait for the jobs, and for AOM."""
        await self._jobs.wait(poll.deadline, everywhere=self._handover is not None)
        if self._handover is not None:
            await self._handover.polled.wait()

    def serves(self, job: Job) -> bool:
        """Whether the job runs, and AOM does not serve it."""
        return job.status is Status.RUNNING and (self._handover is None or self._handover.left(job))

    def objects(self) -> Sequence[str]:
        """The jobs, the newest first."""
        jobs = self._jobs.live_jobs() if self._handover is None else self._jobs.listed_jobs()
        running = sorted((job for job in jobs if self.serves(job)), key=lambda job: -(job.created or 0.0))
        beyond = max(0, len(running) - self._max_jobs)
        if beyond and not self._left_out:
            log.warning(
                "task metrics of %d jobs are not polled: more running jobs need them than max_jobs (%d)",
                beyond,
                self._max_jobs,
            )
        self._left_out = beyond
        if self._handover is not None:
            self._handover.left_out = beyond
        return [job.job_id for job in running[: self._max_jobs]]

    def is_current(self, object_id: str) -> bool:
        """Whether the job is still served."""
        jobs = self._jobs.live() if self._handover is None else self._jobs.listed()
        job = jobs.get(object_id)
        return job is not None and self.serves(job)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever the jobs changed, or AOM took some over."""
        super().watch(callback)
        if self._handover is not None:
            self._handover.watch(callback)

    def calls(self, object_id: str) -> int:
        """One for each task."""
        return len(self._shared.tasks_of(object_id))

    async def poll(self, part: Part) -> None:
        """Read all tasks of one job."""
        found: dict[str, UsageValues] = {}
        missing: NotFound | None = None
        for task in self._shared.tasks_of(part.key):
            try:
                answer = await self._shared.client.task_metrics(part.key, task, deadline=part.deadline)
            except NotFound as error:
                missing = error  # the task, or the whole job, went away meanwhile
                continue
            values, dropped = pod_values(answer)
            del answer  # before the next call
            for reason, count in dropped.items():
                part.dropped(reason, count)
            if values is not None:
                found[task] = values
        if missing is not None and not found:
            await part.not_found(missing)
        else:
            await part.publish(usage(part.key, SOURCE, found))
        if self._handover is not None:
            self._handover.answered(part.key, with_usage=bool(found))
