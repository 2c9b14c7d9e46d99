"""Usage by v2 task metrics: one call for each task of each running job and cycle."""

from __future__ import annotations

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job, Status, UsageValues
from trainfleet_exporter.polling import Part, Rolling
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.usage import pod_values, usage

SOURCE = "task_metrics"


def task_metrics_usage(shared: Shared, *, interval: float, workers: int) -> Rolling:
    """The collector. Only running jobs: the last value of any other is from its end."""

    def measured(job: Job | None) -> bool:
        return job is not None and job.status is Status.RUNNING

    def units() -> list[str]:
        running = [job for job in shared.live_jobs() if measured(job)]
        return [job.job_id for job in sorted(running, key=lambda job: -(job.created or 0.0))]

    async def read(part: Part) -> None:
        found: dict[str, UsageValues] = {}
        for task in shared.tasks_of(part.key):
            try:
                payload = await shared.api.task_metrics(part.key, task, deadline=part.deadline)
            except NotFound:
                continue  # the task, or the whole job, went away meanwhile
            values, dropped = pod_values(payload)
            for reason, count in dropped.items():
                part.dropped(reason, count)
            if values is not None:
                found[task] = values
        await part.publish(usage(part.key, SOURCE, found))

    return Rolling(
        name="usage",
        interval=interval,
        units=units,
        read=read,
        begin=shared.jobs_first,
        alive=lambda job_id: measured(shared.book.live().get(job_id)),
        watch=shared.book.watch,
        workers=workers,
        calls=lambda job_id: len(shared.tasks_of(job_id)),
    )
