"""Usage by DLC GetJobMetrics: up to eight calls for each running job and cycle.

The platform keeps this call up for pay-as-you-go jobs on general computing only; `auto` asks for no others. At most
`max_jobs` of them are asked for, the newest first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.collectors.cap import Cap
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.alibaba_pai.job_metrics import METRIC_TYPES, Reading, readings, usage
from trainfleet_exporter.providers.jobs.collectors import PerJobCollector


class JobMetricsCollector(PerJobCollector):
    """The jobs that `serves` says are this source's."""

    def __init__(
        self, shared: PaiShared, interval: float, *, serves: Callable[[Job | None], bool], max_jobs: int
    ) -> None:
        super().__init__("job_metrics", shared, interval)
        self._client = shared.client
        self._max_data_age = shared.max_data_age
        self._serves = serves
        self._cap = Cap("usage (GetJobMetrics)", max_jobs)

    def serves(self, job: Job) -> bool:
        """Whether the job is this source's."""
        return self._serves(job)

    def objects(self) -> Sequence[str]:
        """The jobs, the newest first."""
        live = [job for job in self._jobs.live_jobs() if self._serves(job)]
        return self._cap.ids(sorted(live, key=lambda job: -(job.created or 0.0)))

    def calls(self, object_id: str) -> int:
        """One for each metric."""
        return len(METRIC_TYPES)

    async def poll(self, part: Part) -> None:
        """Read all metrics of one job."""
        now = time.time()
        max_age = max(self._max_data_age, 2 * part.interval)
        job = self._jobs.live()[part.key]
        without_gpu = bool(job.accelerators) and all(item.count == 0 for item in job.accelerators)
        taken: list[Reading] = []
        lacking: set[str] = set()
        for metric in METRIC_TYPES:
            if metric.needs_gpu and without_gpu:
                continue
            try:
                payload = await self._client.get_job_metrics(
                    part.key, metric.name, start=now - max_age, end=now, deadline=part.deadline
                )
            except NotFound as error:
                await part.not_found(error)  # the next sweep says what became of the job
                return
            found, dropped = readings(payload, metric, job_id=part.key, now=now, max_age=max_age)
            del payload  # before the next call
            _tell(part, dropped)
            if dropped["malformed"]:
                lacking.add(metric.field)
            taken += found
            if not taken and dropped.keys() <= {"no_data"}:
                break  # every running pod uses some CPU: a job without a CPU reading is not served at all
        await _publish(part, taken, lacking, now=now, max_data_age=self._max_data_age)


async def _publish(
    part: Part, taken: Sequence[Reading], lacking: Collection[str], *, now: float, max_data_age: float
) -> None:
    async def rebuild(moment: float) -> tuple[Sequence[object], float | None]:
        max_age = max(max_data_age, 2 * part.interval)  # as it is then: the cycle may be stretched meanwhile
        fresh = [reading for reading in taken if moment - reading.time <= max_age]
        # A touch later than the limit, so that the reading is surely beyond it then.
        stale_at = min((reading.time for reading in fresh), default=None)
        return usage(part.key, fresh, lacking), None if stale_at is None else stale_at + max_age + 0.001

    objects, stale_at = await rebuild(now)
    await part.publish(objects, stale_at=stale_at, rebuild=rebuild)


def _tell(part: Part, dropped: Counter[str]) -> None:
    for reason, count in dropped.items():
        part.dropped(reason, count)
