"""Common code of the services: the call, strict parsing of members, and pages by token."""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.world.fleet import World

_MOST = 100
_DEFAULT = 10
_KEPT = 64
_TOKEN = re.compile(r"([0-9]{1,12}):([0-9]{1,9})")
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


@dataclass(slots=True)
class Lists:
    """The latest lists that clients read page by page, by number."""

    kept: OrderedDict[int, list[Any]] = field(default_factory=OrderedDict)
    made: int = 0

    def keep(self, found: list[Any]) -> int:
        """Store a list; return its number."""
        self.made += 1
        self.kept[self.made] = found
        while len(self.kept) > _KEPT:
            self.kept.popitem(last=False)
        return self.made


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its decoded members, and the account."""

    body: Mapping[str, Any]
    world: World
    now: float
    lists: Lists

    def text(self, name: str) -> str:
        """Return a member that is text; empty if it is missing."""
        return str(self.body.get(name, ""))


Handler = Callable[[Call], Answer]


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
        raise invalid(f"1 validation error detected: Value null at '{missing[0]}' failed to satisfy constraint")
    return given


def one_of(given: Mapping[str, Any], name: str, allowed: Sequence[str], default: str) -> str:
    """Return one of the words of an enumeration."""
    value = str(given.get(name, default))
    if value not in allowed:
        raise invalid(
            f"1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: "
            f"Member must satisfy enum value set: [{', '.join(allowed)}]"
        )
    return value


def page(call: Call, find: Callable[[], list[Any]]) -> tuple[list[Any], dict[str, str], int]:
    """Return the rows of the requested page, its NextToken if there are more, and the total number of rows.

    `find` creates the list at the request for its first page. The other pages are cut from the same list.
    """
    size = call.body.get("MaxResults", _DEFAULT)
    if not 1 <= size <= _MOST:
        raise invalid(f"1 validation error detected: Value '{size}' at 'maxResults' failed to satisfy constraint")
    token = call.text("NextToken")
    number, start = _place(token) or (0, 0)
    found = call.lists.kept.get(number) if token else find()
    if found is None:
        raise invalid("Invalid NextToken")
    end = start + size
    if end >= len(found):
        return found[start:end], {}, len(found)
    following = f"{number or call.lists.keep(found)}:{end}"
    return found[start:end], {"NextToken": base64.b64encode(following.encode()).decode()}, len(found)


def offset_of(token: str) -> int:
    """Return the number of rows before a token's page; 0 for an unknown token."""
    place = _place(token)
    return 0 if place is None else place[1]


def _place(token: str) -> tuple[int, int] | None:
    """Return the number of a list, and the first row of a page; None for an unknown token."""
    try:
        found = _TOKEN.fullmatch(base64.b64decode(token, validate=True).decode())
    except ValueError:
        return None
    return None if found is None else (int(found[1]), int(found[2]))
