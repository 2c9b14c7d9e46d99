"""Calls of SageMaker and CloudWatch: parameters as JSON, lists to the last page.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Operations_Amazon_SageMaker_Service.html
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, defstruct, field

from trainfleet_exporter.fleet.lists import pages_by_token
from trainfleet_exporter.transport import PAGE, ApiClient, Call

PAGE_SIZE = 100
"""The largest page of each list of SageMaker."""
T = TypeVar("T")


class Answer(Struct, rename="pascal", gc=False):
    """Base of answers and their parts, with the fields that the exporter reads, by AWS' names.

    Every field may be absent or null. Times are Unix seconds.
    """


def page_of(rows: str, row: Any) -> Any:
    """Return the struct of a page of a list. `rows` is AWS' name of its list, and `row` the struct of a row."""
    list_of_rows = ("rows", list[row | None] | None, field(name=rows, default=None))
    return defstruct("Page", [list_of_rows, ("next_token", str | None, None)], bases=(Answer,))


class Calls:
    """The calls of one API. Each raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def call(
        self, operation: str, asked: Mapping[str, Any], into: type[T], *, deadline: float, **of_call: Any
    ) -> T:
        """Make one call. `of_call` are further fields of transport.Call."""
        body = json.dumps(asked, separators=(",", ":")).encode()
        call = Call(operation=operation, path="/", method="POST", body=body, limits=PAGE, **of_call)
        return await self._client.call(call, into, deadline=deadline)

    def pages(
        self, operation: str, asked: Mapping[str, Any], into: Any, *, deadline: float, **of_call: Any
    ) -> AsyncIterator[Sequence[Any]]:
        """Yield the rows of each page; None for those that are no objects."""

        async def read(token: str) -> tuple[Sequence[Any] | None, str | None]:
            body = {**asked, "NextToken": token} if token else asked
            page = await self.call(operation, body, into, deadline=deadline, **of_call)
            return page.rows, page.next_token

        return pages_by_token(read, operation)

    async def whole_list(self, operation: str, into: Any, *, deadline: float, **asked: str) -> list[Any]:
        """Return the rows of all pages."""
        pages = self.pages(operation, {**asked, "MaxResults": PAGE_SIZE}, into, deadline=deadline)
        return [row async for rows in pages for row in rows]
