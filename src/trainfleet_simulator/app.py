"""The simulated clouds as one ASGI application: their signed APIs, `/truth` and `/faults`."""

from __future__ import annotations

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
        self.answers: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self.calls: dict[str, dict[str, Counter[str]]] = {}
        self.seq = 0

    def note(self, call: Call, reply: Reply) -> None:
        self.seq += 1
        answer = None if reply.fault else reply.answer
        outcome = reply.fault or str(reply.response.status_code)
        self.calls.setdefault(call.api, {}).setdefault(call.name, Counter())[outcome] += 1
        self.answers.append(
            {
                "seq": self.seq,
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
        kept = "kept" if connection is not None and connection.requests > 1 else "new"
        fault = self.faults.take({**call.facts, "api": call.api, "operation": call.name, "connection": kept})
        has_gone = bool(fault and fault.delay and connection and await connection.lost_within(fault.delay))
        call = replace(call, now=self._clock())
        reply = Reply(Response(status_code=504)) if has_gone else self.injector.reply(call, fault)
        reply.response.headers.setdefault("date", formatdate(call.now, usegmt=True))
        self.truth.note(call, reply)
        return reply.response

    async def _report(self, request: Request) -> Response:
        since = request.query_params.get("since", "0")
        if not since.isascii() or not since.isdigit():
            return PlainTextResponse("since is the number of an answer\n", 400)
        wanted, truth = request.query_params.get("operation", ""), self.truth
        answers = [one for one in truth.answers if one["seq"] > int(since) and wanted in {"", one["operation"]}]
        return JSONResponse({"now": self._clock(), "seq": truth.seq, "calls": truth.calls, "answers": answers})

    async def _set_faults(self, request: Request) -> Response:
        if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
            return PlainTextResponse("faults are set from this machine only\n", 403)
        try:
            self.faults.replace(msgspec.json.decode(await request.body(), type=list[Fault]))
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", 400)
        return JSONResponse({"faults": len(self.faults)})
