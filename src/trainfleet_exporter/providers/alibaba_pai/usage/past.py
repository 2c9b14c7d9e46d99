"""Past usage: points by CloudMonitor's ranges, and the answers of GetJobMetrics."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.alibaba_pai.client import PaiClient
from trainfleet_exporter.providers.alibaba_pai.payloads import Point
from trainfleet_exporter.providers.alibaba_pai.usage.cloudmonitor import POINTS, CloudMonitor, Owner
from trainfleet_exporter.providers.alibaba_pai.usage.job_metrics import (
    METRIC_TYPES,
    MetricType,
    add_past,
    is_without_gpus,
)
from trainfleet_exporter.providers.alibaba_pai.usage.metrics import DLC, QUOTA, Feed
from trainfleet_exporter.providers.history import DAY, Life, Lives, Range, Sink, Unit
from trainfleet_exporter.providers.usage.dated import Past
from trainfleet_exporter.providers.usage.newest import Batch
from trainfleet_exporter.providers.usage.past import Asked, Fetch, PastCalls, PastMetrics, parts_of
from trainfleet_exporter.transport import HISTORY

MINUTES_KEPT, FIVES_KEPT = 31 * DAY, 91 * DAY
"""For how long CloudMonitor keeps points of one minute, and those of five and more (seconds)."""
CLOUDMONITOR = PastCalls(
    source="cloudmonitor",
    api="cloudmonitor",
    kept=((60, MINUTES_KEPT), (300, FIVES_KEPT)),
    owners=50,
    readings=100_000,
    answered=POINTS,
)
JOB_METRICS = PastCalls(source="job_metrics", api="dlc")
_PODS_AT_ONCE = 64
"""Pods of a job up to which all metrics of a day are one unit."""


def jobs_past(
    calls: PastCalls, feeds: Mapping[str, Feed], fetch: Fetch[Feed], source_of: Callable[[Job], str]
) -> PastMetrics[Feed]:
    """Points of the jobs that are this source's."""

    def owners(day: Range, lives: Lives, feed: Feed) -> Iterator[tuple[str, int, Range]]:
        for life in lives(day):
            runs = life.runs(day)
            has_points = not runs.empty and source_of(life.job) == calls.source
            if has_points and not (feed.of_accelerators and is_without_gpus(life.job)):
                yield life.job.job_id, parts_of(life, feed.level), runs

    # A metric that every job has, where there is one.
    of_all = [feed for _, feed in sorted(feeds.items()) if not feed.of_accelerators]
    of_all.sort(key=lambda feed: (feed.level != "job", "CPU" not in feed.key))
    deciding = of_all[0] if of_all else next(iter(feeds.values()), None)
    return PastMetrics(calls, feeds.values(), owners, fetch, deciding)


def pools_past(monitor: CloudMonitor, feeds: Mapping[str, Feed], quotas: Mapping[str, str]) -> PastMetrics[Feed]:
    """Points of quotas; `quotas` are their names by id."""

    def owners(day: Range, lives: Lives, feed: Feed) -> Iterator[tuple[str, int, Range]]:
        yield from ((quota_id, 1, day) for quota_id in sorted(quotas))

    def fetch(feed: Feed, asked: Asked, deadline: float) -> AsyncIterator[Batch]:
        by_name = {name: quota_id for quota_id, name in quotas.items() if quota_id in asked.within}

        def quota_of(point: Point) -> str:
            return point.quota_id or by_name.get(point.quota_name or "", "")

        return by_monitor(monitor, QUOTA, quota_of)(feed, asked, deadline)

    return PastMetrics(CLOUDMONITOR, feeds.values(), owners, fetch)


def by_monitor(monitor: CloudMonitor, namespace: str = DLC, owner: Owner | None = None) -> Fetch[Feed]:
    """Points by DescribeMetricList, of jobs or quotas by their ids."""
    key = "jobId" if namespace == DLC else "quotaId"

    def fetch(feed: Feed, asked: Asked, deadline: float) -> AsyncIterator[Batch]:
        names = [{key: name} for name in asked.within]
        return monitor.describe_metric_list(
            namespace,
            feed,
            start=asked.span.start,
            end=asked.span.end,
            period=_fitting(feed, asked.step),
            dimensions=json.dumps(names, separators=(",", ":")),
            deadline=deadline,
            owner=owner,
        )

    return fetch


def _fitting(feed: Feed, wanted: int) -> int:
    """The shortest period of a metric that is not below the one that is wanted; in seconds."""
    return min((period for period in feed.metric.periods if period >= wanted), default=wanted)


class JobMetricsPast:
    """GetJobMetrics of the jobs that it serves, all `metrics` of a small job in one unit."""

    def __init__(self, api: PaiClient, metrics: Sequence[MetricType], source_of: Callable[[Job], str]) -> None:
        self._api = api
        self._metrics = metrics
        self._source_of = source_of

    def units(self, day: Range, lives: Lives) -> Iterator[Unit]:
        """Return the units that read a day."""
        for life in lives(day):
            within, job_id = life.runs(day), life.job.job_id
            metrics = [each for each in self._metrics if not (each.needs_gpu and is_without_gpus(life.job))]
            if within.empty or not metrics or self._source_of(life.job) != JOB_METRICS.source:
                continue
            groups = {job_id: metrics}
            if life.pods > _PODS_AT_ONCE:
                groups = {f"{job_id} {each.name}": [each] for each in metrics}
            for key, some in groups.items():
                do = partial(self._read, life, day, metrics=some, deciding=metrics[0])
                yield Unit(key, {JOB_METRICS.api: len(some)}, do)

    async def _read(
        self,
        life: Life,
        day: Range,
        sink: Sink,
        deadline: float,
        *,
        metrics: Sequence[MetricType],
        deciding: MetricType,
    ) -> None:
        """The metric `deciding` decides whether the job has readings."""
        job_id, within = life.job.job_id, life.runs(day)
        for each in metrics:
            try:
                payload = await self._api.get_job_metrics(
                    job_id, each.name, start=within.start, end=within.end, deadline=deadline, limits=HISTORY
                )
            except NotFound:
                sink.gone(job_id)
                return
            past = Past(each.targets, lambda _: within, JOB_METRICS.source)
            add_past(past, payload, job_id=job_id, within=within)
            del payload  # before the next call
            past.publish(sink, day, names_source=each is deciding)
            if each is METRIC_TYPES[0] and not past.found and not +past.dropped:
                sink.dropped("no_data")
                break  # every running pod uses some CPU: a job without a CPU reading is not served at all
