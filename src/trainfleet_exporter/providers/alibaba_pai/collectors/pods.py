"""Pods and histories of live jobs (DLC GetJob): one call for each live job and cycle, at most `max_jobs` of them."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai import payloads, translate, translate_history
from trainfleet_exporter.providers.alibaba_pai.client import PaiClient
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.jobs.collectors import PerJobCollector
from trainfleet_exporter.providers.jobs.histories import JobHistories
from trainfleet_exporter.providers.usage.per_job import Cap


class PodsCollector(PerJobCollector):
    """Beyond `max_jobs`, jobs that hold resources come before those that wait, new before old."""

    def __init__(self, shared: PaiShared, interval: float, *, max_jobs: int) -> None:
        super().__init__("pods", shared, interval)
        self._client = shared.client
        self._histories = shared.histories
        self._cap = Cap("pods", max_jobs)

    def objects(self) -> Sequence[str]:
        """The ids of the jobs to ask for."""
        return self._cap.ids(sorted(self._jobs.live_jobs(), key=_need))

    async def poll(self, part: Part) -> None:
        """Read one job."""
        await read_pods(self._client, part, self._histories)


async def read_pods(client: PaiClient, part: Part, histories: JobHistories | None = None) -> int:
    """Read the pods of one job, publish them, and note its history. Returns how many pods there are."""
    try:
        answer = await client.get_job(part.key, payloads.JobPods, deadline=part.deadline)
    except NotFound as error:
        await part.not_found(error)  # the next poll of jobs finds out how it ended
        return 0
    detail, found, dropped = translate.pods(answer)
    if histories is not None:
        histories.note_detail(part.key, translate_history.detail_records(answer))
    del answer  # before publishing, during which other jobs are read
    for reason, count in dropped.items():
        part.dropped(reason, count)
    await part.publish([detail, *found])
    return len(found)


def _need(job: Job) -> tuple[bool, float]:
    return not job.holds_resources, -(job.created or 0.0)
