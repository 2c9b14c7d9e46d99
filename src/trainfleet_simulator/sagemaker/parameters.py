"""Common code of the services: requests for pages, and pages by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import Meta

from trainfleet_simulator.exchange import Answer, ApiError, Body, Call
from trainfleet_simulator.pages import Pages

_KEPT = 64


class Paged(Body, rename="pascal"):
    """A request for a page."""

    next_token: str = ""
    max_results: Annotated[int, Meta(ge=1, le=100)] = 10


def not_found(message: str = "Requested resource not found.") -> ApiError:
    """Return the error for an unknown name."""
    return ApiError(400, "ResourceNotFound", message)


class Lists:
    """The lists that clients read page by page."""

    def __init__(self) -> None:
        self._pages: Pages[Any] = Pages(_KEPT)

    def page(
        self, call: Call, asked: Paged, find: Callable[[], Sequence[Any]]
    ) -> tuple[Sequence[Any], dict[str, str], int]:
        """Return the rows of the requested page, its NextToken if there are more, and the total number of rows.

        `find` creates the list at the request for its first page. The other pages are cut from the same list.
        """
        page = self._pages.cut(asked.next_token, asked.max_results, find, question=call.name)
        if page is None:
            raise call.invalid("NextToken", "a token of this list")
        rows, token, total = page
        return rows, {"NextToken": token} if token else {}, total

    def answer(self, call: Call, asked: Paged, name: str, rows: Sequence[Any]) -> Answer:
        """Return the response with the requested page of rows."""
        page, token, _ = self.page(call, asked, lambda: rows)
        return Answer({name: page, **token})
