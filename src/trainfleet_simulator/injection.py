"""Fault injection: replaces a response by another one, or breaks it.

Errors that quote the request are like those that services return for a wrong signature: every secret of the request is
quoted unchanged, percent-encoded, in base64, and cut.
"""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import quote

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from trainfleet_simulator.broken_bodies import break_body
from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest, Call
from trainfleet_simulator.faults import BODY, IDENTITY, PAGING, VALUES, WIRE, Fault
from trainfleet_simulator.listener import NEED_THE_ANSWER, Breaking
from trainfleet_simulator.paging import Paging
from trainfleet_simulator.rows import dumps, read, written
from trainfleet_simulator.signatures import string_to_sign
from trainfleet_simulator.values import warp_values

_AHEAD = 960  # seconds
_HINT = 7  # seconds
_REFUSALS = frozenset({"throttled", "throttled_hint", "server_error", "denied", "not_found", *IDENTITY})
_BAD_GATEWAY = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)
_ELSEWHERE = {"location": "https://login.elsewhere.example/"}
_INSTEAD: Mapping[str, Callable[[], Response]] = {
    "bad_gateway": lambda: HTMLResponse(_BAD_GATEWAY, 502),
    "no_content": lambda: Response(status_code=204),
    "empty": Response,
    "redirect": lambda: HTMLResponse("<html><body>Found</body></html>\n", 302, _ELSEWHERE),
}
"""Responses that are the same for every call."""
_SIGNATURE = re.compile(r"Signature=(\w+)")
_KEPT = 400
_FILLER = "y" * 268
"""The text before the first quote of a long error, so that a client that shows 300 characters cuts the quote."""
_DETAILS = "x" * 20_000
"""More than some clients read of an error."""


@dataclass(slots=True)
class Reply:
    """The response to a call, the injected fault ("" for none), and the cloud's own response."""

    response: Response
    fault: str = ""
    answer: Answer | None = None


def _true(call: Call) -> Reply:
    """Return the cloud's own reply."""
    try:
        answer = call.answer()
    except ApiError as error:
        return Reply(call.rejected(error))
    return Reply(call.cloud.respond(answer, call), answer=answer)


class FaultInjector:
    """Applies faults to calls. `quoted` are the last requests that errors quoted."""

    def __init__(self) -> None:
        self.quoted: deque[ApiRequest] = deque(maxlen=_KEPT)
        self._turn = 0
        self._paging = Paging()

    def reply(self, call: Call, fault: Fault | None) -> Reply:
        """Return the response of the cloud, or the response that the fault makes of it."""
        if fault is None or not fault.word:
            return _true(call)
        response = self._instead(call, fault)
        reply = Reply(response, fault.word) if response else self._broken(call, fault.kind, _true(call))
        if reply.fault and fault.kind not in WIRE:
            reply.response.headers.update(dict(fault.headers))
        return reply

    def _instead(self, call: Call, fault: Fault) -> Response | None:
        """Return the response of a fault that needs none of the cloud; None if it needs one."""
        kind = fault.kind
        if fault.status is not None:
            return _by_status(call, fault, fault.status)
        if kind in WIRE and kind not in NEED_THE_ANSWER:
            return Breaking(kind)
        if kind in _REFUSALS:
            return _refusal(kind, call)
        if kind in _INSTEAD:
            return _INSTEAD[kind]()
        if kind in {"quoted", "quoted_at_length"}:
            return self._quote(call, at_length=kind == "quoted_at_length")
        if kind == "endless_pages" and (body := self._paging.rest(call)) is not None:
            self._paging.warp(kind, call, body)
            return Response(dumps(body), media_type="application/json")
        return None

    def _broken(self, call: Call, kind: str, true: Reply) -> Reply:
        """Break the true response; return it unchanged if there is nothing to break."""
        if kind in WIRE:
            return Reply(Breaking(kind, true.response), kind)
        if true.answer is None:  # a rejection
            return true
        if kind in BODY:
            broken = break_body(kind, true.response)
            return true if broken is None else Reply(broken, kind)
        try:
            body = read(true.response)
        except ValueError:
            return true
        if (kind in PAGING and self._paging.warp(kind, call, body)) or (kind in VALUES and warp_values(kind, body)):
            return Reply(written(body, true.response), kind)
        return true

    def _quote(self, call: Call, *, at_length: bool) -> Response:
        """Return a rejection with 400. With `at_length`, it has more than 16 KiB, and status 200 if the API has such
        rejections."""
        self.quoted.append(call.request)
        parts = list(_quotes(call.request))
        first = self._turn % len(parts)  # clients show the start of a text
        self._turn += 1
        text = "; ".join((*parts[first:], *parts[:first]))
        error = call.usual(400)
        error.message = f"{_FILLER}: {text}" if at_length else text
        response = call.rejected(error)
        if isinstance(response, PlainTextResponse) or not at_length:
            return response
        body = {"Details": _DETAILS, **read(response)}
        says_so = "Code" in body or body.get("status") == "error" or body.get("is_success") is False
        return JSONResponse(body, 200 if says_so else response.status_code)


def _refusal(kind: str, call: Call) -> Response | None:
    error = call.refusal(kind)
    if error is None:
        return None
    response = call.rejected(error)
    if kind == "throttled_hint":
        response.headers.update({"retry-after": str(_HINT), **call.cloud.hint(_HINT)})
    elif kind == "skewed_clock":
        response.headers["date"] = formatdate(call.now + _AHEAD, usegmt=True)
    return response


def _by_status(call: Call, fault: Fault, status: int) -> Response:
    """Return the response that the fault defines."""
    usual = call.rejected(call.usual(status))
    if fault.body is None:
        return usual
    response = Response(fault.body, status) if isinstance(fault.body, str) else JSONResponse(fault.body, status)
    for name, value in usual.headers.items():
        response.headers.setdefault(name, value)
    return response


def _quotes(request: ApiRequest) -> Iterator[str]:
    authorization = request.headers.get("authorization", "")
    if signed := string_to_sign(request):
        yield f"the Authorization value {authorization} does not match"
        yield f"server string to sign is:{signed}"
        yield json.dumps({"StringToSign": signed, "Authorization": authorization})
    secrets = [value for name, value in request.headers.items() if "token" in name and "ttl" not in name]
    found = _SIGNATURE.search(authorization)
    for secret in (*secrets, *([found[1]] if found else [])):
        yield f"got {secret}"
        yield f"got {quote(secret, safe='')}"
        yield base64.b64encode(f"user:{secret}".encode()).decode()
        yield f"got {secret[: max(16, len(secret) // 2)]}..."
    body = request.body.decode("utf-8", "replace")  # a password or an ID token of an unsigned request
    yield f"the body {body} of {request.method} {request.path}"
    if body:
        yield quote(body, safe="")
        yield base64.b64encode(request.body).decode()
