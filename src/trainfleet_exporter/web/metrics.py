"""/metrics: a page as it is kept, and after it what the exporter says about itself."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from trainfleet_exporter.exposition import Board, Format, accepts_gzip, body, choose
from trainfleet_exporter.exposition.piece import PIECE_LIMIT
from trainfleet_exporter.slices import answering
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.connection import abort_of
from trainfleet_exporter.web.readers import ALLOWANCE, Readers

_TLS_STEP = PIECE_LIMIT // 4
"""Bytes written at a time to a connection with TLS, which holds what it has not sent some four times: together 1 MB."""


class MetricsEndpoint:
    """A bare ASGI app: the body leaves in the pieces that it is kept in, never as one copy. What is sent is let go of.

    There is no ETag: the exporter's own metrics (its CPU time, for one) differ with every scrape, so that no scraper
    could ever be told that nothing has changed; and Prometheus asks for none.
    """

    def __init__(self, board: Board, telemetry: Telemetry, allowance: int = ALLOWANCE) -> None:
        """`allowance` is how many bytes of memory slow clients may keep in use for pages that are no more."""
        self._board = board
        self._telemetry = telemetry
        self._readers = Readers(allowance)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with answering():
            await self._answer(scope, send)

    async def _answer(self, scope: Scope, send: Send) -> None:
        asked = Headers(scope=scope)
        chosen = choose(", ".join(asked.getlist("accept")))
        zipped = accepts_gzip(", ".join(asked.getlist("accept-encoding")))
        headers = [(b"content-type", chosen.content_type.encode()), (b"vary", b"Accept, Accept-Encoding")]
        if zipped:
            headers.append((b"content-encoding", b"gzip"))
        is_head = scope["method"] == "HEAD"
        if is_head and zipped:
            # The length is known only to who has deflated it all: RFC 9110 (8.6) lets HEAD leave it out.
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body"})
            return
        page = self._board.page()
        own = self._telemetry.exposition(openmetrics=chosen is Format.OPENMETRICS, standings=page.beside)
        step = _TLS_STEP if scope["scheme"] == "https" else PIECE_LIMIT
        with self._readers.answer(page, abort_of(scope), step) as answer:
            pieces = await body(page, chosen, gzip=zipped, extra=own)
            headers.append((b"content-length", b"%d" % sum(map(len, pieces))))
            if not is_head:
                self._readers.give(answer, pieces, chosen)
            del page, pieces, own  # else a slow reader would keep all of it
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for piece in answer:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if not answer.is_cut_off:
                await send({"type": "http.response.body"})
