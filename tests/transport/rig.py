"""A dialect, transports with mocks behind them, and a loopback server that sends given bytes."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.transport import (
    Account,
    Attempt,
    Call,
    CallLimits,
    HttpAnswer,
    HttpSettings,
    SignedRequest,
    Transport,
)

HOST = "api.test"
JSON_OK = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"Jobs":[]}'


class EchoDialect:
    """Signs with a running number and judges by the HTTP status alone; `Retry-After` is in seconds."""

    api = "dlc"

    def __init__(self) -> None:
        self.signed: list[str] = []
        self.hosts: list[str] = []
        self.target: str | None = None
        self.refusal: CloudError | None = None
        self.prepared = 0
        self.outdated: set[object] = set()

    async def prepare(self, call: Call, deadline: float) -> object:
        self.prepared += 1
        return self.prepared

    def refused(self, error: AccessDenied, mark: object) -> bool:
        return mark in self.outdated

    def sign(self, call: Call, host: str) -> SignedRequest:
        if self.refusal is not None:
            raise self.refusal
        self.hosts.append(host)
        self.signed.append(f"signature-{len(self.signed) + 1}")
        headers = {"Host": host, "Authorization": self.signed[-1]}
        return SignedRequest(call.method, self.target or call.path, headers, call.body)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        hint = answer.headers.get("retry-after")
        retry_after = float(hint) if hint else None
        match answer.status:
            case 429:
                return Throttled("too many requests", status=429, retry_after=retry_after)
            case 401 | 403:
                return AccessDenied("no permission", status=answer.status)
            case 404:
                return NotFound("no such job", status=404)
            case status if status >= 500:
                return ServerTrouble("the service failed", status=status, retry_after=retry_after)
            case status if status >= 400:
                return RequestRefused("bad parameter", status=status)
        return None


class TopJitter(random.Random):
    """Jitter that always waits its longest, so that times in tests are exact."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Rig:
    """One transport with one client, and what was observed. `answer` stands for the network unless it is None."""

    def __init__(
        self,
        answer: Callable[[httpx.Request], Any] | None = None,
        *,
        base_url: str = f"http://{HOST}",
        limits: CallLimits | None = None,
        http: HttpSettings | None = None,
        account: Account | None = None,
    ) -> None:
        self.attempts: list[Attempt] = []
        self.dialect = EchoDialect()
        self.transport = Transport(
            account=account or Account("test", limits or CallLimits(requests_per_second=1000, concurrency=100)),
            http=http or HttpSettings(trust_env=False),
            observe=self.attempts.append,
            send=None if answer is None else httpx.MockTransport(answer),
            random=TopJitter(),
        )
        self.client = self.transport.client(base_url, self.dialect)

    async def __aenter__(self) -> Rig:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.transport.aclose()

    async def call(self, operation: str = "ListJobs", *, within: float = 60, **settings: Any) -> Any:
        call = Call(operation=operation, path="/api/v1/jobs", **settings)
        return await self.client.call(call, deadline=asyncio.get_running_loop().time() + within)

    async def failure(self, operation: str = "ListJobs", *, within: float = 60, **settings: Any) -> CloudError:
        """The error that a call ends with."""
        try:
            payload = await self.call(operation, within=within, **settings)
        except CloudError as error:
            return error
        raise AssertionError(f"the call succeeded: {payload!r}")

    @property
    def outcomes(self) -> list[str]:
        return [attempt.outcome for attempt in self.attempts]


class Script:
    """Answers the n-th request by the n-th item, the last one again and again; notes when each came."""

    def __init__(self, *items: int | httpx.Response | Exception) -> None:
        self._items = list(items)
        self.times: list[float] = []
        self.requests: list[httpx.Request] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.times.append(asyncio.get_running_loop().time())
        self.requests.append(request)
        item = self._items.pop(0) if len(self._items) > 1 else self._items[0]
        if isinstance(item, Exception):
            raise item
        return json_answer(item) if isinstance(item, int) else item


def json_answer(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"Jobs": []}, headers={k.replace("_", "-"): v for k, v in headers.items()})


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """What a loopback server was sent: the head of each request, and how many connections were made."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.heads: list[bytes] = []
        self.connections = 0


@asynccontextmanager
async def raw_server(serve: Serve | bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A server on loopback; `serve` acts on each connection after the head of a request, or is the answer itself."""
    # Named TCP, or asyncio leaves Nagle's algorithm on: 40 ms of silence, in which a stepped clock jumps.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    server = RawServer(f"127.0.0.1:{listening.getsockname()[1]}")
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        try:
            while head := await _head(reader):
                server.heads.append(head)
                if isinstance(serve, bytes):
                    writer.write(serve)
                    await writer.drain()
                else:
                    await serve(reader, writer)
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(connected, sock=listening, ssl=tls)
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


async def _head(reader: asyncio.StreamReader) -> bytes:
    with suppress(asyncio.IncompleteReadError):
        return await reader.readuntil(b"\r\n\r\n")
    return b""


def answering(data: bytes) -> Serve:
    """Send so much and close the connection."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return serve


def resetting(data: bytes = b"") -> Serve:
    """Send so much and reset the connection."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.01)  # the data must be read before the reset overtakes it
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return serve


def hanging(data: bytes = b"") -> Serve:
    """Send so much and then nothing more."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(3600)

    return serve


def http(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def now() -> float:
    return asyncio.get_running_loop().time()
