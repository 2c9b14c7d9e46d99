"""An httpx transport over aiohttp: several times faster than httpx's own. It sends the exact bytes of a request.

It reads the extension `target` of a request (the bytes of the request target).
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Callable

import aiohttp
import httpx
import yarl

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.transport.aiohttp_errors import CAUGHT, reading_error, sending_error
from trainfleet_exporter.transport.calls import HttpSettings
from trainfleet_exporter.transport.proxies import UnusableProxy, proxy_for, without_user

# Some load balancers of clouds drop an idle connection after 15 s, perhaps during a new request. This is shorter.
_KEEP_ALIVE = 10.0
_OUR_HEADERS_ONLY = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class AiohttpTransport(httpx.AsyncBaseTransport):
    """One connection pool, without cookies, redirects, decompression, netrc or silent retries.

    Raises StartError for an unusable `ca_file`. Requests raise httpx errors, and what `check` raises when a connection
    is there and nothing has been sent. Use it in one event loop.
    """

    def __init__(self, http: HttpSettings, check: Callable[[], None] = lambda: None) -> None:
        self._http, self._check = http, check
        try:
            self._tls = _tls_context(http)
        except OSError as error:  # SSLError is one
            reason = "no certificates in it" if isinstance(error, ssl.SSLError) else error.strerror
            raise StartError(f"ca_file {http.ca_file}: {reason}") from error
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._direct: set[str] = set()
        """Origins without a proxy. Kept, because reading the environment takes the time of a signature."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. The response's stream yields the body as received; the caller must close it."""
        session = self._open()
        proxy: yarl.URL | None = None
        try:
            origin = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
            target = request.extensions.get("target", request.url.raw_path).decode("ascii")
            url = yarl.URL(origin + target, encoded=True)
            proxy, for_proxy = without_user(self._proxy(origin, url))
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
            to_proxy = url.scheme == "https"  # by a tunnel: only the proxy gets its request head
            answer = await session.request(
                request.method,
                url,
                headers=headers if to_proxy or not for_proxy else [*headers, *for_proxy.items()],
                data=await request.aread() or None,
                allow_redirects=False,
                proxy=proxy,
                proxy_headers=for_proxy if to_proxy and for_proxy else None,
            )
        except UnusableProxy as error:
            raise httpx.ProxyError(str(error), request=request) from None
        except CAUGHT as error:
            raise sending_error(error, proxied=proxy is not None) from None
        return httpx.Response(answer.status, headers=list(answer.raw_headers), stream=_Body(answer), request=request)

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise httpx.ReadError("the client has been closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._tls,
                    limit=0,  # the limiter bounds concurrency and knows the deadlines
                    keepalive_timeout=_KEEP_ALIVE,
                    resolver=aiohttp.ThreadedResolver(),  # the system's resolver: /etc/hosts, search domains
                ),
                timeout=aiohttp.ClientTimeout(
                    connect=self._http.connect_timeout,  # without a pool limit: DNS, TCP and TLS together
                    sock_connect=self._http.connect_timeout,
                    sock_read=self._http.request_timeout,
                    ceil_threshold=math.inf,  # else timeouts above 5 s are rounded up to whole seconds
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_OUR_HEADERS_ONLY,
                trust_env=False,  # proxies.py reads the proxy variables; aiohttp would also send ~/.netrc
                request_class=_checked_by(self._check),
                middlewares=(_send_once,),
            )
        return self._session

    def _proxy(self, origin: str, url: yarl.URL) -> yarl.URL | None:
        if origin in self._direct:
            return None
        proxy = proxy_for(url, self._http)
        if proxy is None:
            self._direct.add(origin)
        return proxy


async def _send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request (a middleware of aiohttp's)."""
    # By default, aiohttp repeats a GET when a kept connection breaks: a billed call that nothing counts,
    # with a nonce that the cloud knows. It does not catch errors of other types.
    try:
        return await send(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise sending_error(error, proxied=request.proxy is not None) from None


def _checked_by(check: Callable[[], None]) -> type[aiohttp.ClientRequest]:
    class CheckedRequest(aiohttp.ClientRequest):
        async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            check()  # nothing is awaited between this and the first byte
            return await super().send(conn)

    return CheckedRequest


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = self._answer.content
        while True:
            try:
                chunk = await content.readany()
            except CAUGHT as error:
                raise reading_error(error) from None
            if not chunk:  # its end
                return
            yield chunk

    async def aclose(self) -> None:
        self._answer.close()  # keeps the connection if the client has read the whole body


def _tls_context(http: HttpSettings) -> ssl.SSLContext:
    """Return the TLS context, which always verifies certificates and names. Raise OSError for an unusable `ca_file`."""
    context = ssl.create_default_context(cafile=http.ca_file)
    # Set here, because the machine's settings for OpenSSL may allow older versions.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python writes every session's keys to the file that SSLKEYLOGFILE names. With these keys, requests can be read.
    context.keylog_filename = None  # type: ignore[assignment]  # what switches it off
    return context
