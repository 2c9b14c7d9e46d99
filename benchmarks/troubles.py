"""Makes simulated clouds answer badly by a fixed timetable: one trouble after the other at every API.

Some are faults of the simulator. The others change single values of true answers on their way out, see `WARPS`.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchmarks.simulated import Fault

APIS = ("dlc", "paistudio", "aiworkspace", "cloudmonitor", "modelarts", "iam", "aom")
WARPS = ("numbers as text", "texts as numbers", "nulls", "absent fields", "rows without ids")
_FAULTS = (
    *("nan", "lone_surrogates", "one_bad_row", "unknown_words", "hostile_strings", "negative", "infinite"),
    *("wrong_types", "duplicate_rows", "half_list", "no_list", "padded", "wrong_top", "null", "truncated", "bad_utf8"),
    *("gzip_broken", "empty", "throttled_hint", "server_error", "not_found", "cut_off", "slow"),
)
"""Kinds of the simulator's faults, and answers that take their time."""
KINDS = (*WARPS, *_FAULTS)
_FIRST = 240.0
_EVERY, _LASTS = 120.0, 65.0
"""Seconds from one trouble of an API to its next, and how long each lasts."""
_DELAY = 7.0
_SHORTEST, _LONGEST = 0.02, 0.4
"""Seconds that calls take while there is no trouble."""
_VARYING = re.compile(rb"NextToken=[^&]*|\d{4}-\d\d-\d\dT[^&\"]*|\d{10,}")
"""What may differ from run to run in what is asked: random tokens, and times by rounding."""
_TEXTS = frozenset({"Datapoints", "DataPoints", "system_metric_list"})
"""Fields that hold JSON as text."""
_IDS = frozenset(
    {
        *("JobId", "PodId", "PodUid", "QuotaId", "NodeName", "WorkloadId", "WorkspaceId", "MetricName", "jobId", "pod"),
        *("id", "uid", "job_id", "task_id", "name", "metadata", "version_id", "metric"),
    }
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Trouble:
    """What one API does from `start` on, in seconds of the hour."""

    start: float
    api: str
    kind: str

    @property
    def end(self) -> float:
        return self.start + _LASTS

    def fault(self) -> Fault:
        """The simulator's own fault, added at the start. ValueError for a warp."""
        match = {"api": self.api}
        if self.kind == "slow":
            return Fault(match, delay=_DELAY, lasts=_LASTS)
        return Fault(match, kind=self.kind, lasts=_LASTS)


def timetable(seconds: float) -> list[Trouble]:
    """All troubles of so much time in order. Each API begins with another kind, so that they differ at any moment."""
    found = []
    for place, api in enumerate(APIS):
        first = _FIRST + place * _EVERY / len(APIS)
        for number in range(max(0, int((seconds - first) // _EVERY) + 1)):
            kind = KINDS[(number + place * len(KINDS) // len(APIS)) % len(KINDS)]
            found.append(Trouble(first + number * _EVERY, api, kind))
    return sorted(found, key=lambda one: one.start)


class Gate:
    """Stands before an API of the simulator: delays calls, warps answers, and holds both back while it is shut.

    Each call takes its own time, by what it asks and by `name`. So no two answers come at one moment, and the order of
    everything depends on stepped time alone. While all gates are shut the exporter gets no answer, so a page that is
    scraped then does not depend on how fast it works.
    """

    def __init__(self, app: ASGIApp, name: str, is_open: asyncio.Event) -> None:
        self._app = app
        self._name = name
        self._is_open = is_open
        self.warp = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer (ASGI)."""
        given = await receive()
        seconds = self._seconds(scope, given.get("body", b""))
        await self._pass(seconds)
        given_once = iter([given])
        held: list[Message] = []

        async def repeat() -> Message:
            return next(given_once, None) or await receive()

        async def hold(message: Message) -> None:
            held.append(message)

        await self._app(scope, repeat, hold)
        if not self._is_open.is_set():
            await self._pass(seconds)
        if self.warp and len(held) == 2 and held[0].get("status") == 200:
            held = _warped(self.warp, held)
        for message in held:
            if message["type"] == "http.response.start":
                # Whether a connection is kept depends on real time, and a call on a kept one is sent again.
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

    async def _pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        while not self._is_open.is_set():
            await self._is_open.wait()
            await asyncio.sleep(seconds)

    def _seconds(self, scope: Scope, body: bytes) -> float:
        action = next((value for name, value in scope["headers"] if name == b"x-acs-action"), b"")
        asked = b"\n".join((self._name.encode(), scope["raw_path"], action, scope["query_string"], body))
        return _SHORTEST + (_LONGEST - _SHORTEST) * zlib.crc32(_VARYING.sub(b"", asked)) / 2**32


def _warped(kind: str, held: list[Message]) -> list[Message]:
    try:
        body = json.loads(held[1]["body"])
    except ValueError:
        return held
    content = json.dumps(_Warp(kind).of(body)).encode()
    headers = [(name, value) for name, value in held[0]["headers"] if name.lower() != b"content-length"]
    headers.append((b"content-length", str(len(content)).encode()))
    return [{**held[0], "headers": headers}, {**held[1], "body": content}]


class _Warp:
    """Changes an answer; which of its values, depends on their places alone."""

    def __init__(self, kind: str) -> None:
        self._change: Callable[[dict[str, Any]], dict[str, Any]] = {
            "numbers as text": lambda fields: {name: _as_text(value) for name, value in fields.items()},
            "texts as numbers": lambda fields: {name: _as_number(value) for name, value in fields.items()},
            "nulls": lambda fields: {name: None if spoilt else fields[name] for name, spoilt in self._some(fields)},
            "absent fields": lambda fields: {name: fields[name] for name, spoilt in self._some(fields) if not spoilt},
            "rows without ids": self._without_id,
        }[kind]
        self._fields = 0
        self._objects = 0

    def of(self, value: Any, *, is_row: bool = False) -> Any:
        """The warped value; only objects within lists (rows, and what they hold) change."""
        if isinstance(value, list):
            return [self.of(one, is_row=True) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {name: self._field(name, one, is_row=is_row) for name, one in value.items()}
        return self._change(inner) if is_row else inner

    def _field(self, name: str, value: Any, *, is_row: bool) -> Any:
        if name in _TEXTS and isinstance(value, str):
            return json.dumps(self.of(json.loads(value)))
        return self.of(value, is_row=is_row)

    def _some(self, fields: dict[str, Any]) -> Iterator[tuple[str, bool]]:
        """Names of fields, and whether it is the turn of this one: of every 11th."""
        for name in fields:
            self._fields += 1
            yield name, self._fields % 11 == 0

    def _without_id(self, fields: dict[str, Any]) -> dict[str, Any]:
        self._objects += 1
        return {name: one for name, one in fields.items() if name not in _IDS} if self._objects % 3 == 0 else fields


def _as_text(value: Any) -> Any:
    return repr(value) if type(value) in (int, float) else value


def _as_number(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and _NUMBER.fullmatch(value) and value[:2] != "00" else value
