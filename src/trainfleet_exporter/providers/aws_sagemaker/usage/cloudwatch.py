"""Usage from CloudWatch: GetMetricData, 500 metrics a call.

AWS charges for each requested metric, not for the call.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from trainfleet_exporter.errors import AccessDenied, CloudError, ServerTrouble
from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.aws_sagemaker.client import json_call, pages
from trainfleet_exporter.providers.aws_sagemaker.payloads import MetricData, MetricResult
from trainfleet_exporter.providers.aws_sagemaker.translate import hosts
from trainfleet_exporter.providers.aws_sagemaker.usage.metrics import DIMENSION, NAMESPACE, Metric
from trainfleet_exporter.transport import ApiClient
from trainfleet_exporter.transport.payload import decode_value

AT_ONCE = 500
"""The maximum number of metrics in a call."""
PERIOD = 60
"""Seconds between two points."""
_FAILURES: Mapping[str, tuple[type[CloudError], str]] = {
    "InternalError": (ServerTrouble, "the service could not read a metric"),
    "Forbidden": (AccessDenied, "the identity may not read a metric"),
}
"""Errors by StatusCode of a result without points. The next page continues a result with PartialData."""


class Query(NamedTuple):
    """One metric of one host."""

    metric: Metric
    job_id: str
    host: str
    parts: float
    """Number of things that the metric sums up."""


class Reading(NamedTuple):
    """The newest point: Unix seconds, and percent of one thing."""

    query: Query
    time: float
    value: float | None


def queries(metrics: Sequence[Metric], jobs: Sequence[Job]) -> Iterator[Query]:
    """Return the queries, metric by metric.

    For a job with several machine types, they have only metrics that need no number of parts: CloudWatch does not
    report the type of a host.
    """
    for metric in metrics:
        for job in jobs:
            parts = metric.parts(job.resource_type)
            if parts is not None:
                for host in hosts(job.nodes):
                    yield Query(metric, job.job_id, host, parts)


class CloudWatch:
    """The call of the usage collector. It raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def newest(
        self, asked: Sequence[Query], failed: dict[str, CloudError], *, start: float, end: float, deadline: float
    ) -> AsyncIterator[list[Reading]]:
        """Return the newest points of up to 500 metrics between two Unix times, page by page. Metrics without points
        are left out.

        `failed` gets the first error of each metric without a result, by its name.
        """
        body = {
            "MetricDataQueries": [_query(number, query) for number, query in enumerate(asked)],
            "StartTime": math.floor(start / PERIOD) * PERIOD,
            "EndTime": math.ceil(end),
            "ScanBy": "TimestampDescending",
        }
        by_id = {f"m{number}": query for number, query in enumerate(asked)}
        statuses: dict[str, str] = {}
        call = replace(json_call("GetMetricData", body), no_data=lambda found: not found.rows)
        async for rows in pages(self._client, call, body, MetricData, deadline):
            results = [None if row is None else decode_value(row, MetricResult) for row in rows]
            yield [reading for result in results if (reading := _reading(result, by_id)) is not None]
            # A later page may have a result that an earlier page failed to read.
            statuses |= {result.id or "": result.status_code or "" for result in results if result is not None}
            del rows, results  # to free memory before the next call
        for key, status in statuses.items():
            if status in _FAILURES and key in by_id:
                kind, message = _FAILURES[status]
                failed.setdefault(by_id[key].metric.name, kind(message, operation="GetMetricData", code=status))


def _query(number: int, query: Query) -> dict[str, Any]:
    dimension = {"Name": DIMENSION, "Value": f"{query.job_id}/{query.host}"}
    metric = {"Namespace": NAMESPACE, "MetricName": query.metric.name, "Dimensions": [dimension]}
    return {"Id": f"m{number}", "MetricStat": {"Metric": metric, "Period": PERIOD, "Stat": "Average"}}


def _reading(result: MetricResult | None, by_id: dict[str, Query]) -> Reading | None:
    """Return the newest point of a result; None if it has none, or if it is not of a requested metric."""
    query = None if result is None else by_id.get(result.id or "")
    if result is None or query is None:
        return None
    points = zip(result.timestamps or (), result.values or (), strict=False)
    dated = [(time, value) for time, value in points if time is not None]
    if not dated:
        return None
    time, value = max(dated, key=lambda point: point[0])
    return Reading(query, time, None if value is None else value / query.parts)
