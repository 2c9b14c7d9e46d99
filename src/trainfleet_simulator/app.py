"""The simulated clouds as one ASGI application: their signed APIs, `/truth` and `/faults`."""

from __future__ import annotations

import asyncio
import ipaddress
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from trainfleet_simulator.exchange import ApiRequest, Call, Cloud
from trainfleet_simulator.faults import Fault, Faults
from trainfleet_simulator.injection import FaultInjector, Reply
from trainfleet_simulator.listener import connection_of

_KEPT = 3000


class Truth:
    """Counts all calls, and keeps the last few thousand responses."""

    def __init__(self) -> None:
        self._answers: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._calls: dict[str, dict[str, Counter[str]]] = {}
        self._seq = 0

    def note(self, call: Call, reply: Reply) -> None:
        """Record one response."""
        self._seq += 1
        answer = None if reply.fault else reply.answer
        outcome = reply.fault or str(reply.response.status_code)
        self._calls.setdefault(call.api, {}).setdefault(call.name, Counter())[outcome] += 1
        self._answers.append(
            {
                "seq": self._seq,
                "time": call.now,
                "api": call.api,
                "operation": call.name,
                "outcome": outcome,
                "request_id": call.request_id,
                "query": dict(call.facts),
                "total": None if answer is None else answer.total,
                "rows": [] if answer is None else answer.rows,
                **({"fault": reply.fault} if reply.fault else {}),
            }
        )

    def show(self, now: float, *, since: int = 0, operation: str = "") -> dict[str, Any]:
        """Return the whole log, with only the responses after `since` and of one operation."""
        answers = [
            answer for answer in self._answers if answer["seq"] > since and operation in {"", answer["operation"]}
        ]
        return {"now": now, "seq": self._seq, "calls": self._calls, "answers": answers}


class CloudApp:
    """Passes requests to the clouds, and records their responses. The last cloud gets requests that no cloud takes."""

    def __init__(self, clouds: Sequence[Cloud], clock: Callable[[], float]) -> None:
        self.truth = Truth()
        self.faults = Faults(clock)
        self.injector = FaultInjector()
        self._clouds = clouds
        self._clock = clock
        self.asgi = Starlette(
            routes=[
                Route("/truth", self._report, methods=["GET"]),
                Route("/faults", self._set_faults, methods=["POST"]),
                Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT", "DELETE"]),
            ]
        )

    async def _serve(self, request: Request) -> Response:
        received = ApiRequest(
            method=request.method,
            path=request.scope["raw_path"].decode("latin-1").partition("?")[0],
            query=parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True),
            headers={name: ",".join(request.headers.getlist(name)) for name in request.headers},
            body=await request.body(),
        )
        cloud = next((cloud for cloud in self._clouds if cloud.takes(received)), self._clouds[-1])
        call = cloud.call(received, self._clock(), str(uuid.uuid4()).upper())
        connection = connection_of(request.scope)
        kept = "kept" if connection is not None and connection.is_kept else "new"
        fault = self.faults.take({**call.facts, "api": call.api, "operation": call.name, "connection": kept})
        waited = fault is None or await _wait(request, fault.delay)
        call = replace(call, now=self._clock())
        reply = self.injector.reply(call, fault) if waited else Reply(Response(status_code=504))
        reply.response.headers.setdefault("date", formatdate(call.now, usegmt=True))
        self.truth.note(call, reply)
        return reply.response

    async def _report(self, request: Request) -> Response:
        since = request.query_params.get("since", "0")
        if not since.isascii() or not since.isdigit():
            return PlainTextResponse("since is the number of an answer\n", 400)
        operation = request.query_params.get("operation", "")
        return JSONResponse(self.truth.show(self._clock(), since=int(since), operation=operation))

    async def _set_faults(self, request: Request) -> Response:
        if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
            return PlainTextResponse("faults are set from this machine only\n", 403)
        try:
            self.faults.replace(msgspec.json.decode(await request.body(), type=list[Fault]))
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", 400)
        return JSONResponse({"faults": len(self.faults)})


async def _wait(request: Request, seconds: float) -> bool:
    """Wait so many seconds; return False if the client has gone in that time."""
    if not seconds:
        return True
    connection = connection_of(request.scope)
    if connection is not None:
        return not await connection.lost_within(seconds)
    await asyncio.sleep(seconds)
    return True
