"""Usage by v2 task metrics: one call for each task of each running job and cycle, of at most `max_jobs` jobs."""

from __future__ import annotations

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.polling import Part, Poll, Rolling
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.metric_arrays import add_pod
from trainfleet_exporter.providers.usage.arbitration import Handover
from trainfleet_exporter.providers.usage.per_job import Cap, Jobs, PerJob
from trainfleet_exporter.providers.usage.publishing import count
from trainfleet_exporter.providers.usage.sheet import Sheet

SOURCE = "task_metrics"
_CAPPED = "task metrics of %d jobs are not polled: more running jobs need them than max_jobs (%d)"


class TaskMetrics:
    """The collector. Only running jobs: the last value of any other is from its end.

    `handover` leaves out the jobs that AOM serves, which is asked for the whole project: then other shards' jobs are
    polled as well.
    """

    def __init__(self, shared: Shared, *, max_jobs: int, handover: Handover | None = None) -> None:
        self._shared = shared
        self._handover = handover
        self._cap = Cap(_CAPPED, max_jobs)

    def collector(self, *, interval: float, workers: int) -> Rolling:
        """The collector."""
        shared, handover = self._shared, self._handover
        return PerJob(
            name=SOURCE,
            interval=interval,
            workers=workers,
            jobs=Jobs(
                first=self._begin,
                listed=shared.live_jobs if handover is None else shared.listed_jobs,
                known=shared.book.live if handover is None else shared.book.listed,
                watchable=[shared.book.watch] if handover is None else [shared.book.watch, handover.watch],
            ),
            serves=self._serves,
            read=self._read,
            calls=lambda job_id: len(shared.tasks_of(job_id)),
            cap=self._cap,
            counted=self._left_out,
        ).collector()

    def _serves(self, job: Job) -> bool:
        return job.status is Status.RUNNING and (self._handover is None or self._handover.left(job))

    def _left_out(self, beyond: int) -> None:
        if self._handover is not None:
            self._handover.left_out = beyond

    async def _begin(self, poll: Poll) -> None:
        if self._handover is None:
            await self._shared.jobs_first(poll)
        else:
            await self._shared.all_jobs_first(poll)
            await self._handover.polled.wait()

    async def _read(self, part: Part, _: Job) -> None:
        sheet = Sheet(part.key)
        missing: NotFound | None = None
        for task in self._shared.tasks_of(part.key):
            try:
                answer = await self._shared.api.task_metrics(part.key, task, deadline=part.deadline)
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
