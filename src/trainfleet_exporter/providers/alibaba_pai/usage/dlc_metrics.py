"""Usage by DLC GetMetrics: CloudMonitor's metrics job by job, for identities without permissions in CloudMonitor.

Cost a cycle: one call for each job and metric, at most `max_jobs` jobs, the newest first. The catalogue is asked for
once a day all the same, since nothing else has the units; where that is refused, only what counts percent by its name
is read, and what the config names with its unit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job, UsageSource
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.alibaba_pai.usage.cloudmonitor import Feeds
from trainfleet_exporter.providers.usage.columns import Column, columns, kept_of
from trainfleet_exporter.providers.usage.entities import Entities
from trainfleet_exporter.providers.usage.newest import Newest, Scope
from trainfleet_exporter.providers.usage.per_job import Cap, UsageByJobCollector
from trainfleet_exporter.providers.usage.staleness import count, max_age, publish_until_stale

SOURCE = "dlc_metrics"


class DlcMetricsCollector(UsageByJobCollector):
    """The jobs that `serves` says are this source's."""

    def __init__(
        self, shared: PaiShared, interval: float, feeds: Feeds, *, serves: Callable[[Job], bool], max_jobs: int
    ) -> None:
        super().__init__(SOURCE, shared, interval, Cap("usage from GetMetrics", max_jobs))
        self._client = shared.client
        self._max_data_age = shared.max_data_age
        self._feeds = feeds
        self._serves = serves
        self._entities: dict[str, Entities] = {}
        shared.jobs.watch(self._forget)

    def serves(self, job: Job) -> bool:
        """Return whether the job is this source's."""
        return self._serves(job)

    def calls(self, object_id: str) -> int:
        """One for each metric."""
        return len(self._feeds.known)

    def _forget(self) -> None:
        for job_id in self._entities.keys() - self._jobs.live().keys():
            del self._entities[job_id]

    async def poll(self, part: Part) -> None:
        """Read all metrics of one job."""
        job = self._jobs.live()[part.key]
        now, age = time.time(), max_age(part, self._max_data_age)
        entities = self._entities.setdefault(part.key, Entities())
        entities.trim()
        shown: list[Column] = []
        for feed in (await self._feeds.learn_or_assume(part)).values():
            if is_without_gpus(job) and feed.of_accelerators:
                continue
            newest = Newest(
                entities.of(feed.level),
                Scope(frozenset([part.key])),
                now=now,
                max_age=age,
                statistics=len(feed.statistics),
                series=True,
            )
            try:
                await newest.take_all(
                    self._client.get_metrics(part.key, feed, start=now - age, end=now, deadline=part.deadline)
                )
            except NotFound as error:
                await part.not_found(error)  # the next poll of jobs says what became of it
                return
            part.dropped("no_data", 0 if newest.rows else 1)
            shown += (await columns(newest, entities, feed.targets, period=feed.metric.period or 0)).columns
            count(part, newest.dropped)
            if not shown and not newest.rows:
                break  # every running job uses some CPU: one without a CPU reading does not report yet

        async def build(since: float) -> tuple[Sequence[object], float]:
            fresh = await kept_of(shown, since=since)
            if not fresh:
                return [], math.inf
            source = UsageSource(part.key, SOURCE, max(max(column.newest) for column in fresh))
            return [*(column.readings for column in fresh), source], min(column.first for column in fresh)

        await publish_until_stale(part, build, self._max_data_age, now=now)


def is_without_gpus(job: Job) -> bool:
    """Return whether a job certainly has no accelerator."""
    return bool(job.accelerators) and all(item.count == 0 for item in job.accelerators)
