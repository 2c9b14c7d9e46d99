"""The operations of SageMaker's API. Lists are read to the last page.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Operations_Amazon_SageMaker_Service.html
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.aws_sagemaker import payloads
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import PAGE, ApiClient, Call

PAGE_SIZE = 100
"""The largest page of each list."""
NAMES_AT_ONCE = 15
"""Job names in one filter. Its value has at most 1,024 characters, a name at most 63."""
_MAX_PAGES = 2_000
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Filter = tuple[str, str, str]
"""Property, operator and value of a search."""


class _Page(Protocol[T_co]):
    """A page of a list in a response."""

    @property
    def rows(self) -> Sequence[T_co | None] | None: ...
    @property
    def next_token(self) -> str | None: ...


class SageMakerClient:
    """The calls of the collectors. Each raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def search_jobs(self, filters: Sequence[Filter], *, deadline: float, kind: str = "") -> Listing[payloads.Job]:
        """Search (TrainingJob), oldest first, all pages of 100 complete jobs. `kind` as in Call."""
        asked = {**_search(filters), "SortBy": "CreationTime", "SortOrder": "Ascending", "MaxResults": PAGE_SIZE}
        rows = await self._all_pages("Search", asked, payloads.SearchPage, deadline, kind=kind)
        return _listing([None if row is None else row.training_job for row in rows])

    async def count_jobs(self, filters: Sequence[Filter], *, deadline: float) -> int | None:
        """Count jobs by Search, in one call. None if the service only estimates the number."""
        asked = {**_search(filters), "MaxResults": 1}
        call = json_call("Search", asked)
        page = await self._client.call(call, payloads.SearchPage, deadline=deadline)
        if page.rows is None:
            raise BadAnswer("the answer has no list", operation="Search")
        hits = page.total_hits
        if hits is None or hits.relation != "EqualTo":
            return None
        return whole(hits.value)

    async def describe_job(self, name: str, *, deadline: float) -> payloads.Job:
        """DescribeTrainingJob. NotFound if the job does not exist."""
        call = json_call("DescribeTrainingJob", {"TrainingJobName": name})
        row = await self._client.call(call, payloads.Job, deadline=deadline)
        if row.training_job_name != name:
            raise BadAnswer("the answer is about another job", operation="DescribeTrainingJob")
        return row

    async def list_clusters(self, *, deadline: float) -> list[payloads.Cluster | None]:
        """ListClusters: HyperPod clusters, all pages."""
        return await self._all_pages("ListClusters", {"MaxResults": PAGE_SIZE}, payloads.Clusters, deadline)

    async def describe_cluster(self, name: str, *, deadline: float) -> payloads.Cluster:
        """DescribeCluster: the instance groups of one cluster. NotFound if it does not exist."""
        call = json_call("DescribeCluster", {"ClusterName": name})
        return await self._client.call(call, payloads.Cluster, deadline=deadline)

    async def list_nodes(self, cluster: str, *, deadline: float) -> list[payloads.Node | None]:
        """ListClusterNodes of one cluster, all pages. NotFound if it does not exist."""
        asked = {"ClusterName": cluster, "MaxResults": PAGE_SIZE}
        return await self._all_pages("ListClusterNodes", asked, payloads.Nodes, deadline)

    async def list_plans(self, *, deadline: float) -> list[payloads.TrainingPlan | None]:
        """ListTrainingPlans, all pages."""
        return await self._all_pages("ListTrainingPlans", {"MaxResults": PAGE_SIZE}, payloads.TrainingPlans, deadline)

    async def _all_pages(
        self, operation: str, asked: Mapping[str, Any], into: type[_Page[T]], deadline: float, *, kind: str = ""
    ) -> list[T | None]:
        """The rows of every page."""
        found: list[T | None] = []
        async for rows in pages(self._client, json_call(operation, asked, kind=kind), asked, into, deadline):
            found += rows
            del rows  # to free memory before the next call
        return found


def json_call(operation: str, asked: Mapping[str, Any], *, kind: str = "") -> Call:
    """Return a call with its parameters as JSON."""
    body = json.dumps(asked, separators=(",", ":")).encode()
    return Call(operation=operation, path="/", method="POST", body=body, limits=PAGE, kind=kind)


async def pages(
    client: ApiClient, call: Call, asked: Mapping[str, Any], into: type[_Page[T]], deadline: float
) -> AsyncIterator[Sequence[T | None]]:
    """Yield the rows of each page. Each response has the token of the next page. BadAnswer if a page has no list."""
    seen: set[str] = set()
    while True:
        page = await client.call(call, into, deadline=deadline)
        rows, token = page.rows, page.next_token
        del page
        if rows is None:
            raise BadAnswer("the answer has no list", operation=call.operation)
        yield rows
        del rows  # to free memory before the next call
        if not token:
            return
        if token in seen or len(seen) == _MAX_PAGES:
            raise BadAnswer("the same page came twice, or the list does not end", operation=call.operation)
        seen.add(token)
        body = json.dumps({**asked, "NextToken": token}, separators=(",", ":")).encode()
        call = replace(call, body=body)


def search_time(unix: float) -> str:
    """Format a Unix time as a filter value of Search: UTC without a zone, whole seconds."""
    return datetime.fromtimestamp(int(unix), UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _search(filters: Sequence[Filter]) -> dict[str, Any]:
    found = [{"Name": name, "Operator": operator, "Value": value} for name, operator, value in filters]
    return {"Resource": "TrainingJob", "SearchExpression": {"Filters": found}}


def _listing(rows: Sequence[payloads.Job | None]) -> Listing[payloads.Job]:
    """Return the jobs by name. If a job moved between pages, it has two rows, and the later one counts."""
    found = {row.training_job_name: row for row in rows if row is not None and row.training_job_name}
    return Listing(found, sum(row is None or not row.training_job_name for row in rows))
