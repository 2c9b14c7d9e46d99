"""Checks of each operation under each fault: no wrong values, a report of the fault, and full recovery."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response

from trainfleet_conformance.answers import is_identity, only, spoiling_leaves, spoiling_rows
from trainfleet_conformance.case import ProviderCase, complain, on_stage
from trainfleet_conformance.contract import strangers, untrue_numbers
from trainfleet_conformance.gateway import Answer, Arrival, Spoil
from trainfleet_conformance.page import ERRORS, Page, gone, shown, unlike, wrong
from trainfleet_conformance.stage import INTERVAL, Stage
from trainfleet_simulator.broken_bodies import LOGIN, other_types
from trainfleet_simulator.listener import Breaking
from trainfleet_simulator.rows import ENDLESS_NUMBER

_RETRY_AFTER = {"retry-after": "7"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?([KMGT]i?)?")
_KEY = re.compile(r"^(id|uid|uuid)$|_id$|Id$|ID$")
_HOSTILE = (
    'a"b\\c\nd\re\tf\x00g',
    'x"} 1\n# TYPE trainfleet_injected gauge\ntrainfleet_injected 1\n',
    "\u202e\u2028</script><script>alert(1)</script>",
    "{} %s ${HOME} {{7*7}}",
    "long" * 2560,
)


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One fault. A `refusal` rejects the credentials; a provider may then pause them."""

    name: str
    meaning: str
    make: Spoil
    refusal: bool = False
    pauses: bool = False
    """Whether the exporter pauses the whole host, because the response asks for it."""
    renames: bool = False
    """Whether ids change, so that the page shows other objects."""

    def __str__(self) -> str:
        return self.name


def _status(status: int, headers: dict[str, str] | None = None) -> Spoil:
    said = {"code": "MadeToFail", "message": "made to fail"}
    return lambda arrival, answer: JSONResponse({**said, "error": said}, status, headers)


def _quoting(arrival: Arrival, answer: Answer) -> Response:
    """Make a rejection that quotes the whole request in every field of errors."""
    quoted = " ".join((*arrival.headers.values(), arrival.target, arrival.body.decode("utf-8", "replace")))
    names = ("code", "message", "error_code", "error_msg", "request_id", "Code", "Message", "RequestId", "reason")
    said = dict.fromkeys(names, quoted)
    return JSONResponse({**said, "error": said}, 400, {"x-request-id": quoted[:200].replace("\n", " ")})


def _wire(kind: str) -> Spoil:
    return lambda arrival, answer: Breaking(kind, answer.response() if kind == "cut_off" else None)


def _body(make: Callable[[bytes], bytes]) -> Spoil:
    return lambda arrival, answer: answer.response(make(answer.body))


def _detail(name: str, value: Any) -> Any:
    return value if _KEY.search(name) else other_types(value)


