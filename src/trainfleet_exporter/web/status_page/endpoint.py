"""Answering for `/`: the page with its headers, made at most once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from trainfleet_exporter.page import PageStore
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.status_page.fleet import Fleet, read_fleet
from trainfleet_exporter.web.status_page.own import LastError, read_own
from trainfleet_exporter.web.status_page.page import STYLE_HASH, Page

_KEPT_SECONDS = 1.0
"""How long an answer is given again as it is: nothing on it changes faster, and many readers cost as much as one."""

HEADERS = {
    # Not one byte but the page itself, and nothing in it that runs; the icon is in the page.
    "content-security-policy": f"default-src 'none'; style-src '{STYLE_HASH}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""No ETag: what may not be stored cannot be asked for again, and the page tells when it was made, so it never stays."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the page has its figures from. `last_errors` are by provider and collector, `denied` is `metrics.deny`."""

    page_store: PageStore
    telemetry: Telemetry
    last_errors: Callable[[], Mapping[tuple[str, str], LastError | None]]
    denied: Callable[[], Sequence[str]]
    telemetry_path: str
    notice: str


class StatusPage:
    """The endpoint. Belongs to one event loop."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._making = asyncio.Lock()
        self._body = b""
        self._made_at: float | None = None
        self._fleet = Fleet()
        self._fleet_of: int | None = None
        """The number of the page that it was read from."""
        self._denied: Sequence[str] = ()

    async def answer(self, _: Request) -> Response:
        """The page."""
        async with self._making:
            now = asyncio.get_running_loop().time()
            if self._made_at is None or now - self._made_at >= _KEPT_SECONDS:
                self._body = await self._make()
                self._made_at = asyncio.get_running_loop().time()
        return HTMLResponse(self._body, headers=HEADERS)

    async def _make(self) -> bytes:
        sources = self._sources
        metrics, denied = sources.page_store.page(), tuple(sources.denied())
        if self._fleet_of != metrics.number or self._denied != denied:
            self._fleet = await read_fleet(metrics, denied)
            self._fleet_of, self._denied = metrics.number, denied
        own = await read_own(sources.telemetry, sources.last_errors())
        page = Page(own, self._fleet, time.time(), sources.telemetry_path, sources.notice)
        return (await page.markup()).encode()
