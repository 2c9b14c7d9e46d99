"""Usage by v2 task metrics: one call for each task of each running job and cycle, of at most `max_jobs` jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.polling import Part, Poll
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.metric_arrays import add_pod
from trainfleet_exporter.providers.usage.arbitration import Handover
from trainfleet_exporter.providers.usage.per_job import Cap, UsageByJobCollector
from trainfleet_exporter.providers.usage.publishing import count
from trainfleet_exporter.providers.usage.sheet import Sheet

SOURCE = "task_metrics"
_CAPPED = "task metrics of %d jobs are not polled: more running jobs need them than max_jobs (%d)"


class TaskMetricsCollector(UsageByJobCollector):
    """The running jobs: the last value of any other is from its end.

    `handover` leaves out the jobs that AOM serves, which is asked for the whole project: then other shards' jobs are
    polled as well.
    """

    def __init__(
        self, shared: ModelArtsShared, interval: float, *, max_jobs: int, handover: Handover | None = None
    ) -> None:
        super().__init__(SOURCE, shared, interval, Cap(_CAPPED, max_jobs))
        self._shared = shared
        self._handover = handover

    async def begin(self, poll: Poll) -> None:
        """Wait for the jobs, and for AOM."""
        await self._jobs.wait(poll.deadline, everywhere=self._handover is not None)
        if self._handover is not None:
            await self._handover.polled.wait()

    def serves(self, job: Job) -> bool:
        """Whether the job runs, and AOM does not serve it."""
        return job.status is Status.RUNNING and (self._handover is None or self._handover.left(job))

    def candidates(self) -> Collection[Job]:
        """The live jobs, of other shards as well where AOM is asked."""
        return self._jobs.live_jobs() if self._handover is None else self._jobs.listed_jobs()

    def objects(self) -> Sequence[str]:
        """The ids of the jobs to ask for."""
        found = super().objects()
        if self._handover is not None:
            self._handover.left_out = self._cap.beyond
        return found

    def is_current(self, object_id: str) -> bool:
        """Whether the job is still served."""
        job = (self._jobs.live() if self._handover is None else self._jobs.listed()).get(object_id)
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
        sheet = Sheet(part.key)
        missing: NotFound | None = None
        for task in self._shared.tasks_of(part.key):
            try:
                answer = await self._shared.client.task_metrics(part.key, task, deadline=part.deadline)
            except NotFound as error:
                missing = error  # the task, or the whole job, went away meanwhile
                continue
            add_pod(sheet, task, answer)
            del answer  # before the next call
            count(part, sheet.dropped)
        if missing is not None and not sheet:
            await part.not_found(missing)
        else:
            await part.publish(sheet.of_job(SOURCE))
        if self._handover is not None:
            self._handover.answered(part.key, with_usage=bool(sheet))
