"""CloudMonitor's API (version 2019-01-01) as this exporter calls it: the catalogue, and the newest points of a metric.

An RPC API: every call is a POST of nothing to `/`, and its parameters are in the query. DescribeMetricLast and
DescribeMetricList count against one million free calls a month and account; DescribeMetricMetaList does not.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed
from trainfleet_exporter.providers.alibaba_pai.payloads import MetricMeta, MetricMetasPage, MetricsPage, PointsPage
from trainfleet_exporter.providers.alibaba_pai.points import Owner, point_reader
from trainfleet_exporter.providers.jobs.listing import Listing, Page, read_whole_list
from trainfleet_exporter.providers.usage.newest import Batch
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import ApiClient, Call, Priority

CATALOGUE_PAGE = 200
POINTS = 1440
"""The most points of one page."""
_MAX_PAGES = 1000
_EMPTY_PAGES = 3
"""Empty pages in a row, each naming a next one, after which reading gives up."""


class CloudMonitor:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def describe_metric_meta_list(self, namespace: str, *, deadline: float) -> Listing[MetricMeta]:
        """DescribeMetricMetaList: every metric of a namespace, by its name."""
        call = Call(operation="DescribeMetricMetaList", method="POST", path="/", query={"Namespace": namespace})

        async def read_page(number: int) -> Page[MetricMeta]:
            query = {**call.query, "PageNumber": str(number + 1), "PageSize": str(CATALOGUE_PAGE)}
            page = await self._client.call(replace(call, query=query), MetricMetasPage, deadline=deadline)
            return Page(whole(page.total_count), page.resources.resource if page.resources else None)

        return await read_whole_list(read_page, id_of=lambda row: row.metric_name or "", operation=call.operation)

    async def describe_metric_last(
        self,
        namespace: str,
        feed: Feed,
        *,
        since: float,
        deadline: float,
        dimensions: str = "",
        owner: Owner | None = None,
    ) -> AsyncIterator[Batch]:
        """DescribeMetricLast: the newest point of each resource that has one after `since`, batch by batch.

        `since` is in Unix seconds: by default the service looks back two hours, and what ended in them would fill most
        pages. `dimensions` names at most 50 resources as JSON; without it, the answer has all of the namespace.
        """
        metric = feed.metric
        query = {"Namespace": namespace, "MetricName": metric.name, "Length": str(POINTS)}
        query["StartTime"] = str(math.floor(since * 1000))  # as a text, its time zone would not be certain
        if metric.period is not None:
            query["Period"] = str(metric.period)
        if dimensions:
            query["Dimensions"] = dimensions
        call = Call(operation="DescribeMetricLast", method="POST", path="/", query=query)
        async for batch in point_batches(self._client, call, PointsPage, feed, owner, deadline=deadline):
            yield batch
            del batch

    async def describe_metric_list(
        self,
        namespace: str,
        feed: Feed,
        *,
        start: int,
        end: int,
        period: int,
        dimensions: str,
        deadline: float,
        owner: Owner | None = None,
    ) -> AsyncIterator[Batch]:
        """DescribeMetricList: the points from `start` on and before `end` (Unix seconds), batch by batch.

        `period` is in seconds: points of minutes are kept for 31 days, those of five minutes and more for 91.
        `dimensions` names at most 50 resources as JSON.

        https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclist
        """
        query = {
            "Namespace": namespace,
            "MetricName": feed.metric.name,
            "Dimensions": dimensions,
            "Period": str(period),
            # The range is open at its start and closed at its end.
            "StartTime": str(start * 1000 - 1),
            "EndTime": str(end * 1000 - 1),
            "Length": str(POINTS),
        }
        call = Call(operation="DescribeMetricList", method="POST", path="/", query=query, priority=Priority.DETAIL)
        async for batch in point_batches(self._client, call, PointsPage, feed, owner, deadline=deadline):
            yield batch
            del batch


async def point_batches(
    client: ApiClient,
    call: Call,
    into: type[PointsPage | MetricsPage],
    feed: Feed,
    owner: Owner | None,
    *,
    deadline: float,
) -> AsyncIterator[Batch]:
    """The points of every page of an answer, until there is no further token. Raises CloudError.

    `owner` finds whose a point is, where it is not simply of the job that it names.
    """
    reader = point_reader(feed)
    call = replace(call, no_data=_is_empty)
    tokens: set[str] = set()
    empty = 0
    for _ in range(_MAX_PAGES):
        page = await client.call(call, into, deadline=deadline)
        token = page.next_token
        points = reader.decode(page.points)
        del page
        empty = 0 if points else empty + 1
        for batch in reader.batches(points, owner):
            yield batch
            del batch
        del points  # before the next call
        if not token:
            return
        if token in tokens or empty == _EMPTY_PAGES:
            raise BadAnswer("the answer leads on and on without anything new", operation=call.operation)
        tokens.add(token)
        call = replace(call, query={**call.query, "NextToken": token})
    raise BadAnswer(f"the answer has more than {_MAX_PAGES} pages", operation=call.operation)


def _is_empty(page: PointsPage | MetricsPage) -> bool:
    points = page.points  # not decoded: each answer is asked, and has a long text where it is not empty
    return not page.next_token and (not points or (isinstance(points, str) and points.strip() in ("", "[]")))
