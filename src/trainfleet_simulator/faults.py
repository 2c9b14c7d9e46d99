"""The kinds of faults, and rules that delay chosen calls or make them fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0)]
WIRE: Mapping[str, str] = {
    "reset": "the connection is reset (TCP RST) before any answer",
    "close": "the connection is closed without an answer",
    "reset_midway": "the head and a part of the true body, then a reset",
    "cut_off": "the head, Content-Length of the whole, half of the body, then closed",
    "hang": "nothing ever comes, until the client goes away or the server stops",
    "drip": "the true answer from its first byte to its last, one byte a second",
    "not_http": "bytes that are no HTTP, then closed",
}
HTTP: Mapping[str, str] = {
    "throttled": "the cloud's own throttling refusal without any hint how long to wait",
    "throttled_hint": "the same with Retry-After: 7 (PAI also in its own header, in milliseconds)",
    "server_error": "500 in the cloud's own form",
    "bad_gateway": "502 with a proxy's HTML page",
    "no_content": "204",
    "empty": "200 without a body",
    "redirect": "302 to the Location of the fault's headers, or to another host",
    "denied": "the cloud's own 403 for a missing right",
    "not_found": "the cloud's own 404 (a v2 job that is not there is ModelArts' 400)",
    "quoted": "400 that quotes what the request proves itself with: whole, encoded and cut",
    "quoted_at_length": "the same in more than 16 KiB, with 200 where the API has refusals with 200",
}
BODY: Mapping[str, str] = {
    "html": "200 with a login page",
    "truncated": "whole HTTP, the JSON cut in the middle",
    "wrong_top": "a JSON list where an object belongs",
    "null": "JSON null",
    "wrong_types": "every field keeps its name and gets a value of another type",
    "one_bad_row": "the first row is wrong-typed through and through, the rest is true",
    "oversized": "50 MB of valid JSON",
    "gzip_bomb": "gzip of 1 MB that inflates to 1 GiB of valid JSON",
    "many_lists": "gzip of 50 kB that inflates to just under 32 MiB of empty lists",
    "many_objects": "the same of objects with one field",
    "many_nans": "the same of NaN",
    "many_surrogates": "the same of empty lists, and half a surrogate pair at the end",
    "padded": "the true answer and 240,000 values next to it: lists, objects, NaN and half a surrogate pair",
    "gzip_broken": "gzip that is cut off",
    "gzip_false": "says gzip and is not",
    "deep": "JSON nested 100,000 deep",
    "bad_utf8": "the true answer with bytes in a text that are no UTF-8",
}
PAGING: Mapping[str, str] = {
    "duplicate_rows": "each row of each page twice, the total as it is",
    "moving_rows": "between two pages a row comes in at the top: a page begins with the last row of the one before",
    "endless_pages": "always a full page of ever new rows and a total far off, or another token",
    "half_list": "the total as it is, half of the rows missing",
    "no_list": "the list's field is missing",
}
VALUES: Mapping[str, str] = {
    "unknown_words": "states are unknown words (or numbers)",
    "hostile_strings": "names and free texts of quotes, line breaks, control characters, 10 kB, and worse",
    "lone_surrogates": "names and free texts with halves of surrogate pairs",
    "negative": "measured and counted numbers are below 0",
    "nan": "measured and counted numbers are NaN",
    "infinite": "measured and counted numbers are 1e400",
}
IDENTITY: Mapping[str, str] = {
    "skewed_clock": "the cloud's clock is 16 minutes ahead: its refusal of the signature, and its Date",
    "expired_credentials": "the cloud's own refusal of credentials that have expired",
    "revoked_credentials": "the cloud's own refusal of credentials that are no longer there",
}
KINDS: Mapping[str, str] = {**WIRE, **HTTP, **BODY, **PAGING, **VALUES, **IDENTITY}
"""Every kind by name."""


class Fault(msgspec.Struct, forbid_unknown_fields=True):
    """A fault, and the calls that it applies to.

    `match` has names and values that must all agree:

    - `api` and `operation`
    - `connection`: `new`, or `kept` from an earlier call
    - names in the path: `JobId`, `TaskId`, `PoolId`
    - any query parameter
    - a field or filter of a ModelArts job search, such as `workspace_id` or `phase`

    The fault is one of the following:

    - `status` is the HTTP status of the response. `body` is sent as JSON, or unchanged if it is a text. None: the
      cloud's own error with that status.
    - `kind` is one of KINDS. If an operation cannot have this kind (duplicate rows without a list), the response is
      the true one.
    - With neither, the true response follows after the delay.

    `headers` are added to the response. `delay` is the number of seconds before it. `times` is the number of matching
    calls that fail (None: all). `after` and `lasts` are seconds by the cloud's clock: the fault begins `after` seconds
    after it was added, and ends `lasts` seconds later (None: never). Rules are tried in the order in which they were
    added. Only the first one that applies is used.
    """

    match: Mapping[str, str]
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] | None = None
    body: Any = None
    headers: Mapping[str, str] = {}
    delay: Seconds = 0.0
    times: Annotated[int, msgspec.Meta(ge=0)] | None = None
    kind: str = ""
    after: Seconds = 0.0
    lasts: Seconds | None = None

    def __post_init__(self) -> None:
        """Raises ValueError if the kind is unknown, or contradicts other fields."""
        if self.kind and self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; there are: {', '.join(KINDS)}")
        if self.kind and (self.status is not None or self.body is not None):
            raise ValueError("kind says all of the answer: status and body go without it")

    @property
    def word(self) -> str:
        """Return the name in the log of responses; empty if there is only a delay."""
        return self.kind or ("" if self.status is None else "status")


class Faults:
    """The rules in use. The first one that matches a call applies. `clock` is the cloud's."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rules: list[tuple[Fault, float]] = []

    def add(self, fault: Fault) -> None:
        """Add a rule behind the others. Its time begins now."""
        self._rules.append((fault, self._clock()))

    def clear(self) -> None:
        self._rules.clear()

    def replace(self, faults: Iterable[Fault]) -> None:
        """Replace all rules. Their time begins now."""
        now = self._clock()
        self._rules[:] = [(fault, now) for fault in faults]

    def __len__(self) -> int:
        return len(self._rules)

    def take(self, facts: Mapping[str, str]) -> Fault | None:
        """Return the fault for a call, and count it as used."""
        now = self._clock()
        for fault, added in self._rules:
            if fault.times == 0 or not _in_time(fault, now - added):
                continue
            if not all(facts.get(name) == value for name, value in fault.match.items()):
                continue
            if fault.times is not None:
                fault.times -= 1
            return fault
        return None


def _in_time(fault: Fault, age: float) -> bool:
    return age >= fault.after and (fault.lasts is None or age < fault.after + fault.lasts)
