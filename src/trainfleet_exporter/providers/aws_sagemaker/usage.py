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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from trainfleet_exporter.errors import AccessDenied, CloudError, ServerTrouble
from trainfleet_exporter.families.usage import MEASURES, Family, exposed
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.jobs import ProviderJobs
from trainfleet_exporter.fleet.usage import FamilyReadings, NewestReadings, Subjects, publish_fresh, usage_sources
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.polling import Part, Poll
from trainfleet_exporter.providers.aws_sagemaker.calls import Answer, Calls, page_of
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.instances import accelerators, cpu_cores
from trainfleet_exporter.providers.aws_sagemaker.jobs import hosts
from trainfleet_exporter.providers.registry import BuildContext


class MetricResult(Answer):
    """The points of one metric, newest first."""

    id: str | None = None
    timestamps: list[float | None] | None = None
    values: list[float | None] | None = None
    status_code: str | None = None


MetricData = page_of("MetricDataResults", MetricResult)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, the measure that it feeds, and how many things of an instance type it sums up."""

    name: str
    suffix: str
    parts: Callable[[str], float | None]
    """None if the type has none, or if their number is unknown. It is unknown for jobs with several types, because
    CloudWatch does not report the type of a host."""

    @property
    def families(self) -> list[Family]:
        """Return the families of instances and jobs."""
        return [MEASURES[self.suffix].of("pod"), MEASURES[self.suffix].of("job")]


def _gpus(instance_type: str) -> float | None:
    return next((each.count for each in accelerators(instance_type) or () if each.kind == "gpu"), None)


METRICS = (
    Metric("CPUUtilization", "cpu_utilization_ratio", cpu_cores),
    Metric("MemoryUtilization", "memory_utilization_ratio", lambda instance_type: 1.0),
    Metric("GPUUtilization", "accelerator_utilization_ratio", _gpus),
    Metric("GPUMemoryUtilization", "accelerator_memory_utilization_ratio", _gpus),
)
_PERCENT = 0.01
_AT_ONCE = 500
"""The maximum number of metrics in a call."""
_PERIOD = 60
"""Seconds between two points."""
_LONGEST = 900.0
"""Seconds back in which a call looks for a point. Points are a minute apart, and some are minutes late."""
_MEASURED = frozenset({Status.RUNNING, Status.RESTARTING, Status.STOPPING})
_SOURCES = "sources"
"""The key of the part that has the source of each job's usage."""
_FAILURES: Mapping[str, tuple[type[CloudError], str]] = {
    "InternalError": (ServerTrouble, "the service could not read a metric"),
    "Forbidden": (AccessDenied, "the identity may not read a metric"),
}
"""Errors by StatusCode of a result without points. The next page continues a result with PartialData."""


class Query(NamedTuple):
    """One metric of one host."""

    metric: str
    job_id: str
    host: str
    parts: float
    """Number of things that the metric sums up."""


def _queries(metrics: Iterable[Metric], jobs: Sequence[Job]) -> Iterator[Query]:
    for metric in metrics:
        for job in jobs:
            parts = metric.parts(job.resource_type)
            if parts is not None:
                yield from (Query(metric.name, job.job_id, host, parts) for host in hosts(job.nodes))


def _asked(key: str, query: Query) -> dict[str, Any]:
    host = {"Name": "Host", "Value": f"{query.job_id}/{query.host}"}
    metric = {"Namespace": "/aws/sagemaker/TrainingJobs", "MetricName": query.metric, "Dimensions": [host]}
    return {"Id": key, "MetricStat": {"Metric": metric, "Period": _PERIOD, "Stat": "Average"}}


def _newest(result: MetricResult) -> tuple[float, float | None] | None:
    """Return the Unix time and the value of the newest point; None if there is none."""
    points = zip(result.timestamps or (), result.values or (), strict=False)
    dated = [(time, value) for time, value in points if time is not None]
    return max(dated, key=lambda point: point[0], default=None)


