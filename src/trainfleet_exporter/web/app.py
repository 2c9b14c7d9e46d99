"""The endpoints: /metrics, the status page, health, readiness, the running config, and its reload.

None of them calls a cloud or waits for a poll: they show the newest page and its standing. /metrics is the newest page,
followed by the exporter's own metrics, which are at most a second old. A slow client keeps in memory what it has not
read of its page, although a newer page is published: together, slow clients may keep as many bytes as a limit allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainfleet_exporter.exposition import Format, MetricsPage, PageStore, accepts_gzip, choose, chunks
from trainfleet_exporter.lease import Role
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.server import SECURITY_HEADERS, OnceAMinute, abort_of, with_headers
from trainfleet_exporter.web.status_page import StatusPage

log = logging.getLogger(__name__)

OLD_PAGES_BYTES = 64 << 20
"""The memory limit of old pages, or the size of a page if it is larger: one old page is always kept."""
_OWN_SECONDS = 1.0
"""Seconds to reuse the text of the exporter's own metrics."""
_NOTHING: Message = {"type": "http.response.body", "body": b"", "more_body": True}


class MetricsEndpoint:
    """A bare ASGI app: it joins the body as it sends it, never as one copy, and frees what is sent.

    There is no ETag: the exporter's own metrics (its CPU time, for one) differ with every scrape, so an answer could
    never be "not modified"; and Prometheus does not ask for it.
    """

    def __init__(self, page_store: PageStore, telemetry: Telemetry, old_pages_bytes: int = OLD_PAGES_BYTES) -> None:
        self._page_store = page_store
        self._telemetry = telemetry
        self._old_pages_bytes = old_pages_bytes
        self._answers: dict[object, tuple[int, Callable[[], None]]] = {}
        """Of each response in progress the number of its page, and what closes its connection."""
        self._closed = OnceAMinute()
        self._own: dict[Format, tuple[float, object, bytes]] = {}
        """By format, when the text of the own metrics was made, its standing, and the text."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Headers(scope=scope)
        chosen = choose(", ".join(request.getlist("accept")))
        is_gzip = accepts_gzip(", ".join(request.getlist("accept-encoding")))
        headers = [(b"content-type", chosen.content_type.encode()), (b"vary", b"Accept, Accept-Encoding")]
        if is_gzip:
            headers.append((b"content-encoding", b"gzip"))
        page = self._page_store.page()
        body = page.body(chosen, self._own_text(chosen, page), gzip=is_gzip)
        headers.append((b"content-length", b"%d" % body.size))
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body"})
            return
        self._limit_old_pages(page)
        key, rest = object(), chunks(_texts(deque(body.units), body.own))
        self._answers[key] = page.number, abort_of(scope)
        del page, body  # else a slow reader would keep all of it
        try:
            await send(start)
            while key in self._answers and (chunk := next(rest, b"")):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                del chunk
                await send(_NOTHING)  # waits until the client has read: only then is the next chunk made
            if key in self._answers:
                await send({"type": "http.response.body"})
        finally:
            self._answers.pop(key, None)

    def _own_text(self, fmt: Format, page: MetricsPage) -> bytes:
        now = asyncio.get_running_loop().time()
        at, standing, text = self._own.get(fmt, (0.0, None, b""))
        if standing is not page.standing or now - at >= _OWN_SECONDS:
            text = self._telemetry.exposition(fmt, page.standing)
            self._own[fmt] = now, page.standing, text
        sealed: Mapping[Format, bytes] = page.standing.sealed
        return sealed.get(fmt, text)  # looked at last: a reload may have begun meanwhile

    def _limit_old_pages(self, newest: MetricsPage) -> None:
        """Abort the responses of the oldest pages, so that those of other old pages keep at most the limit."""
        size = sum(block.size for block in newest.families.values())
        most = max(1, self._old_pages_bytes // max(1, size))
        old = sorted({page for page, _ in self._answers.values() if page < newest.number})
        aborted = [key for key, (page, _) in self._answers.items() if page in old[:-most]]
        for key in aborted:
            _, abort = self._answers.pop(key)
            abort()
        if aborted and self._closed.due():
            facts = fields(connections=len(aborted))
            log.warning("closed connections of slow clients: old pages take too much memory", extra=facts)


def _texts(units: deque[tuple[bytes, ...]], own: Iterable[bytes]) -> Iterator[bytes]:
    """Give all texts of a body, and free each block when it is sent."""
    while units:
        yield from units.popleft()
    yield from own


def make_app(pages: Pages) -> ASGIApp:
    """Return the ASGI application. It answers GET and HEAD, and POST and PUT for the reload."""

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("trainfleet-exporter is healthy.\n")

    async def ready(_: Request) -> Response:
        standing = pages.page_store.page().standing
        if standing.role is Role.UNDECIDED:
            return PlainTextResponse("waiting for the lease, or for an exporter that holds it\n", status_code=503)
        if standing.role is Role.STANDBY and not standing.may_take:
            return PlainTextResponse("on standby, and cannot take the lease; see the log\n", status_code=503)
        if standing.role is Role.STANDBY:
            return PlainTextResponse("trainfleet-exporter is ready and stands by.\n")
        if standing.waiting:  # otherwise the page has what the first polls found
            waiting = ", ".join(standing.waiting)
            return PlainTextResponse(f"waiting for the first poll of: {waiting}\n", status_code=503)
        return PlainTextResponse("trainfleet-exporter is ready.\n")

    async def config(_: Request) -> Response:
        return PlainTextResponse(pages.page_store.page().standing.config_text())

    async def reload(request: Request) -> Response:
        if pages.reload is None:
            return PlainTextResponse("Lifecycle API is not enabled.\n", status_code=403)
        if _comes_from_elsewhere(request):
            return PlainTextResponse("Requests from pages of other sites are rejected.\n", status_code=403)
        outcome = await pages.reload()
        return PlainTextResponse(outcome.text, status_code=200 if outcome.success else 500)

    starlette = Starlette(
        routes=[
            Route(pages.telemetry_path, MetricsEndpoint(pages.page_store, pages.telemetry), methods=["GET", "HEAD"]),
            Route("/", StatusPage(pages).answer),
            Route("/-/healthy", healthy),
            Route("/-/ready", ready),
            Route("/config", config),
            Route("/-/reload", reload, methods=["POST", "PUT"]),
        ]
    )
    starlette.router.redirect_slashes = False  # else `/metrics/` redirects to the host that the request names
    return with_headers(starlette, SECURITY_HEADERS)


def _comes_from_elsewhere(request: Request) -> bool:
    """Return whether a browser sends the request for a page of another site; other clients send no origin."""
    origin = request.headers.get("origin")
    elsewhere = origin is not None and origin.partition("://")[2] != request.headers.get("host", "")
    return elsewhere or request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
