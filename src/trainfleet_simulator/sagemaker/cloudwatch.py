"""The simulated CloudWatch: the use of the hosts of training jobs, one point a minute.

Percents are summed: 100 is one whole core or card.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Annotated, Any, Literal
from zlib import crc32

from msgspec import Meta

from trainfleet_simulator.exchange import Answer, Body, Call
from trainfleet_simulator.sagemaker.training import job_id_of, job_name
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Role
from trainfleet_simulator.world.nouns import DAY
from trainfleet_simulator.world.usage import task_reading

NAMESPACE = "/aws/sagemaker/TrainingJobs"
LAG = 60  # seconds from the end of a minute to its publication
_COARSER = ((63 * DAY, 3600), (15 * DAY, 300), (0, 60))
"""By age of StartTime (seconds): Period must be a multiple of this number of seconds."""
_HOST = re.compile("(.+)/algo-([1-9][0-9]{0,4})")
_METRICS: Mapping[str, tuple[str, Callable[[Role], int]]] = {
    "CPUUtilization": ("CpuCoreUsage", lambda role: role.cpu),
    "MemoryUtilization": ("MemoryUsage", lambda role: 1),
    "GPUUtilization": ("GpuCoreUsage", lambda role: role.cards),
    "GPUMemoryUtilization": ("GpuMemoryUsage", lambda role: role.cards),
    "DiskUtilization": ("MemoryUsage", lambda role: 1),
}
"""The world's name of a metric, and the number of things that its percents sum up."""


class _Dimension(Body, rename="pascal"):
    name: str
    value: str


class _Metric(Body, rename="pascal"):
    metric_name: str
    namespace: Literal["/aws/sagemaker/TrainingJobs"]
    dimensions: tuple[_Dimension, ...] = ()


class _Stat(Body, rename="pascal"):
    metric: _Metric
    period: Annotated[int, Meta(ge=60, multiple_of=60)]
    stat: Literal["Average"]


class _Query(Body, rename="pascal"):
    """The average of one metric of one host."""

    id: Annotated[str, Meta(pattern="^[a-z][A-Za-z0-9_]{0,254}$")]
    metric_stat: _Stat

    @property
    def host(self) -> str:
        """Return the host; empty if the dimensions are not those of a host."""
        pairs = self.metric_stat.metric.dimensions
        return pairs[0].value if [pair.name for pair in pairs] == ["Host"] else ""


class _Request(Body, rename="pascal"):
    metric_data_queries: Annotated[list[_Query], Meta(max_length=500)]
    start_time: float
    end_time: float
    next_token: Annotated[str, Meta(pattern="^[0-9]{1,9}:[0-9]{1,9}$")] = "0:0"  # noqa: S105 - a page
    """The query to continue, and the number of its points that were sent."""
    scan_by: Literal["TimestampDescending"] = "TimestampDescending"
    max_datapoints: Annotated[int, Meta(ge=1, le=100_800)] = 100_800

    def __post_init__(self) -> None:
        """Raises ValueError if the range is empty, or two queries have the same id."""
        ids = [one.id for one in self.metric_data_queries]
        if self.start_time >= self.end_time or len(set(ids)) < len(ids):
            raise ValueError("StartTime must be before EndTime, and each Id must be unique")


def get_metric_data(call: Call) -> Answer:
    """GetMetricData for averages of up to 500 metrics of one host each, newest first; expressions are not simulated."""
    asked = call.read(_Request)
    start, left = int(asked.start_time // 60 * 60), asked.max_datapoints
    first, skipped = map(int, asked.next_token.split(":"))
    results, token = [], {}
    for number, query in enumerate(asked.metric_data_queries[first:], start=first):
        points = _points(call, query, start, min(asked.end_time, call.world.present - LAG))[skipped:]
        results.append(_result(query, points[:left], "Complete" if len(points) <= left else "PartialData"))
        if len(points) > left:
            token = {"NextToken": f"{number}:{left + skipped}"}
            break
        left, skipped = left - len(points), 0
    return Answer({"MetricDataResults": results, "Messages": [], **token})


def _points(call: Call, query: _Query, start: int, end: float) -> list[tuple[int, float]]:
    """Return times and values of the whole periods within the range, newest first; empty for unknown hosts."""
    metric, period = query.metric_stat.metric.metric_name, query.metric_stat.period
    found = _instance(call.world, query.host)
    coarsest = next(step for age, step in _COARSER if call.now - start >= age or not age)
    if found is None or metric not in _METRICS or period % coarsest:
        return []
    job, place, role = found
    if metric.startswith("GPU") and (not role.cards or role.card_type == "trainium"):  # no metrics of Trainium
        return []
    points = []
    for at in range(-(-start // period) * period, int(end), period):
        minutes = (_value(job, place, role, metric, minute) for minute in range(at, at + period, 60))
        values = [value for value in minutes if value is not None]
        if values and at + 60 <= end:
            points.append((at, round(fmean(values), 4)))
    return points[::-1]


def _instance(world: World, host: str) -> tuple[Job, int, Role] | None:
    """Return the job of a host, the host's place and its type; None if no such host has readings."""
    named = _HOST.fullmatch(host)
    job = None if named is None else world.shown(job_id_of(named[1]))
    if named is None or job is None or job_name(job) != named[1]:
        return None
    place = int(named[2]) - 1
    return (job, place, job.pods[place].role) if place < len(job.pods) else None


def _value(job: Job, place: int, role: Role, metric: str, minute: int) -> float | None:
    name, summed_over = _METRICS[metric]
    found = task_reading(name, job, place, minute + 30)
    if found is None:
        return None
    if metric == "DiskUtilization":  # disks fill and stay full
        return 5 + crc32(job.job_id.encode()) % 60
    return found[0] * summed_over(role)


def _result(query: _Query, points: list[tuple[int, float]], status: str) -> dict[str, Any]:
    return {
        "Id": query.id,
        "Label": f"{query.host} {query.metric_stat.metric.metric_name}",
        "Timestamps": [float(at) for at, _ in points],
        "Values": [value for _, value in points],
        "StatusCode": status,
    }
