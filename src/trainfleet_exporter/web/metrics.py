"""/metrics: the newest page, and after it the exporter's own metrics of this moment."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from trainfleet_exporter.page import Format, PageStore, accepts_gzip, choose
from trainfleet_exporter.page.blocks import CHUNK_BYTES
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.connection import abort_of
from trainfleet_exporter.web.readers import ALLOWANCE, Readers

_TLS_STEP = CHUNK_BYTES // 4
"""Bytes written at a time to a connection with TLS, which holds what it has not sent some four times: together 1 MB."""


class MetricsEndpoint:
    """A bare ASGI app: the body is joined as it is sent, never as one copy. What is sent is let go of.

    There is no ETag: the exporter's own metrics (its CPU time, for one) differ with every scrape, so that no scraper
    could ever learn that nothing has changed; and Prometheus asks for none.
    """

    def __init__(self, page_store: PageStore, telemetry: Telemetry, allowance: int = ALLOWANCE) -> None:
        """`allowance` is how many bytes of memory slow clients may keep in use for old pages."""
        self._page_store = page_store
        self._telemetry = telemetry
        self._readers = Readers(allowance)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Headers(scope=scope)
        chosen = choose(", ".join(asked.getlist("accept")))
        zipped = accepts_gzip(", ".join(asked.getlist("accept-encoding")))
        headers = [(b"content-type", chosen.content_type.encode()), (b"vary", b"Accept, Accept-Encoding")]
        if zipped:
            headers.append((b"content-encoding", b"gzip"))
        page = self._page_store.page()
        own = self._telemetry.exposition(openmetrics=chosen is Format.OPENMETRICS, standings=page.standings)
        body = page.body(chosen, own, gzip=zipped)
        headers.append((b"content-length", b"%d" % body.size))
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body"})
            return
        step = _TLS_STEP if scope["scheme"] == "https" else CHUNK_BYTES
        with self._readers.answer(page, body, abort_of(scope), step) as answer:
            del page, body, own  # else a slow reader would keep all of it
            await send(start)
            for written in answer:
                await send({"type": "http.response.body", "body": written, "more_body": True})
            if not answer.is_cut_off:
                await send({"type": "http.response.body"})
