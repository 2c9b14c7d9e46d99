"""Usage by v2 task metrics: one call for each task of each running job and cycle, of at most `max_jobs` jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job, Status, UsageValues
from trainfleet_exporter.polling import Part, Poll, Rolling
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.handover import Handover
from trainfleet_exporter.providers.huawei_modelarts.usage import pod_values, usage

SOURCE = "task_metrics"
log = logging.getLogger(__name__)


def task_metrics_usage(
    shared: Shared, *, interval: float, max_jobs: int, workers: int, handover: Handover | None = None
) -> Rolling:
    """The collector. Only running jobs: the last value of any other is from its end.

    `handover` leaves out the jobs that AOM serves, which is asked for the whole project: then other shards' jobs are
    polled as well. Beyond `max_jobs`, new jobs come before old ones.
    """
    listed = shared.book.live if handover is None else shared.book.listed
    left_out = 0

    def measured(job: Job | None) -> bool:
        if job is None or job.status is not Status.RUNNING:
            return False
        return handover is None or handover.left(job)

    async def begin(poll: Poll) -> None:
        if handover is None:
            await shared.jobs_first(poll)
        else:
            await shared.all_jobs_first(poll)
            await handover.polled.wait()

    def watch(callback: Callable[[], None]) -> None:
        shared.book.watch(callback)
        if handover is not None:
            handover.watch(callback)

    def units() -> list[str]:
        nonlocal left_out
        jobs = shared.live_jobs() if handover is None else shared.listed_jobs()
        running = sorted((job for job in jobs if measured(job)), key=lambda job: -(job.created or 0.0))
        beyond = max(0, len(running) - max_jobs)
        if beyond and not left_out:
            log.warning(
                "task metrics of %d jobs are not polled: more running jobs need them than max_jobs (%d)",
                beyond,
                max_jobs,
            )
        left_out = beyond
        if handover is not None:
            handover.left_out = beyond
        return [job.job_id for job in running[:max_jobs]]

    async def read(part: Part) -> None:
        found: dict[str, UsageValues] = {}
        missing: NotFound | None = None
        for task in shared.tasks_of(part.key):
            try:
                answer = await shared.api.task_metrics(part.key, task, deadline=part.deadline)
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
        if handover is not None:
            handover.answered(part.key, with_usage=bool(found))

    return Rolling(
        name=SOURCE,
        interval=interval,
        units=units,
        read=read,
        begin=begin,
        alive=lambda job_id: measured(listed().get(job_id)),
        watch=watch,
        workers=workers,
        calls=lambda job_id: len(shared.tasks_of(job_id)),
    )
