"""The simulated CloudWatch: the use of the hosts of training jobs, one point a minute.

Percents are summed: 100 is one whole core or card.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, NamedTuple
from zlib import crc32

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.sagemaker.parameters import check
from trainfleet_simulator.sagemaker.training import job_id_of, job_name
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Role
from trainfleet_simulator.world.nouns import DAY
from trainfleet_simulator.world.usage import task_reading

NAMESPACE = "/aws/sagemaker/TrainingJobs"
LAG = 60  # seconds from the end of a minute to its publication
_MOST_METRICS, _MOST_POINTS = 500, 100_800
_COARSER = ((63 * DAY, 3600), (15 * DAY, 300), (0, 60))
"""By age of StartTime (seconds): Period must be a multiple of this number of seconds."""
_ID = re.compile("[a-z][A-Za-z0-9_]{0,254}")
_TOKEN = re.compile("([0-9]{1,9}):([0-9]{1,9})")
"""The query to continue, and the number of its points that were sent."""
_HOST = re.compile("(.+)/algo-([1-9][0-9]{0,4})")
_REQUEST = {
    "MetricDataQueries": "list",
    "StartTime": "number",
    "EndTime": "number",
    "NextToken": "text",
    "ScanBy": "text",
    "MaxDatapoints": "whole",
}
_QUERY = {"Id": "text", "MetricStat": "object"}
_STAT = {"Metric": "object", "Period": "whole", "Stat": "text"}
_METRIC = {"Namespace": "text", "MetricName": "text", "Dimensions": "list"}
_DIMENSION = {"Name": "text", "Value": "text"}
_METRICS: Mapping[str, tuple[str, Callable[[Role], int]]] = {
    "CPUUtilization": ("CpuCoreUsage", lambda role: role.cpu),
    "MemoryUtilization": ("MemoryUsage", lambda role: 1),
    "GPUUtilization": ("GpuCoreUsage", lambda role: role.cards),
    "GPUMemoryUtilization": ("GpuMemoryUsage", lambda role: role.cards),
    "DiskUtilization": ("MemoryUsage", lambda role: 1),
}
"""The world's name of a metric, and the number of things that its percents sum up."""


class _Query(NamedTuple):
    """The average of one metric of one host."""

    id: str
    metric: str
    host: str
    period: int


def get_metric_data(call: Call) -> Answer:
    """GetMetricData for averages of up to 500 metrics of one host each, newest first; expressions are not simulated."""
    given = check(call.body, _REQUEST, "MetricDataQueries", "StartTime", "EndTime")
    queries = [_query(one) for one in given["MetricDataQueries"]]
    start, end, left = int(given["StartTime"] // 60 * 60), given["EndTime"], given.get("MaxDatapoints", _MOST_POINTS)
    for is_valid, name in (
        (len(queries) <= _MOST_METRICS, "MetricDataQueries"),
        (len({query.id for query in queries}) == len(queries), "id in MetricDataQueries"),
        (start < end, "StartTime"),
        (given.get("ScanBy", "TimestampDescending") == "TimestampDescending", "ScanBy"),
        (1 <= left <= _MOST_POINTS, "MaxDatapoints"),
    ):
        if not is_valid:
            raise _invalid(name)
    place = _TOKEN.fullmatch(given.get("NextToken", "0:0"))
    if place is None:
        raise ApiError(400, "InvalidNextToken", "The next token specified is invalid.")
    first, skipped = map(int, place.groups())
    results, token = [], {}
    for number, query in enumerate(queries[first:], start=first):
        points = _points(call, query, start, min(end, call.world.present - LAG))[skipped:]
        results.append(_result(query, points[:left], "Complete" if len(points) <= left else "PartialData"))
        if len(points) > left:
            token = {"NextToken": f"{number}:{left + skipped}"}
            break
        left, skipped = left - len(points), 0
    return Answer({"MetricDataResults": results, "Messages": [], **token})


def _query(given: Any) -> _Query:
    one = check(given, _QUERY, "Id", "MetricStat")
    stat = check(one["MetricStat"], _STAT, "Metric", "Period")
    metric = check(stat["Metric"], _METRIC, "MetricName")
    for is_valid, name in (
        (_ID.fullmatch(one["Id"]), "MetricDataQueries.member.1.Id"),
        (stat["Period"] >= 60 and stat["Period"] % 60 == 0, "Period"),
        (stat.get("Stat") == "Average", "Stat"),
    ):
        if not is_valid:
            raise _invalid(name)
    pairs = [check(pair, _DIMENSION, "Name", "Value") for pair in metric.get("Dimensions", [])]
    ours = metric.get("Namespace") == NAMESPACE and [pair["Name"] for pair in pairs] == ["Host"]
    return _Query(one["Id"], metric["MetricName"], pairs[0]["Value"] if ours else "", stat["Period"])


def _points(call: Call, query: _Query, start: int, end: float) -> list[tuple[int, float]]:
    """Return times and values of the whole periods within the range, newest first; empty for unknown hosts."""
    found = _instance(call.world, query.host)
    coarsest = next(step for age, step in _COARSER if call.now - start >= age or not age)
    if found is None or query.metric not in _METRICS or query.period % coarsest:
        return []
    job, place, role = found
    if query.metric.startswith("GPU") and (not role.cards or role.card_type == "trainium"):  # no metrics of Trainium
        return []
    points = []
    for at in range(-(-start // query.period) * query.period, int(end), query.period):
        minutes = (_value(job, place, role, query.metric, minute) for minute in range(at, at + query.period, 60))
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
        "Label": f"{query.host} {query.metric}",
        "Timestamps": [float(at) for at, _ in points],
        "Values": [value for _, value in points],
        "StatusCode": status,
    }


def _invalid(name: str) -> ApiError:
    return ApiError(400, "ValidationError", f"The value of the parameter {name} is invalid.")
