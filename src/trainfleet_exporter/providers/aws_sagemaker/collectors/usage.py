"""Usage by CloudWatch: each metric of each instance of the running jobs, 500 of them a call.

The collector makes no calls if no job runs, or for families that are not exposed. Each metric is a part, and feeds the
families of instances and of jobs.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence

from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.model import Job, Status, UsageSource
from trainfleet_exporter.polling import BulkCollector, Part, Poll
from trainfleet_exporter.providers.aws_sagemaker.collectors.shared import SageMakerShared
from trainfleet_exporter.providers.aws_sagemaker.usage.cloudwatch import AT_ONCE, PERIOD, CloudWatch, Query, queries
from trainfleet_exporter.providers.aws_sagemaker.usage.metrics import METRICS, Metric
from trainfleet_exporter.providers.usage.columns import Column, Shown, Target, columns, kept_of, newest_by_owner
from trainfleet_exporter.providers.usage.entities import Entities
from trainfleet_exporter.providers.usage.newest import Batch, Newest, Scope
from trainfleet_exporter.providers.usage.staleness import count, publish_until_stale

SOURCE = "cloudwatch"
_SOURCES = "sources"
"""The key of the part that has the source of each job's usage."""
_MEASURED = frozenset({Status.RUNNING, Status.RESTARTING, Status.STOPPING})
_LONGEST = 900.0
"""Seconds back in which a call looks for a point. Points are a minute apart, and some are minutes late."""


class CloudWatchCollector(BulkCollector):
    """Polls the running jobs. `deny` are globs of families that are not exposed."""

    def __init__(self, shared: SageMakerShared, interval: float, cloudwatch: CloudWatch, deny: Sequence[str]) -> None:
        super().__init__("usage", interval)
        self._shared = shared
        self._cloudwatch = cloudwatch
        self._max_data_age = shared.max_data_age
        self._targets: Mapping[Metric, Sequence[Target]] = {
            metric: targets for metric in METRICS if (targets := metric.targets(deny))
        }
        self._entities = Entities()
        self._shown: dict[str, Shown] = {}
        """By metric: the values of its last good response."""
        self._read_at: dict[str, Sequence[Column]] = {}
        """By metric: the shown columns, each with the times of its readings."""

    def expired(self, key: str) -> None:
        """Forget a metric whose last good response is too old (polling.BulkCollector)."""
        self._read_at.pop(key, None)

    async def poll(self, poll: Poll) -> None:
        """Request all metrics, then show each."""
        await self._shared.jobs.wait(poll.deadline)
        jobs = [job for job in self._shared.jobs.live_jobs() if job.status in _MEASURED]
        self._entities.keep_if(self._shared.jobs.live().__contains__)
        if not jobs or not self._targets:
            poll.keep_only(())
            self._read_at.clear()
            return
        poll.keep_only([_SOURCES, *(metric.name for metric in self._targets)])
        found, failed = await self._read(poll, jobs)
        for metric in self._targets:
            async with poll.part(metric.name) as part:
                if metric.name in failed:
                    raise failed[metric.name]
                await self._show(part, metric, found[metric.name])
        async with poll.part(_SOURCES) as part:
            await self._publish_sources(part)

    async def _read(self, poll: Poll, jobs: Sequence[Job]) -> tuple[dict[str, Newest], dict[str, CloudError]]:
        """Return the newest readings by metric, and the first error of each metric that failed."""
        now = time.time()
        age = max(self._max_data_age, 2 * poll.interval)
        scope = Scope(frozenset(job.job_id for job in jobs), self._is_known)
        found = {metric.name: Newest(self._entities.of("pod"), scope, now=now, max_age=age) for metric in self._targets}
        failed: dict[str, CloudError] = {}
        asked = list(queries(list(self._targets), jobs))
        slots = asyncio.Semaphore(self._shared.at_once)

        async def read(some: Sequence[Query]) -> None:
            async with slots:
                try:
                    answer = self._cloudwatch.newest(
                        some, failed, start=now - min(age, _LONGEST), end=now, deadline=poll.deadline
                    )
                    async for readings in answer:
                        for name in {reading.query.metric.name for reading in readings}:
                            own = [reading for reading in readings if reading.query.metric.name == name]
                            keys = [(reading.query.job_id, reading.query.host) for reading in own]
                            values = [reading.value for reading in own]
                            found[name].take(Batch(keys, [values], [reading.time for reading in own]))
                except CloudError as error:
                    lean = error.with_traceback(None)  # the traceback holds the response
                    for name in {query.metric.name for query in some}:
                        failed.setdefault(name, lean)

        async with asyncio.TaskGroup() as group:
            for start in range(0, len(asked), AT_ONCE):
                group.create_task(read(asked[start : start + AT_ONCE]))
        return found, failed

    async def _show(self, part: Part, metric: Metric, newest: Newest) -> None:
        entities, before = self._entities, self._shown.get(metric.name)
        part.dropped("no_data", 0 if newest.rows else 1)
        shown = columns(newest, entities, self._targets[metric], before, period=PERIOD)
        self._shown[metric.name] = shown
        count(part, newest.dropped)

        async def build(since: float) -> tuple[Sequence[object], float]:
            fresh = kept_of(shown.columns, since=since, owners=self._shared.jobs.live())
            return [column.readings for column in fresh], min([column.first for column in fresh], default=math.inf)

        await publish_until_stale(part, build, self._max_data_age)
        self._read_at[metric.name] = shown.columns

    async def _publish_sources(self, part: Part) -> None:
        newest = newest_by_owner([column for shown in self._read_at.values() for column in shown])

        async def build(since: float) -> tuple[Sequence[object], float]:
            listed = self._shared.jobs.live()
            sources = [
                UsageSource(job_id, SOURCE, read_at)
                for job_id, read_at in newest.items()
                if read_at >= since and job_id in listed
            ]
            return sources, min([source.timestamp or 0.0 for source in sources], default=math.inf)

        await publish_until_stale(part, build, self._max_data_age)

    def _is_known(self, job_id: str) -> bool:
        return job_id in self._shared.jobs.live() or self._shared.jobs.owner(job_id) is not None
