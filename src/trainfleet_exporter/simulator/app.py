"""The simulated clouds as one ASGI application: their signed APIs, and beside them `/truth` and `/faults`."""

from __future__ import annotations

import asyncio
import ipaddress
import uuid
from collections.abc import Callable, Sequence
from email.utils import formatdate
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from trainfleet_exporter.simulator.exchange import Answer, ApiError, Asked, Cloud, Named
from trainfleet_exporter.simulator.faults import Fault, Faults
from trainfleet_exporter.simulator.truth import Truth, outcome_of


class CloudApp:
    """Hands requests to the clouds, and writes down what they said. A request that nobody takes goes to the last."""

    def __init__(self, clouds: Sequence[Cloud], clock: Callable[[], float]) -> None:
        self.truth = Truth()
        self.faults = Faults()
        self._clouds = clouds
        self._clock = clock
        self.asgi = Starlette(
            routes=[
                Route("/truth", self._tell, methods=["GET"]),
                Route("/faults", self._set_faults, methods=["POST"]),
                Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT", "DELETE"]),
            ]
        )

    async def _serve(self, request: Request) -> Response:
        asked = Asked(
            method=request.method,
            path=request.scope["raw_path"].decode("latin-1").partition("?")[0],
            query=parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True),
            headers={name: ",".join(request.headers.getlist(name)) for name in request.headers},
            body=await request.body(),
        )
        cloud = next((cloud for cloud in self._clouds if cloud.takes(asked)), self._clouds[-1])
        named = cloud.name(asked)
        fault = self.faults.take({**named.about, "api": named.api, "operation": named.operation})
        if fault is not None and fault.delay:
            await asyncio.sleep(fault.delay)
        request_id = str(uuid.uuid4()).upper()
        answer: Answer | None = None
        if fault is not None and fault.status is not None:
            response, code = _broken(fault, fault.status, cloud, (asked, named, request_id))
        else:
            try:
                answer = cloud.answer(asked, named, self._clock())
            except ApiError as error:
                response, code = cloud.refuse(error, asked, named, request_id), error.code
            else:
                response, code = cloud.respond(answer, request_id), ""
        response.headers.setdefault("date", formatdate(self._clock(), usegmt=True))
        self.truth.note(
            at=self._clock(),
            api=named.api,
            operation=named.operation,
            outcome="no_data" if answer is not None and answer.no_data else outcome_of(response.status_code, code),
            request_id=request_id,
            query=named.about,
            total=None if answer is None else answer.total,
            rows=[] if answer is None else answer.rows,
        )
        return response

    async def _tell(self, request: Request) -> Response:
        since = request.query_params.get("since", "0")
        if not since.isascii() or not since.isdigit():
            return PlainTextResponse("since is the number of an answer\n", 400)
        operation = request.query_params.get("operation", "")
        return JSONResponse(self.truth.tell(self._clock(), since=int(since), operation=operation))

    async def _set_faults(self, request: Request) -> Response:
        if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
            return PlainTextResponse("faults are set from this machine only\n", 403)
        try:
            given = await request.json()
            if not isinstance(given, list):
                raise ValueError("a list of faults is wanted")
            self.faults.replace([Fault.of(item) for item in given])
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", 400)
        return JSONResponse({"faults": len(self.faults)})


def _broken(fault: Fault, status: int, cloud: Cloud, call: tuple[Asked, Named, str]) -> tuple[Response, str]:
    """The answer that a fault asks for, and its error code."""
    error = cloud.usual(status)
    usual = cloud.refuse(error, *call)
    if fault.body is None:
        code, response = error.code, usual
    else:
        if isinstance(fault.body, str):
            code, response = "", Response(fault.body, status)
        else:
            code, response = cloud.code(fault.body), JSONResponse(fault.body, status)
        for name, value in usual.headers.items():
            response.headers.setdefault(name, value)
    response.headers.update(fault.headers)
    return response, code
