"""Long responses in pages: later pages are cut from the result for the first page."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from trainfleet_simulator.exchange import ApiError
from trainfleet_simulator.pai.parameters import Call

_KEPT = 4096
_VALID = 300  # seconds
_QUESTION = ("Namespace", "MetricName", "Period", "Dimensions", "StartTime", "EndTime", "JobId")
"""Parameters that must be the same for the later pages."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page, the token of the next one ("" after the last), and the total number of items."""

    items: Sequence[Item]
    token: str
    total: int


@dataclass(frozen=True, slots=True)
class _Rest:
    """The state behind a token: its question, all results, and the next position."""

    question: Hashable
    found: Sequence[object]
    offset: int
    until: float


class Pages:
    """Issues tokens for the rest of a response and keeps `kept` of them. A token is valid for five minutes and can be
    used more than once."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._rests: OrderedDict[str, _Rest] = OrderedDict()

    def cut(self, operation: str, call: Call, find: Callable[[], Sequence[Item]], length: int) -> Page[Item]:
        """Return one page of the results of `find`, or of its results for the first page. Raises ApiError."""
        token, now = call.query.get("NextToken", ""), call.now
        question = (operation, *(call.query.get(name, "") for name in _QUESTION))
        found: Sequence[Item]
        if not token:
            found, offset = find(), 0
        else:
            rest = self._rests.get(token)
            if rest is None or rest.question != question or now > rest.until:
                raise ApiError(400, "ParameterInvalid", "The parameter NextToken is invalid.")
            found, offset = rest.found, rest.offset  # type: ignore[assignment] # the question says of what kind
        end = offset + length
        following = self._token(_Rest(question, found, end, now + _VALID), now) if end < len(found) else ""
        return Page(found[offset:end], following, len(found))

    def _token(self, rest: _Rest, now: float) -> str:
        while self._rests and (len(self._rests) >= self._kept or now > next(iter(self._rests.values())).until):
            self._rests.popitem(last=False)
        token = secrets.token_hex(16)
        self._rests[token] = rest
        return token