def _numbers(make: Callable[[float], Any], text: Callable[[str], str]) -> Spoil:
    """Change numbers, and numbers as text. Keep names."""

    def change(name: str, value: Any) -> Any:
        if is_identity(name) or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return make(value)
        return text(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value

    return spoiling_leaves(change)


def _hostile(name: str, value: Any) -> Any:
    return _HOSTILE[len(name) % len(_HOSTILE)] if isinstance(value, str) and not _NUMBER.fullmatch(value) else value


WHOLE = (
    FaultKind("server error", "500", _status(500)),
    FaultKind("unavailable", "503, with Retry-After", _status(503, _RETRY_AFTER), pauses=True),
    FaultKind("throttled", "429, with Retry-After", _status(429, _RETRY_AFTER), pauses=True),
    FaultKind("unauthorized", "401", _status(401), refusal=True),
    FaultKind("denied", "403", _status(403), refusal=True),
    FaultKind("not found", "404", _status(404)),
    FaultKind("quoting", "400, in which all that was asked is quoted, secrets too", _quoting, refusal=True),
    FaultKind("hang", "nothing ever comes", _wire("hang")),
    FaultKind("reset", "the connection is reset before an answer", _wire("reset")),
    FaultKind("cut off", "the connection is closed in the middle of the answer", _wire("cut_off")),
    FaultKind("truncated", "JSON that ends in the middle", _body(lambda body: body[: len(body) // 2])),
    FaultKind("login page", "200 with a page of HTML", lambda arrival, answer: HTMLResponse(LOGIN)),
    FaultKind("empty", "200 without a body", _body(lambda body: b"")),
    FaultKind("null", "JSON null", _body(lambda body: b"null")),
    FaultKind("list", "a JSON list in place of an object", _body(lambda body: b"[" + (body or b"{}") + b"]")),
    FaultKind("no object", "an empty JSON object: no list, no total, nothing", _body(lambda body: b"{}")),
)
"""These make the whole response invalid: no part of it may be shown."""

ODD = (
    FaultKind("wrong types", "every value is of another type", spoiling_leaves(lambda name, value: other_types(value))),
    FaultKind("odd details", "values of rows are of other types, but for their ids", spoiling_rows(_detail)),
    FaultKind("nulls", "every value is null", spoiling_leaves(lambda name, value: None)),
    FaultKind("huge numbers", "1e400 for numbers", _numbers(lambda value: ENDLESS_NUMBER, lambda text: "1e400")),
    FaultKind("NaN", "NaN for numbers", _numbers(lambda value: float("nan"), lambda text: "NaN")),
    FaultKind(
        "negative numbers",
        "numbers below 0",
        _numbers(lambda value: -(abs(value) or 1), lambda text: "-" + text.lstrip("-")),
    ),
    FaultKind(
        "hostile texts",
        "quotes, line breaks, control characters, 10 kB, for every text",
        spoiling_leaves(_hostile),
        renames=True,
    ),
)
"""These keep the form of a response. Invalid values must not be shown, and nothing may break."""


def whole(name: str) -> FaultKind:
    """Return the kind of this name."""
    return next(kind for kind in WHOLE if kind.name == name)


_LAST_SUCCESS = "trainfleet_exporter_collector_last_success_timestamp_seconds"
_REQUESTS = "trainfleet_exporter_api_requests_total"
_FIGURES = ("_ratio", "_bytes", "_seconds", "_cores", "_watts", "_per_second", "_accelerators")
"""Suffixes of families of measured amounts. States, infos and counts may change while words are odd."""
_MOST_ATTEMPTS = 3
_SENT_AGAIN = 20
"""Allowed additional calls in two polls: those that hanging calls interrupted, and that are sent again."""
_FOLLOWS = frozenset({"not_ready", "throttled"})
"""Reasons for which a collector may fail although it does not call the operation."""
SILENCE = (
    "name what a request sends to prove who asks in SignedRequest.secrets, hold secrets as config.Secret, and never "
    "put them into messages"
)


class FaultChecks(ProviderCase):
    """Checks of faults, one operation at a time, in a cloud that does not change."""

    @pytest.mark.parametrize("kind", WHOLE, ids=str)
    @on_stage()
    async def test_fault_in_place_of_an_answer(self, stage: Stage, kind: FaultKind) -> None:
        """The last good values stay for their time. The exporter reports the fault, other parts continue, and all
        recovers."""
        before = start = await stage.page(2)
        for operation in self.faulted_operations:
            start = await self._whole(stage, before, start, operation, kind)
        await self._end(stage, kind)

    @pytest.mark.parametrize("kind", ODD, ids=str)
    @on_stage()
    async def test_fault_of_values(self, stage: Stage, kind: FaultKind) -> None:
        """The page shows no invalid values, and nothing breaks."""
        before = await stage.page(2)
        for operation in self.faulted_operations:
            with stage.spoilt(only(operation, kind.make)):
                during = await stage.page(2)
            amounts = (key for key in wrong(during, before) if key[0].endswith(_FIGURES))
            odd = () if kind.renames else shown(amounts, during, "shown, and not true")
            complain(
                [f"{operation}, {kind}: {text}" for text in (*odd, *strangers(during), *untrue_numbers(during))],
                f"{kind.meaning}: read fields by json_fields.py, which answers None for what is unreadable",
            )
            await self._recover(stage, before, operation, kind)
        await self._end(stage, kind)

    def test_fault_a_hanging_call_does_not_hold_up_the_end(self) -> None:
        """A poll ends when the exporter cancels it at a stop or reload."""
        for operation in self.faulted_operations:

            async def main(folder: Path, operation: str = operation) -> None:
                async with self.stage(folder) as stage:
                    await stage.polls(1)
                    with stage.spoilt(only(operation, whole("hang").make)):
                        await stage.during_a_poll()
                        took = await stage.stop()
                complain(
                    [f"it took {took:.1f} s to stop while {operation} hung"] * (took > 1),
                    "let asyncio.CancelledError pass: catch CloudError, never BaseException; await nothing in finally",
                )

            self.play(main)

    async def _whole(self, stage: Stage, before: Page, start: Page, operation: str, kind: FaultKind) -> Page:
        """Check one operation under one fault, from the page `start` before it to the page after it."""
        arrived = len(stage.gateway.arrivals)
        with stage.spoilt(only(operation, kind.make)):
            early = await stage.page(1)
            late = await stage.page(1)
        complaints = shown(wrong(late, before), late, "shown, and not true")
        if not (kind.name in ("empty", "no object") and operation in self.may_be_empty):
            rolls = self.good.callers(operation) <= self.good.per_object
            if not (kind.name == "not found" and rolls):  # a deleted object disappears at once
                complaints += gone(early, before, "gone at once, and should be kept")
            if operation not in self.copes:
                complaints += self._unreported(start, late, operation, kind)
                complaints += ["what it reported never disappears"] * (not gone(late, before))
        if not kind.pauses:
            complaints += self._others(start, late, operation)
        calls = sum(arrival.operation == operation for arrival in stage.gateway.arrivals[arrived:])
        usual = sum(arrival.operation == operation for arrival in self.good.steady)
        if calls > _MOST_ATTEMPTS * usual + _SENT_AGAIN:
            complaints.append(f"called {calls} times in two polls, where {usual} are usual: the transport tries again")
        complain(
            [f"{operation}, {kind}: {text}" for text in complaints],
            f"{kind.meaning}: let the error leave its part. Never catch to publish less, nor to try again",
        )
        return await self._recover(stage, before, operation, kind)

    def _unreported(self, start: Page, late: Page, operation: str, kind: FaultKind) -> Iterable[str]:
        """Return the missing reports of a failed call."""
        if late.total(ERRORS) <= start.total(ERRORS):
            yield "no error is counted"
        callers = self.good.callers(operation)
        if callers.isdisjoint(late.failing):
            yield f"none of its collectors ({', '.join(sorted(callers))}) says that it fails"
        good = late.total(_REQUESTS, operation=operation, outcome="ok")
        if good > start.total(_REQUESTS, operation=operation, outcome="ok") and kind.name != "no object":
            yield "its calls are counted as ok: Dialect.judge, or the transport, takes the answer for a good one"

    def _others(self, start: Page, late: Page, operation: str) -> Iterable[str]:
        """Return collectors that fail without a reason."""
        callers = self.good.callers(operation)
        for labels, value in late.of(ERRORS):
            before = start.total(ERRORS, **labels)
            if value > before and labels["collector"] not in callers and labels["reason"] not in _FOLLOWS:
                yield f"{labels['collector']} fails, too, which does not call it ({labels['reason']})"
        for labels, moment in late.of(_LAST_SUCCESS):
            if labels["collector"] not in callers.union(late.failing) and moment < time.time() - INTERVAL - 1:
                yield f"{labels['collector']} has stopped polling"

    async def _recover(self, stage: Stage, before: Page, operation: str, kind: FaultKind) -> Page:
        # Values that depend on the states of jobs return one poll after the states.
        after = await stage.page(max(self.recovery_polls, self.refusal_polls * kind.refusal) + (kind in ODD))
        complain(
            [f"after {operation}, {kind}: {text}" for text in unlike(after, before)],
            "keep nothing of a failed poll; say so in `recovery_polls` or `refusal_polls` where waiting is meant",
        )
        return after

    async def _end(self, stage: Stage, kind: FaultKind) -> None:
        """Complain of forbidden effects during the fault."""
        page = await stage.scrape()
        await stage.read_everything()
        complaints = [
            f"{labels['collector']} raised an exception that is none of errors.py"
            for labels, value in page.of(ERRORS, reason="internal")
            if value
        ]
        complaints += [line[:600] for line in stage.logs.written.splitlines() if "exporter's own" in line]
        complain([f"{kind}: {text}" for text in complaints], "read answers by json_fields.py; raise BadAnswer")
        complain([f"{kind}: {text}" for text in stage.leaks(self.secrets)], SILENCE)
        complain(["no answer could be spoilt"] * (not stage.gateway.spoilt), "see that the pretend cloud answers JSON")
