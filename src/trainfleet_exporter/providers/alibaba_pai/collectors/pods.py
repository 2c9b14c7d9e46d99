"""Pods (DLC GetJob): one call for each live job and cycle, at most `max_jobs` of them."""

from __future__ import annotations

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part, Rolling
from trainfleet_exporter.providers.alibaba_pai import payloads, translate
from trainfleet_exporter.providers.alibaba_pai.api import PaiApi
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.usage.per_job import Cap


def pods(shared: Shared, *, interval: float, max_jobs: int, workers: int) -> Rolling:
    """The collector. Beyond `max_jobs`, jobs that hold resources come before those that wait, new before old."""
    cap = Cap("pods of %d jobs are not polled: there are more live jobs than max_jobs (%d)", max_jobs)

    def units() -> list[str]:
        return cap.ids(sorted(shared.live_jobs(), key=_need))

    async def read(part: Part) -> None:
        await read_pods(shared.api, part)

    return Rolling(
        name="pods",
        interval=interval,
        units=units,
        read=read,
        begin=shared.jobs_first,
        alive=lambda job_id: job_id in shared.book.live(),
        watch=shared.book.watch,
        workers=workers,
    )


async def read_pods(api: PaiApi, part: Part) -> int:
    """Read and show the pods of one job; how many there are."""
    try:
        answer = await api.get_job(part.key, payloads.JobPods, deadline=part.deadline)
    except NotFound as error:
        await part.not_found(error)  # the next sweep says what became of it
        return 0
    detail, found, dropped = translate.pods(answer)
    del answer  # before publishing, during which other jobs are read
    for reason, count in dropped.items():
        part.dropped(reason, count)
    await part.publish([detail, *found])
    return len(found)


def _need(job: Job) -> tuple[bool, float]:
    return not job.holds_resources, -(job.created or 0.0)
