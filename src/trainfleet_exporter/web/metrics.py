"""/metrics: the newest page, followed by the exporter's own metrics of this moment; and a memory limit for old pages.

A slow client keeps in memory what it has not read of its page, although a newer page is published. Several clients that
came at different times keep several pages. Together they may keep as many bytes as the limit allows. Beyond that, the
exporter closes the connections of those with the oldest pages.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from trainfleet_exporter.page import Body, Format, MetricsPage, PageStore, accepts_gzip, choose, chunks
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.connection import abort_of

log = logging.getLogger(__name__)

OLD_PAGES_BYTES = 64 << 20
"""The memory limit of old pages, or the size of a page if it is larger. So the exporter always keeps one old page for
its readers."""


class MetricsEndpoint:
    """A bare ASGI app: it joins the body as it sends it, never as one copy, and frees what is sent.

    There is no ETag: the exporter's own metrics (its CPU time, for one) differ with every scrape, so an answer could
    never be "not modified"; and Prometheus does not ask for it.
    """

    def __init__(self, page_store: PageStore, telemetry: Telemetry, old_pages_bytes: int = OLD_PAGES_BYTES) -> None:
        """`old_pages_bytes` is how much memory slow clients may keep in use for old pages."""
        self._page_store = page_store
        self._telemetry = telemetry
        self._slow_clients = SlowClientLimit(old_pages_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Headers(scope=scope)
        chosen = choose(", ".join(request.getlist("accept")))
        is_gzip = accepts_gzip(", ".join(request.getlist("accept-encoding")))
        headers = [(b"content-type", chosen.content_type.encode()), (b"vary", b"Accept, Accept-Encoding")]
        if is_gzip:
            headers.append((b"content-encoding", b"gzip"))
        page = self._page_store.page()
        own = self._telemetry.exposition(openmetrics=chosen is Format.OPENMETRICS, standings=page.standings)
        body = page.body(chosen, own, gzip=is_gzip)
        headers.append((b"content-length", b"%d" % body.size))
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body"})
            return
        with self._slow_clients.answer(page, body, abort_of(scope)) as answer:
            del page, body, own  # else a slow reader would keep all of it
            await send(start)
            for chunk in answer:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if not answer.is_aborted:
                await send({"type": "http.response.body"})


class Answer:
    """An answer under way. Iterating gives the rest of its body in chunks of at most CHUNK_BYTES, and frees each
    block when it is sent; it ends early if the answer is aborted."""

    def __init__(self, page: int, body: Body, abort: Callable[[], None]) -> None:
        self.page = page
        """The number of its page: a higher one is newer."""
        self.rest = deque(body.units)
        """The blocks of the page that are not sent yet."""
        self._own = body.own
        self.is_aborted = False
        self._abort = abort

    def __iter__(self) -> Iterator[bytes]:
        for chunk in chunks(self._texts()):
            yield chunk
            if self.is_aborted:
                return

    def _texts(self) -> Iterator[bytes]:
        while self.rest:
            yield from self.rest[0]
            if self.rest:  # else it was aborted
                self.rest.popleft()
        if not self.is_aborted:
            yield from self._own

    def abort(self) -> None:
        """Free the rest of the body, and close the connection."""
        self.is_aborted = True
        self.rest.clear()
        self._abort()


class SlowClientLimit:
    """The answers under way, and the limit of what they keep of old pages. Belongs to one event loop."""

    def __init__(self, old_pages_bytes: int = OLD_PAGES_BYTES) -> None:
        self._old_pages_bytes = old_pages_bytes
        self._answers: dict[Answer, None] = {}
        self._is_exceeded = False

    @contextmanager
    def answer(self, page: MetricsPage, body: Body, abort: Callable[[], None]) -> Iterator[Answer]:
        """An answer that lasts as long as the context; others may be aborted for it. `page` is the newest one, of which
        this is the body; `abort` closes its connection."""
        answer = Answer(page.number, body, abort)
        self._answers[answer] = None
        self._enforce(page)
        del page, body  # which the context would keep until its end
        try:
            yield answer
        finally:
            del self._answers[answer]

    def _enforce(self, newest: MetricsPage) -> None:
        """Abort the responses of the oldest pages, so that the others keep at most the limit."""
        old = [answer for answer in self._answers if answer.page < newest.number]
        if not old:
            self._is_exceeded = False
            return
        # By identity: blocks that did not change are the same on every page.
        blocks = [*newest.families.values(), *(block for heads in newest.heads.values() for block in heads.values())]
        counted = {_identity(unit) for block in blocks for unit in (block.texts, (block.deflated,))}
        limit = max(self._old_pages_bytes, sum(block.size for block in newest.families.values()))
        kept = 0
        aborted: list[Answer] = []
        for answer in sorted(old, key=lambda answer: -answer.page):
            for unit in answer.rest:
                if _identity(unit) not in counted:
                    counted.add(_identity(unit))
                    kept += sum(map(len, unit))
            if kept > limit and answer.rest:
                aborted.append(answer)
        if aborted and not self._is_exceeded:
            self._is_exceeded = True
            facts = fields(connections=len(aborted))
            log.warning("closed connections of slow clients: old pages take too much memory", extra=facts)
        for answer in aborted:
            answer.abort()


def _identity(unit: tuple[bytes, ...]) -> int:
    """The same for the same texts; a tuple of one may have been made for its answer alone."""
    return id(unit[0]) if len(unit) == 1 else id(unit)
