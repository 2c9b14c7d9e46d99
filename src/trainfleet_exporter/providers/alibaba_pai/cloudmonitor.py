"""CloudMonitor's API (version 2019-01-01) as this exporter calls it: the catalogue, and the newest points of a metric.

An RPC API: every call is a POST of nothing to `/`, and its parameters are in the query. DescribeMetricLast and
DescribeMetricList count against one million free calls a month and account; DescribeMetricMetaList does not.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.alibaba_pai.catalogue import Metric
from trainfleet_exporter.providers.alibaba_pai.datapoints import batches
from trainfleet_exporter.providers.alibaba_pai.plain_points import PlainPoints
from trainfleet_exporter.providers.listing import Listing, Page, read_whole_list
from trainfleet_exporter.quantities import mapping, text, whole
from trainfleet_exporter.transport import ApiClient, Call, Priority

CATALOGUE_PAGE = 200
POINTS = 1440
"""The most points of one page."""
_MAX_PAGES = 1000
_EMPTY_PAGES = 3
"""So many pages in a row that hold nothing, and tell of a next one, lead nowhere."""


class CloudMonitor:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def describe_metric_meta_list(self, namespace: str, *, deadline: float) -> Listing[Any]:
        """DescribeMetricMetaList: every metric of a namespace, by its name."""
        call = Call(operation="DescribeMetricMetaList", method="POST", path="/", query={"Namespace": namespace})

        async def read_page(number: int) -> Page[Any]:
            query = {**call.query, "PageNumber": str(number + 1), "PageSize": str(CATALOGUE_PAGE)}
            payload = _object(await self._client.call(replace(call, query=query), deadline=deadline), call)
            return Page(whole(payload, "TotalCount"), mapping(payload, "Resources").get("Resource"))

        return await read_whole_list(read_page, id_of=lambda row: text(row, "MetricName"), operation=call.operation)

    async def describe_metric_last(
        self,
        namespace: str,
        metric: Metric,
        *,
        since: float,
        deadline: float,
        dimensions: str = "",
        plain: PlainPoints | None = None,
        again: Callable[[str], bool] = lambda text: False,
    ) -> AsyncIterator[Sequence[object]]:
        """DescribeMetricLast: the newest point of each resource that has one after `since`, page by page.

        `since` is in Unix seconds: left to itself the service looks back two hours, and what ended in them would fill
        most pages. `dimensions` names at most 50 resources as JSON; without it, all of the namespace are answered.
        Pages of points that are all `plain` are structs; of pages that `again` takes over, given as text, there is
        nothing.
        """
        query = {"Namespace": namespace, "MetricName": metric.name, "Length": str(POINTS)}
        query["StartTime"] = str(math.floor(since * 1000))  # as a text, its time zone would be anybody's guess
        if metric.period is not None:
            query["Period"] = str(metric.period)
        if dimensions:
            query["Dimensions"] = dimensions
        call = Call(operation="DescribeMetricLast", method="POST", path="/", query=query)
        async for points in point_pages(self._client, call, "Datapoints", deadline=deadline, plain=plain, again=again):
            yield points

    async def describe_metric_list(
        self, namespace: str, metric: Metric, *, start: int, end: int, period: int, dimensions: str, deadline: float
    ) -> AsyncIterator[Sequence[object]]:
        """DescribeMetricList: the points from `start` on and before `end` (Unix seconds), page by page.

        `period` is in seconds: points of minutes are kept for 31 days, those of five minutes and more for 91.
        `dimensions` names at most 50 resources as JSON.

        https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclist
        """
        query = {
            "Namespace": namespace,
            "MetricName": metric.name,
            "Dimensions": dimensions,
            "Period": str(period),
            # The range is open at its start and closed at its end.
            "StartTime": str(start * 1000 - 1),
            "EndTime": str(end * 1000 - 1),
            "Length": str(POINTS),
        }
        call = Call(operation="DescribeMetricList", method="POST", path="/", query=query, priority=Priority.DETAIL)
        async for points in point_pages(self._client, call, "Datapoints", deadline=deadline):
            yield points


async def point_pages(
    client: ApiClient,
    call: Call,
    key: str,
    *,
    deadline: float,
    plain: PlainPoints | None = None,
    again: Callable[[str], bool] = lambda text: False,
) -> AsyncIterator[Sequence[object]]:
    """The points of every page of an answer, which has them under `key`, until there is no further token."""

    def is_empty(payload: object) -> bool:
        if not isinstance(payload, dict) or payload.get("NextToken"):
            return False
        points = payload.get(key)  # not decoded: it is asked of each answer, and long where it is not empty
        return not points or (isinstance(points, str) and points.strip() in ("", "[]"))

    call = replace(call, no_data=is_empty)
    tokens: set[str] = set()
    empty = 0
    for _ in range(_MAX_PAGES):
        payload = _object(await client.call(call, deadline=deadline), call)
        told = False

        def taken_over(page: str) -> bool:
            nonlocal told
            told = again(page)
            return told

        async for points in batches(payload, key, plain, taken_over):
            told = told or bool(points)
            yield points
            del points
        token = text(payload, "NextToken")
        del payload  # before the next call
        if not token:
            return
        empty = 0 if told else empty + 1
        if token in tokens or empty == _EMPTY_PAGES:
            raise BadAnswer("the answer leads on and on without anything new", operation=call.operation)
        tokens.add(token)
        call = replace(call, query={**call.query, "NextToken": token})
    raise BadAnswer(f"the answer has more than {_MAX_PAGES} pages", operation=call.operation)


def _object(payload: object, call: Call) -> Mapping[str, Any]:
    if not isinstance(payload, dict):
        raise BadAnswer("the answer is not a JSON object", operation=call.operation)
    return payload
