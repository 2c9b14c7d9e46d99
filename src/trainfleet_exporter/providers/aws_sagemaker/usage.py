"""Usage by CloudWatch: each metric of each instance of the running jobs, 500 of them in a call of GetMetricData.

AWS charges for each requested metric, not for the call. The collector makes no calls if no job runs, or for families
that are not exposed. Each metric is a part, and feeds the families of instances and of jobs.

Each metric is of one host, in percent. Those of CPUs and GPUs are sums over all vCPUs and GPUs of the instance: four
busy ones have 400. No family exists for the use of disks (DiskUtilization).

https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (job metrics)
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError
from trainfleet_exporter.families.usage import MEASURES, exposed
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.past import Asked, PastSource, PastUsage
from trainfleet_exporter.fleet.usage import (
    Column,
    NewestReadings,
    Reading,
    SourceMetric,
    Subjects,
    count,
    publish_fresh,
    usage_sources,
)
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.providers.aws_sagemaker.api import Answer, Calls, page_of
from trainfleet_exporter.providers.aws_sagemaker.instances import DEVICES, cpu_cores
from trainfleet_exporter.providers.aws_sagemaker.jobs import hosts
from trainfleet_exporter.providers.past import DAY, Life, Past, Range


class MetricResult(Answer):
    """The points of one metric, newest first."""

    id: str | None = None
    timestamps: list[float | None] | None = None
    values: list[float | None] | None = None
    status_code: str | None = None


MetricData = page_of("MetricDataResults", MetricResult)


class Metric(SourceMetric):
    """A metric in percent of instances and jobs. `parts` returns how many things of an instance type it sums up.

    It is None if the type has none, or if their number is unknown. It is unknown for jobs with several types, because
    CloudWatch does not report the type of a host.
    """

    def __init__(self, key: str, suffix: str, parts: Callable[[str], float | None]) -> None:
        super().__init__(key, "pod", {MEASURES[suffix].of(level): 0.01 for level in ("pod", "job")})
        self.parts = parts


def _gpus(instance_type: str) -> float | None:
    return device.count if (device := DEVICES.get(instance_type)) is not None and device.kind == "gpu" else None


METRICS = (
    Metric("MemoryUtilization", "memory_utilization_ratio", lambda instance_type: 1.0),
    Metric("CPUUtilization", "cpu_utilization_ratio", cpu_cores),
    Metric("GPUUtilization", "accelerator_utilization_ratio", _gpus),
    Metric("GPUMemoryUtilization", "accelerator_memory_utilization_ratio", _gpus),
)
"""Each job has the first one."""
_AT_ONCE = 500
"""The maximum number of metrics in a call."""
_PERIOD = 60
"""Seconds between two points."""
CLOUDWATCH = PastSource(
    name="cloudwatch",
    api="cloudwatch",
    kept=((_PERIOD, 15 * DAY), (300, 63 * DAY)),
    owners=_AT_ONCE,
    readings=100_000,
    answered=100_800,
)
_LONGEST = 900.0
"""Seconds back in which a call looks for a point. Points are a minute apart, and some are minutes late."""
_MEASURED = frozenset({"Training", "Updating", "Uploading", "Restarting", "Stopping"})
_SOURCES = "sources"
_MISSING = "Missing"
"""In place of the StatusCode of a result that no page has."""
_FAILURES = ("InternalError", "Forbidden", "PartialData", _MISSING)
"""Each last StatusCode of results that lack points: further pages may complete a result."""


class Query(NamedTuple):
    metric: Metric
    key: tuple[str, str]
    """The job and the host."""
    parts: float
    """Number of things that the metric sums up."""


def _queries(metrics: Iterable[Metric], jobs: Sequence[Job]) -> Iterator[Sequence[Query]]:
    """Yield the queries for all hosts of some jobs, as many at once as a call may have.

    Metrics that a job does not have, or whose meaning is unknown, are left out.
    """
    found: list[Query] = []
    for metric in metrics:
        for job in jobs:
            if (parts := metric.parts(job.resource_type)) is not None:
                found += [Query(metric, (job.job_id, host), parts) for host in hosts(job.nodes)]
    for start in range(0, len(found), _AT_ONCE):
        yield found[start : start + _AT_ONCE]


async def _read_points(
    calls: Calls, asked: Sequence[Query], start: float, end: float, *, period: int, deadline: float
) -> AsyncIterator[tuple[Query, Sequence[Reading] | CloudError]]:
    """Yield the readings of each query, from a Unix time on and before another, page by page and newest first: percent
    of one thing. At last come the errors of what could not be read, or is missing.

    A query that an unreadable row may be about has one reading without a time.
    """
    by_id = {f"m{number}": query for number, query in enumerate(asked)}
    body = {"StartTime": start // _PERIOD * _PERIOD, "EndTime": math.ceil(end), "ScanBy": "TimestampDescending"}
    body["MetricDataQueries"] = [_metric_query(key, query, period) for key, query in by_id.items()]
    statuses, unreadable = dict.fromkeys(asked, _MISSING), 0
    rows = calls.rows("GetMetricData", body, MetricData, deadline=deadline, no_data=lambda page: not page.rows)
    async for row in rows:
        if row is None or (query := by_id.get(row.id or "")) is None:
            unreadable += 1
            continue
        statuses[query] = row.status_code or ""
        points = zip(row.timestamps or (), row.values or (), strict=False)
        yield query, [(query.key, at, each and each / query.parts) for at, each in points if at is not None]
    unreadable = 0 if list(statuses.values()).count(_MISSING) > unreadable else unreadable
    for query, status in statuses.items():
        if status == _MISSING and unreadable:
            yield query, [(query.key, math.inf, None)]
        elif status in _FAILURES:
            kind = AccessDenied if status == "Forbidden" else BadAnswer
            yield query, kind("a metric was not read", operation="GetMetricData", code=status)


def _metric_query(key: str, query: Query, period: int) -> dict[str, object]:
    host = {"Name": "Host", "Value": "/".join(query.key)}
    metric = {"Namespace": "/aws/sagemaker/TrainingJobs", "MetricName": query.metric.key, "Dimensions": [host]}
    return {"Id": key, "MetricStat": {"Metric": metric, "Period": period, "Stat": "Average"}}


def past_usage(past: Past, calls: Calls, day: Range, lives: Iterable[Life], deny: Sequence[str]) -> PastUsage[Metric]:
    """Return what reads the usage of a day. `deny` are the families that are not exposed."""
    running = {life.job.job_id: life for life in lives if not life.runs(day).empty}

    def owners(metric: Metric) -> Iterator[tuple[str, int, Range]]:
        for job_id, life in running.items():
            if not metric.of_accelerators or metric.parts(life.job.resource_type) is not None:
                yield job_id, life.pods, life.runs(day)

    async def read(metric: Metric, asked: Asked, deadline: float) -> AsyncIterator[Iterable[Reading]]:
        span = asked.span
        for some in _queries([metric], [running[job_id].job for job_id in asked.within]):
            pages = _read_points(calls, some, span.start, span.end, period=asked.step, deadline=deadline)
            async for _, readings in pages:
                if isinstance(readings, CloudError):
                    raise readings
                yield readings

    metrics = [metric for metric in METRICS if exposed(metric.targets, deny)]
    return PastUsage(past, CLOUDWATCH, metrics, owners, read)


class Usage:
    def __init__(self, calls: Calls, fleet: Workspaces, deny: Sequence[str]) -> None:
        self._calls, self._fleet = calls, fleet
        self._targets = {
            metric: {family: metric.targets[family] for family in found}
            for metric in METRICS
            if (found := exposed(metric.targets, deny))
        }
        self._subjects = Subjects()
        self._publish = partial(publish_fresh, fleet=fleet, begun=self._begun)
        self._shown: dict[str, Sequence[Column]] = {}
        """By metric: the values of its last good response."""

    @collector("usage")
    async def usage(self, poll: Poll) -> None:
        await self._fleet.listed.wait(poll.deadline)
        jobs = [job for job in self._fleet.live_jobs() if job.platform_status in _MEASURED]
        self._subjects.keep_only(each for shown in self._shown.values() for each in shown)
        batches = list(_queries(self._targets, jobs))
        now, age = self._fleet.clock.now(), max(self._fleet.max_data_age, 2 * poll.interval)
        found = {
            metric: NewestReadings("pod", self._begun(), self._subjects, now=now, max_age=age)
            for metric in dict.fromkeys(query.metric for asked in batches for query in asked)
        }
        failed, read_before = dict[Metric, CloudError](), set[Query]()
        slots = asyncio.Semaphore(self._fleet.at_once)

        async def read(asked: Sequence[Query]) -> None:
            since = now - min(age, _LONGEST)
            try:
                async with slots:
                    pages = _read_points(self._calls, asked, since, now, period=_PERIOD, deadline=poll.deadline)
                    async for query, readings in pages:
                        if not isinstance(readings, CloudError):
                            found[query.metric].take_newest(readings)
                            read_before.update([query] if readings else ())
                        elif query not in read_before:
                            failed[query.metric] = readings
            except CloudError as error:
                failed.update({query.metric: error.with_traceback(None) for query in asked})  # it holds the response

        async with asyncio.TaskGroup() as group:
            for asked in batches:
                group.create_task(read(asked))
        keys = {metric.key for metric in found}
        poll.keep_only([_SOURCES, *keys] if keys else ())
        self._shown = {key: shown for key, shown in self._shown.items() if key in keys}
        for metric, newest in found.items():
            async with poll.part(metric.key) as part:
                if metric in failed:
                    raise failed[metric]
                part.dropped("no_data", 0 if newest.taken or +newest.dropped else 1)
                self._shown[metric.key] = newest.of_families(self._targets[metric], period=_PERIOD)
                count(part, newest.dropped)
                await self._publish(part, self._shown[metric.key])
        if keys:
            async with poll.part(_SOURCES) as part:
                columns = [each for columns in self._shown.values() for each in columns]
                await self._publish(part, columns, partial(usage_sources, source=CLOUDWATCH.name))

    def usage_expired(self, key: str) -> None:
        self._shown.pop(key, None)

    def _begun(self) -> Mapping[str, float]:
        """Return when each live job was created or interrupted last: readings from before are of other instances."""
        taken = self._fleet.histories.last_fault
        return {key: max(job.created or 0.0, taken(key, "Interrupted")) for key, job in self._fleet.live.items()}
