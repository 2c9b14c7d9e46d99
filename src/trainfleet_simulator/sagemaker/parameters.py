"""Common code of the services: errors, strict parsing of members, and pages by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.pages import Pages

_MOST = 100
_DEFAULT = 10
_KEPT = 64
_KINDS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "whole": (int,),
    "list": (list,),
    "object": (dict,),
    "yes or no": (bool,),
}
PAGED = {"NextToken": "text", "MaxResults": "whole"}
"""The members of every request for a page."""


def invalid(message: str) -> ApiError:
    """Return the error for an invalid member."""
    return ApiError(400, "ValidationException", message)


def not_found(message: str = "Requested resource not found.") -> ApiError:
    """Return the error for an unknown name."""
    return ApiError(400, "ResourceNotFound", message)


def check(given: Any, members: Mapping[str, str], *required: str) -> Mapping[str, Any]:
    """Return an object that has only these members, each of its kind. Raises ApiError."""
    if not isinstance(given, dict):
        raise ApiError(400, "SerializationException", "an object is wanted")
    for name, value in given.items():
        kinds = _KINDS.get(members.get(name, ""), ())
        if not kinds or not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ApiError(400, "SerializationException", f"{name} is unknown, or not of its type")
    missing = [name for name in required if name not in given]
    if missing:
        raise _unfit("null", missing[0])
    return given


def one_of(given: Mapping[str, Any], name: str, allowed: Sequence[str], default: str) -> str:
    """Return one of the words of an enumeration."""
    value = str(given.get(name, default))
    if value not in allowed:
        raise _unfit(f"'{value}'", name, f": Member must satisfy enum value set: [{', '.join(allowed)}]")
    return value


def _unfit(value: str, name: str, why: str = "") -> ApiError:
    return invalid(f"1 validation error detected: Value {value} at '{name}' failed to satisfy constraint{why}")


class Lists:
    """The lists that clients read page by page."""

    def __init__(self) -> None:
        self._pages: Pages[Any] = Pages(_KEPT)

    def page(self, call: Call, find: Callable[[], Sequence[Any]]) -> tuple[Sequence[Any], dict[str, str], int]:
        """Return the rows of the requested page, its NextToken if there are more, and the total number of rows.

        `find` creates the list at the request for its first page. The other pages are cut from the same list.
        """
        size = call.body.get("MaxResults", _DEFAULT)
        if not 1 <= size <= _MOST:
            raise _unfit(f"'{size}'", "maxResults")
        page = self._pages.cut(call.body.get("NextToken", ""), size, find, question=call.operation.name)
        if page is None:
            raise invalid("Invalid NextToken")
        rows, token, total = page
        return rows, {"NextToken": token} if token else {}, total

    def answer(self, call: Call, name: str, rows: Sequence[Any]) -> Answer:
        """Return the response with the requested page of rows."""
        page, token, _ = self.page(call, lambda: rows)
        return Answer({name: page, **token})
