"""Usage by DLC GetJobMetrics: up to eight calls for each running job and cycle.

The platform keeps this call up for pay-as-you-go jobs on general computing only; `auto` asks for no others. At most
`max_jobs` of them are asked for, the newest first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.collectors.dlc_metrics import is_without_gpus
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.alibaba_pai.job_metrics import METRIC_TYPES, SOURCE, add
from trainfleet_exporter.providers.usage.per_job import Cap, UsageByJobCollector
from trainfleet_exporter.providers.usage.publishing import count, max_age, publish
from trainfleet_exporter.providers.usage.sheet import Sheet

_CAPPED = "usage (GetJobMetrics) of %d jobs are not polled: there are more live jobs than max_jobs (%d)"


class JobMetricsCollector(UsageByJobCollector):
    """The jobs that `serves` says are this source's."""

    def __init__(self, shared: PaiShared, interval: float, *, serves: Callable[[Job], bool], max_jobs: int) -> None:
        super().__init__(SOURCE, shared, interval, Cap(_CAPPED, max_jobs))
        self._client = shared.client
        self._max_data_age = shared.max_data_age
        self._serves = serves

    def serves(self, job: Job) -> bool:
        """Whether the job is this source's."""
        return self._serves(job)

    def calls(self, object_id: str) -> int:
        """One for each metric."""
        return len(METRIC_TYPES)

    async def poll(self, part: Part) -> None:
        """Read all metrics of one job."""
        job = self._jobs.live()[part.key]
        now, age = time.time(), max_age(part, self._max_data_age)
        sheet = Sheet(part.key, now=now, max_age=age)
        for metric in METRIC_TYPES:
            if metric.needs_gpu and is_without_gpus(job):
                continue
            try:
                payload = await self._client.get_job_metrics(
                    part.key, metric.name, start=now - age, end=now, deadline=part.deadline
                )
            except NotFound as error:
                await part.not_found(error)  # the next poll of jobs says what became of it
                return
            add(sheet, payload, metric, job_id=part.key, now=now)
            del payload  # before the next call
            is_silent = not sheet and sheet.dropped.keys() <= {"no_data"}
            count(part, sheet.dropped)
            if is_silent:
                break  # every running pod uses some CPU: a job without a CPU reading is not served at all

        async def build(since: float) -> tuple[Sequence[object], float]:
            return sheet.of_job(SOURCE, since), sheet.oldest(since)

        await publish(part, build, self._max_data_age, now=now)