class Usage:
    """The collector of usage."""

    def __init__(
        self, config: AwsSageMakerConfig, context: BuildContext, jobs: ProviderJobs, cloudwatch: Calls
    ) -> None:
        self._jobs = jobs
        self._calls = cloudwatch
        self._clock = context.clock
        self._at_once = config.limits.concurrency
        self._max_data_age = context.settings.max_data_age
        deny = context.settings.metrics.deny
        self._targets = {
            metric: dict.fromkeys(found, _PERCENT) for metric in METRICS if (found := exposed(metric.families, deny))
        }
        self._subjects = Subjects()
        self._shown: dict[str, Sequence[FamilyReadings]] = {}
        """By metric: the values of its last good response."""

    @collector("usage")
    async def usage(self, poll: Poll) -> None:
        """Request all metrics, then show each."""
        await self._jobs.listed.wait(poll.deadline)
        jobs = [job for job in self._jobs.live_jobs() if job.status in _MEASURED]
        self._subjects.keep_only(each for shown in self._shown.values() for each in shown)
        if not jobs or not self._targets:
            poll.keep_only(())
            self._shown.clear()
            return
        poll.keep_only([_SOURCES, *(metric.name for metric in self._targets)])
        found, failed = await self._read(poll, jobs)
        for metric, targets in self._targets.items():
            async with poll.part(metric.name) as part:
                if metric.name in failed:
                    raise failed[metric.name]
                newest = found[metric.name]
                part.dropped("no_data", 0 if newest.found or newest.dropped else 1)
                self._shown[metric.name] = newest.of_families(targets, period=_PERIOD)
                for reason, number in newest.dropped.items():
                    part.dropped(reason, number)
                await self._publish(part, self._shown[metric.name], self._subjects.readings)
        async with poll.part(_SOURCES) as part:
            columns = [each for columns in self._shown.values() for each in columns]
            await self._publish(part, columns, partial(usage_sources, source="cloudwatch"))

    def usage_expired(self, key: str) -> None:
        """Forget a metric whose last good response is too old."""
        self._shown.pop(key, None)

    async def _publish(
        self, part: Part, given: Sequence[FamilyReadings], shown: Callable[[Sequence[FamilyReadings]], Sequence[object]]
    ) -> None:
        age = self._max_data_age
        await publish_fresh(part, given, shown, begun=self._begun, max_data_age=age, clock=self._clock)

    def _begun(self) -> Mapping[str, float]:
        return {job_id: job.created or 0.0 for job_id, job in self._jobs.live.items()}

    async def _read(self, poll: Poll, jobs: Sequence[Job]) -> tuple[dict[str, NewestReadings], dict[str, CloudError]]:
        """Return the newest readings by metric, and the first error of each metric that failed."""
        now, age = self._clock.now(), max(self._max_data_age, 2 * poll.interval)
        found = {metric.name: NewestReadings("pod", self._begun(), now=now, max_age=age) for metric in self._targets}
        failed: dict[str, CloudError] = {}
        asked = list(_queries(self._targets, jobs))
        times = {"StartTime": (now - min(age, _LONGEST)) // _PERIOD * _PERIOD, "EndTime": math.ceil(now)}
        slots = asyncio.Semaphore(self._at_once)

        async def read(some: Mapping[str, Query]) -> None:
            queries = [_asked(key, query) for key, query in some.items()]
            body = {"MetricDataQueries": queries, **times, "ScanBy": "TimestampDescending"}
            try:
                async with slots:
                    statuses = await self._take(body, some, found, poll.deadline)
            except CloudError as error:
                lean = error.with_traceback(None)  # the traceback holds the response
                for query in some.values():
                    failed.setdefault(query.metric, lean)
                return
            for key in statuses.keys() & some.keys():
                if (status := statuses[key]) in _FAILURES:
                    kind, message = _FAILURES[status]
                    failed.setdefault(some[key].metric, kind(message, operation="GetMetricData", code=status))

        async with asyncio.TaskGroup() as group:
            for start in range(0, len(asked), _AT_ONCE):
                some = asked[start : start + _AT_ONCE]
                group.create_task(read({f"m{number}": query for number, query in enumerate(some)}))
        return found, failed

    async def _take(
        self, body: Mapping[str, Any], asked: Mapping[str, Query], found: Mapping[str, NewestReadings], deadline: float
    ) -> dict[str, str]:
        """Take over the newest point of each metric. Returns the last status of each result: a later page may have a
        result that an earlier page failed to read."""
        statuses: dict[str, str] = {}
        pages = self._calls.pages(
            "GetMetricData", body, MetricData, deadline=deadline, no_data=lambda page: not page.rows
        )
        async for rows in pages:
            for result in rows:
                query = None if result is None else asked.get(result.id or "")
                if query is not None:
                    statuses[result.id] = result.status_code or ""
                    if (point := _newest(result)) is not None:
                        time, value = point
                        value = None if value is None else value / query.parts
                        found[query.metric].put((query.job_id, query.host), time, value)
            del rows  # to free memory before the next call
        return statuses
