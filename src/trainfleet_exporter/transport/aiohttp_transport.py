"""An httpx transport over aiohttp: several times faster than httpx's own, and exact about what goes on the wire.

What it takes from a request's `extensions` is what httpx documents: `timeout`, `target` (the bytes of the request
target) and `trace` (told `http11.send_request_headers.complete`, the proof that there is a connection).
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx
import yarl

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.transport.aiohttp_errors import CAUGHT, reading_error, sending_error
from trainfleet_exporter.transport.calls import HttpSettings
from trainfleet_exporter.transport.proxies import UnusableProxy, proxy_for, without_user

# Shorter than the 15 s after which some cloud load balancers drop an idle connection, perhaps under a new request.
_KEEP_ALIVE = 10.0
_OUR_HEADERS_ONLY = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class AiohttpTransport(httpx.AsyncBaseTransport):
    """One connection pool. No cookies, no redirects, no decompression, no netrc, no silent second sending.

    StartError if `ca_file` cannot be used. Requests raise httpx errors only. Made anywhere, used in one loop.
    """

    def __init__(self, http: HttpSettings) -> None:
        self._http = http
        try:
            self._tls = _tls_context(http)
        except OSError as error:  # SSLError is one
            reason = "no certificates in it" if isinstance(error, ssl.SSLError) else error.strerror
            raise StartError(f"ca_file {http.ca_file}: {reason}") from error
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the response's stream gives the body as it is on the wire, and must be closed."""
        session = self._open()
        body = await request.aread()
        proxy: yarl.URL | None = None
        try:
            url = _wire_url(request)
            proxy, for_proxy = without_user(proxy_for(url, self._http))
            to_proxy = url.scheme == "https"  # by a tunnel, whose head is for the proxy alone
            answer = await session.request(
                request.method,
                url,
                headers=[
                    *((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw),
                    *(() if to_proxy else for_proxy.items()),
                ],
                data=body or None,
                allow_redirects=False,
                proxy=proxy,
                proxy_headers=for_proxy if to_proxy and for_proxy else None,
                timeout=self._timeout(request),
                trace_request_ctx=request.extensions.get("trace"),
            )
        except UnusableProxy as error:
            raise httpx.ProxyError(str(error), request=request) from None
        except CAUGHT as error:
            raise sending_error(error, proxied=proxy is not None) from None
        return httpx.Response(answer.status, headers=list(answer.raw_headers), stream=_Body(answer), request=request)

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise httpx.ReadError("the client has been closed")
        if self._session is None:
            traces = aiohttp.TraceConfig()
            traces.on_request_headers_sent.append(_tell_connected)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._tls,
                    limit=0,  # the limiter bounds concurrency, where deadlines are known
                    keepalive_timeout=_KEEP_ALIVE,
                    resolver=aiohttp.ThreadedResolver(),  # the system's: /etc/hosts, search domains
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_OUR_HEADERS_ONLY,
                trust_env=False,  # proxies.py reads the proxy variables; aiohttp would send what ~/.netrc holds, too
                middlewares=(_send_once,),
                trace_configs=[traces],
            )
        return self._session

    def _timeout(self, request: httpx.Request) -> aiohttp.ClientTimeout:
        settings: dict[str, Any] = request.extensions.get("timeout", {})
        connect = settings.get("connect", self._http.connect_timeout)
        return aiohttp.ClientTimeout(
            connect=connect,  # without a pool limit: DNS, TCP and TLS together
            sock_connect=connect,
            sock_read=settings.get("read", self._http.request_timeout),
            ceil_threshold=math.inf,  # else timeouts above 5 s are rounded up to whole seconds
        )


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = self._answer.content.iter_any()
        while True:
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except CAUGHT as error:
                raise reading_error(error) from None
            yield chunk

    async def aclose(self) -> None:
        self._answer.close()  # keeps the connection if the body was read to its end


def _tls_context(http: HttpSettings) -> ssl.SSLContext:
    """Certificates are verified, names are compared, and nothing turns that off. OSError for an unfit `ca_file`."""
    context = ssl.create_default_context(cafile=http.ca_file)
    # Named, since the machine's own settings for OpenSSL may allow less.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python writes every session's keys to the file that SSLKEYLOGFILE names; who has them can read the requests.
    context.keylog_filename = None  # type: ignore[assignment]  # what switches it off
    return context


def _wire_url(request: httpx.Request) -> yarl.URL:
    origin = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
    target: bytes = request.extensions.get("target", request.url.raw_path)
    return yarl.URL(origin + target.decode("ascii"), encoded=True)


async def _send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    # Left to itself, aiohttp sends a GET again when a kept connection breaks: a billed call that nobody counts, with
    # a nonce that the cloud has seen. An error that is not its own passes it by.
    try:
        return await send(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        converted = sending_error(error, proxied=request.proxy is not None)
        raise converted from None


async def _tell_connected(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    if context.trace_request_ctx is not None:
        await context.trace_request_ctx("http11.send_request_headers.complete", {})
