"""Fault injection: replaces a response by another one, or breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate

from starlette.responses import HTMLResponse, JSONResponse, Response

from trainfleet_simulator.broken_bodies import break_body
from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest, Cloud, Operation
from trainfleet_simulator.faults import BODY, IDENTITY, PAGING, VALUES, WIRE, Fault, outcome_of_kind
from trainfleet_simulator.paging import Paging
from trainfleet_simulator.quoting_errors import QuotingErrors
from trainfleet_simulator.rows import dumps, read, written
from trainfleet_simulator.truth import outcome_of
from trainfleet_simulator.values import warp_values
from trainfleet_simulator.wire import NEED_THE_ANSWER, Breaking

_AHEAD = 960  # seconds
_HINT = 7  # seconds
_REFUSALS = frozenset({"throttled", "throttled_hint", "server_error", "denied", "not_found", *IDENTITY})
_ELSEWHERE = "https://login.elsewhere.example/"
_BAD_GATEWAY = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass(slots=True)
class Reply:
    """The response to a call, the outcome that a client must see, and the injected fault ("" for none)."""

    response: Response
    outcome: str
    fault: str = ""
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, with its cloud and its operation."""

    cloud: Cloud
    request: ApiRequest
    operation: Operation
    request_id: str
    now: float

    def true(self) -> Reply:
        """Return the cloud's own reply."""
        try:
            answer = self.cloud.answer(self.request, self.operation, self.now)
        except ApiError as error:
            return self.refused(error)
        response = self.cloud.respond(answer, self.request_id)
        return Reply(response, "no_data" if answer.no_data else outcome_of(response.status_code, ""), answer=answer)

    def refused(self, error: ApiError) -> Reply:
        """Return a rejection in the cloud's own form."""
        response = self.cloud.refuse(error, self.request, self.operation, self.request_id)
        return Reply(response, outcome_of(error.status, error.code))


@dataclass(slots=True)
class FaultInjector:
    """Applies faults to calls."""

    quoting: QuotingErrors
    _paging: Paging = field(default_factory=Paging)

    def reply(self, call: Exchange, fault: Fault | None) -> Reply:
        """Return the response of the cloud, or the response that the fault makes of it."""
        if fault is None or not fault.word:
            return call.true()
        reply = self._instead(call, fault) or self._broken(call, fault, call.true())
        if reply.fault and fault.kind not in WIRE:
            reply.response.headers.update(dict(fault.headers))
        return reply

    def _instead(self, call: Exchange, fault: Fault) -> Reply | None:
        """Return the response of a fault that needs none of the cloud; None if it needs one."""
        kind = fault.kind
        if fault.status is not None:
            return _by_status(call, fault, fault.status)
        if kind in WIRE and kind not in NEED_THE_ANSWER:
            return _faulty(kind, Breaking(kind), call.operation)
        if kind in _REFUSALS:
            return _refusal(kind, call)
        match kind:
            case "bad_gateway":
                return _faulty(kind, HTMLResponse(_BAD_GATEWAY, 502), call.operation)
            case "no_content":
                return _faulty(kind, Response(status_code=204), call.operation)
            case "empty":
                return _faulty(kind, Response(), call.operation)
            case "quoted" | "quoted_at_length":
                at_length = kind == "quoted_at_length"
                page = self.quoting.refuse(
                    call.cloud, call.request, call.operation, call.request_id, at_length=at_length
                )
                return _faulty(kind, page, call.operation)
            case "redirect":
                found = HTMLResponse("<html><body>Found</body></html>\n", 302, {"location": _ELSEWHERE})
                return _faulty(kind, found, call.operation)
            case "endless_pages" if (body := self._paging.rest(call.operation)) is not None:
                self._paging.warp(kind, call.operation, body)
                return Reply(Response(dumps(body), media_type="application/json"), "ok", kind)
        return None

    def _broken(self, call: Exchange, fault: Fault, true: Reply) -> Reply:
        """Break the true response; return it unchanged if there is nothing to break."""
        kind = fault.kind
        if kind in WIRE:
            return _faulty(kind, Breaking(kind, true.response), call.operation)
        if true.answer is None:  # a rejection
            return true
        if kind in BODY:
            broken = break_body(kind, true.response)
            return true if broken is None else _faulty(kind, broken, call.operation, true.outcome)
        try:
            body = read(true.response)
        except ValueError:
            return true
        if (kind in PAGING and self._paging.warp(kind, call.operation, body)) or (
            kind in VALUES and warp_values(kind, body)
        ):
            return _faulty(kind, written(body, true.response), call.operation, true.outcome)
        return true


def _faulty(kind: str, response: Response, operation: Operation, without: str = "ok") -> Reply:
    return Reply(response, outcome_of_kind(kind, operation.name) or without, kind)


def _refusal(kind: str, call: Exchange) -> Reply | None:
    error = call.cloud.refusal(kind, call.request, call.operation)
    if error is None:
        return None
    reply = call.refused(error)
    reply.fault = kind
    headers: Mapping[str, str] = {}
    if kind == "throttled_hint":
        headers = {"retry-after": str(_HINT), **call.cloud.hint(_HINT)}
    elif kind == "skewed_clock":
        headers = {"date": formatdate(call.now + _AHEAD, usegmt=True)}
    reply.response.headers.update(dict(headers))
    return reply


def _by_status(call: Exchange, fault: Fault, status: int) -> Reply:
    """Return the response that the fault defines."""
    error = call.cloud.usual(status)
    usual = call.refused(error)
    usual.fault = fault.word
    if fault.body is None:
        return usual
    response: Response
    code = ""
    if isinstance(fault.body, str):
        response = Response(fault.body, status)
    else:
        code, response = call.cloud.code(fault.body), JSONResponse(fault.body, status)
    for name, value in usual.response.headers.items():
        response.headers.setdefault(name, value)
    return Reply(response, outcome_of(status, code), fault.word)
