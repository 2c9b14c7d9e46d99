"""Past usage: points by CloudMonitor's ranges, and the answers of GetJobMetrics."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import Level
from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.alibaba_pai import job_metrics
from trainfleet_exporter.providers.alibaba_pai.client import Api
from trainfleet_exporter.providers.alibaba_pai.job_metrics import METRIC_TYPES, MetricType, is_without_gpus
from trainfleet_exporter.providers.alibaba_pai.metrics import DLC, QUOTA, Feed
from trainfleet_exporter.providers.alibaba_pai.usage import (
    POINTS,
    Point,
    dimensions,
    job_of,
    point_pages,
    quota_of,
    readings,
)
from trainfleet_exporter.providers.history import DAY, Life, Lives, Range, Sink, Unit
from trainfleet_exporter.providers.usage.columns import Target
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


@dataclass(frozen=True, slots=True)
class PastFeed:
    """A metric of CloudMonitor (usage.past.PastMetric)."""

    feed: Feed
    targets: Sequence[Target]

    @property
    def key(self) -> str:
        return self.feed.key

    @property
    def level(self) -> Level:
        return self.feed.level

    @property
    def of_accelerators(self) -> bool:
        return self.feed.of_accelerators


def past_feeds(feeds: Mapping[str, Feed]) -> list[PastFeed]:
    """The metrics as the past asks for them, in the order of their keys."""
    return [PastFeed(feed, [Target(*target) for target in feed.targets.items()]) for _, feed in sorted(feeds.items())]


def jobs_past(
    calls: PastCalls, feeds: Mapping[str, Feed], fetch: Fetch[PastFeed], source_of: Callable[[Job], str]
) -> PastMetrics[PastFeed]:
    """Points of the jobs that are this source's."""

    def owners(day: Range, lives: Lives, feed: PastFeed) -> Iterator[tuple[str, int, Range]]:
        for life in lives(day):
            runs = life.runs(day)
            has_points = not runs.empty and source_of(life.job) == calls.source
            if has_points and not (feed.of_accelerators and is_without_gpus(life.job)):
                yield life.job.job_id, parts_of(life, feed.level), runs

    asked = past_feeds(feeds)
    # A metric that every job has, where there is one.
    of_all = sorted(
        (feed for feed in asked if not feed.of_accelerators),
        key=lambda feed: (feed.level != "job", "CPU" not in feed.key),
    )
    return PastMetrics(calls, asked, owners, fetch, next(iter(of_all or asked), None))


def pools_past(api: Api, feeds: Mapping[str, Feed], quotas: Mapping[str, str]) -> PastMetrics[PastFeed]:
    """Points of quotas; `quotas` are their names by id."""

    def owners(day: Range, lives: Lives, feed: PastFeed) -> Iterator[tuple[str, int, Range]]:
        yield from ((quota_id, 1, day) for quota_id in sorted(quotas))

    return PastMetrics(CLOUDMONITOR, past_feeds(feeds), owners, by_monitor(api, QUOTA, quota_of(quotas)))


def by_monitor(api: Api, namespace: str = DLC, owner: Callable[[Point], str] = job_of) -> Fetch[PastFeed]:
    """Points by DescribeMetricList, of jobs or quotas by their ids.

    https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclist
    """
    key = "jobId" if namespace == DLC else "quotaId"

    async def fetch(past: PastFeed, asked: Asked, deadline: float) -> AsyncIterator[Batch]:
        metric = past.feed.metric
        query = {
            "Namespace": namespace,
            "MetricName": metric.metric_name or "",
            "Dimensions": dimensions(key, asked.within),
            # The shortest period that is not below the one that is wanted.
            "Period": str(min((each for each in metric.all_periods if each >= asked.step), default=asked.step)),
            # The range is open at its start and closed at its end.
            "StartTime": str(asked.span.start * 1000 - 1),
            "EndTime": str(asked.span.end * 1000 - 1),
        }
        async for points in point_pages(api, "DescribeMetricList", query, deadline):
            found = list(readings(past.feed, points, owner))
            del points
            yield Batch([key for key, _, _ in found], [[value for _, _, value in found]], [at for _, at, _ in found])

    return fetch


class JobMetricsPast:
    """GetJobMetrics of the jobs that it serves, all `metrics` of a small job in one unit."""

    def __init__(self, api: Api, metrics: Sequence[MetricType], source_of: Callable[[Job], str]) -> None:
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
                payload = await job_metrics.get_job_metrics(
                    self._api, job_id, each, within.start, within.end, deadline=deadline, limits=HISTORY
                )
            except NotFound:
                sink.gone(job_id)
                return
            past = Past([Target(*target) for target in each.targets.items()], lambda _: within, JOB_METRICS.source)
            add_past(past, payload, job_id=job_id, within=within)
            del payload  # before the next call
            past.publish(sink, day, names_source=each is deciding)
            if each is METRIC_TYPES[0] and not past.found and not +past.dropped:
                sink.dropped("no_data")
                break  # every running pod uses some CPU: a job without a CPU reading is not served at all


def add_past(past: Past, payload: job_metrics.JobMetrics, *, job_id: str, within: Range) -> None:
    """Take over every reading of each pod in one answer from within a range."""
    if payload.job_id and payload.job_id != job_id:
        past.dropped["unlisted"] += 1
        return
    for pod_id, points in job_metrics.pods_of(payload):
        if not pod_id:
            past.dropped["malformed"] += 1
            past.spoil(job_id)
            continue
        other = [value for at, value in points if at is not None and not within.start <= at < within.end]
        past.dropped["malformed"] += other.count(None)
        times = [math.inf if at is None else at for at, _ in points]
        past.take(Batch([(job_id, pod_id)] * len(points), [[value for _, value in points]], times), len(("job", "pod")))
