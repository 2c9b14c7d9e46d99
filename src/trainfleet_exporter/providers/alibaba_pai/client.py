"""PAI's APIs: their clients, lists page by page, and what each operation needs to be allowed.

https://www.alibabacloud.com/help/en/pai/developer-reference/api-pai-dlc-2020-12-03-overview
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct, defstruct, field

from trainfleet_exporter.errors import BadAnswer, CloudError
from trainfleet_exporter.fleet.lists import Listing, Page, read_whole_list
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.api import VERSIONS, PaiDialect
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.credentials import load
from trainfleet_exporter.providers.key_search import KeyHttp, open_credential
from trainfleet_exporter.providers.registry import BuildContext, open_transport
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import Call
from trainfleet_exporter.transport.json_fields import counting_unusable

T = TypeVar("T")
_AGAIN, _MAY_TAKE = 600.0, 10.0
"""Seconds until a kept list is read again after trouble, and for which it may delay a poll."""
PAGE_SIZE = 100
"""The largest page that is known to work on every list here; the documentation names no maximum."""
# If there are two, the vendor's own pages disagree on which one counts: grant both.
PERMISSIONS = {
    "ListWorkspaces": "paiworkspace:ListWorkspaces",
    "ListJobs": "paidlc:ListJobs and pai:ListJobs",
    "ListEcsSpecs": "paidlc:ListEcsSpecs and pai:ListEcsSpecs",
    "GetJob": "paidlc:GetJob and pai:GetJob",
    "GetJobMetrics": "paidlc:GetJobMetrics and pai:GetJobMetrics",
    "ListQuotas": "pai:ListQuotas",
    "ListQuotaWorkloads": "pai:ListQuotaWorkloads",
    "ListQuotaActiveUserUsages": "pai:ListQuotaActiveUserUsages",
    "ListNodes": "pai:ListNodes",
    "DescribeMetricList": "cms:DescribeMetricList and cms:QueryMetricList",
    "DescribeMetricLast": "cms:DescribeMetricLast and cms:QueryMetricLast",
    "AssumeRole": "sts:AssumeRole",
    "DescribeMetricMetaList": "cms:DescribeMetricMetaList and cms:QueryMetricMeta",
}


class Row(Struct, rename="pascal", gc=False):
    """Base of all answers."""


class Total(Row):
    """Any list, only its length."""

    total_count: float | None = None


class ListOf(Generic[T]):
    """A list of an API: the struct of its rows, the field of a page that has them, and the field with a row's id.

    `rows` is a struct with `total_count` and `rows` if a page has its rows in another way.
    """

    def __init__(self, api: str, operation: str, row: type[T], rows: str | type[Any], row_id: str) -> None:
        self.api, self.operation, self.id_of = api, operation, attrgetter(row_id)
        if isinstance(rows, str):
            listed = ("rows", list[row | None] | None, field(name=rows, default=None))  # type: ignore[valid-type]
            rows = defstruct(f"{rows}Page", [listed], bases=(Total,), rename="pascal", gc=False)
        self.pages: type[Any] = rows


class KeptList(Generic[T]):
    """A list that rarely changes: it is read again after `kept` seconds, or soon if it was empty or not all readable.

    `what` names it in errors. `needed`: nothing can be done without it, so that its first failure is raised.
    """

    def __init__(self, what: str, kept: float, *, needed: bool) -> None:
        self.what, self.rows = what, dict[str, T]()
        self.is_read = False
        """Whether it could be read once."""
        self.lost = Counter[str]()
        """By reason, what of it cannot be used."""
        self._kept, self._needed, self._due = kept, needed, float("-inf")

    async def refresh(self, part: Part, read: Callable[[float], Awaitable[Listing[T]]]) -> bool:
        """Return whether it has been read now. An empty answer replaces no rows. `read` takes a deadline."""
        now = asyncio.get_running_loop().time()
        if now < self._due:
            part.still_lost(self.lost)
            return False
        self._due = now + _AGAIN
        try:
            with counting_unusable() as lost:
                listing = await read(min(part.deadline, now + _MAY_TAKE))
        except CloudError as error:
            if self._needed and not self.is_read:
                self._due = float("-inf")
                raise
            part.lacks(self.what, error)
            part.still_lost(self.lost)
            return False
        part.dropped("malformed", listing.malformed)
        self.lost = lost + Counter(malformed=listing.malformed)
        if listing.rows and not self.lost:
            self._due = now + self._kept
        self.is_read, self.rows = True, listing.rows or self.rows
        return True


class Api:
    """The clients of one account and region. Every call raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext, *, cloudmonitor: bool) -> None:
        self._transport = open_transport(config, context)
        asked = {api: config.endpoint(api) for api in VERSIONS if api != "cloudmonitor" or cloudmonitor}
        self.endpoints: Mapping[str, str] = asked
        self._key_http = KeyHttp(self._transport, context, config.endpoint, asked)
        self.identity = open_credential(config.name, config.credentials, load, self._key_http, config.variables)
        self._clients = {
            api: self._transport.client(url, PaiDialect(api, VERSIONS[api], self.identity, context.clock))
            for api, url in asked.items()
        }

    async def get(
        self,
        api: str,
        operation: str,
        path: str,
        into: type[T],
        query: Mapping[str, str] | None = None,
        *,
        deadline: float,
        **options: Any,
    ) -> T:
        """Make one call. CloudMonitor is an RPC API: a POST of nothing to `/`. `options` are those of Call."""
        method = "POST" if api == "cloudmonitor" else "GET"
        call = Call(operation=operation, path=path, method=method, query=query or {}, **options)
        return await self._clients[api].call(call, into, deadline=deadline)

    async def list_all(
        self,
        of: ListOf[T],
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        deadline: float,
        page_size: int = 0,
        **options: Any,
    ) -> Listing[T]:
        async def read_page(number: int) -> Page[T]:
            asked = {**(query or {}), "PageNumber": str(number + 1), "PageSize": str(page_size or PAGE_SIZE)}
            page = await self.get(of.api, of.operation, path, of.pages, asked, deadline=deadline, **options)
            return Page(whole(page.total_count), page.rows)

        return await read_whole_list(read_page, id_of=of.id_of, operation=of.operation)

    async def count(self, api: str, operation: str, path: str, query: Mapping[str, str], *, deadline: float) -> int:
        """The TotalCount of a list: one call however long it is."""
        asked = {**query, "PageNumber": "1", "PageSize": "1"}
        total = whole((await self.get(api, operation, path, Total, asked, deadline=deadline)).total_count)
        if total is None:
            raise BadAnswer("the answer has no TotalCount", operation=operation)
        return total

    async def aclose(self) -> None:
        await self._key_http.aclose()
        await self._transport.aclose()


def segment(any_id: str) -> str:
    """An id as a part of a path. Ids are opaque and come from the cloud: none may reach the path as it is."""
    return quote(any_id, safe="", errors="replace")
