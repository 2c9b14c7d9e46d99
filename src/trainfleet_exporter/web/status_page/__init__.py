"""The status page at `/`, for a person on call who has five seconds.

    page store ──objects──► Fleet ────────────┐
                                              ├── View ── page.html.jinja ──► the page, kept for a second
    telemetry ──states, calls─────────────────┘

A request for it calls no cloud and waits for no poll. Work on the event loop is done in slices of about a millisecond.
The page has a bounded number of rows.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from pathlib import Path
from time import perf_counter

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

import trainfleet_exporter
from trainfleet_exporter.model import Status
from trainfleet_exporter.process.yielding import yield_to_loop
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.status_page import words
from trainfleet_exporter.web.status_page.figures import IDLE_RATIO, Fleet, Health, read_fleet, read_providers
from trainfleet_exporter.web.status_page.view import ROWS, View

REFRESH_SECONDS = 30
"""How often a browser loads the page again."""
_KEPT_SECONDS = 1.0
"""Seconds to reuse a response. Nothing on the page changes faster, and many readers cost the same as one."""
_SLICE_SECONDS = 0.001
"""Seconds of work after which other tasks of the event loop run."""
_RECENT_SECONDS = 3600.0
"""Seconds that the last error of a working collector stays on the page."""

_FOLDER = Path(__file__).parent
_STYLE = (_FOLDER / "style.css").read_text(encoding="utf-8")
_STYLE_HASH = f"sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}"

_PAGE_HEADERS = {
    # Allow only the page itself and no script; the icon is in the page.
    "content-security-policy": f"default-src 'none'; style-src '{_STYLE_HASH}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""There is no ETag: a page that may not be stored cannot be revalidated."""

_environment = Environment(
    autoescape=True,
    undefined=StrictUndefined,
    finalize=lambda value: "" if value is None else words.harmless(value),
)
_environment.filters |= {
    "ago": words.ago,
    "amount": words.amount,
    "cut": words.cut,
    "percent": words.percent,
    "several": words.several,
    "span": words.span,
    "utc": words.utc,
}
_environment.globals = {
    "Health": Health,
    "idle_ratio": IDLE_RATIO,
    "recent_seconds": _RECENT_SECONDS,
    "refresh_seconds": REFRESH_SECONDS,
    "rows": ROWS,
    "statuses": list(Status),
    "style": Markup(_STYLE),  # noqa: S704 - a file of this package
    "version": trainfleet_exporter.__version__,
}
_template = _environment.from_string(re.sub(r"\n\s*", "", (_FOLDER / "page.html.jinja").read_text(encoding="utf-8")))


class StatusPage:
    """The endpoint. Belongs to one event loop."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._rendering = asyncio.Lock()
        self._body = b""
        self._rendered_at = float("-inf")
        self._fleet = Fleet()
        self._fleet_of: tuple[int, tuple[str, ...]] | None = None
        """The store's change, and the globs of `metrics.deny`, that it was made for."""

    async def answer(self, _: Request) -> Response:
        """Answer a request with the page."""
        loop = asyncio.get_running_loop()
        async with self._rendering:
            if loop.time() - self._rendered_at >= _KEPT_SECONDS:
                self._body = await self._render()
                self._rendered_at = loop.time()
        return HTMLResponse(self._body, headers=_PAGE_HEADERS)

    async def _render(self) -> bytes:
        store, telemetry, denied = self._pages.page_store, self._pages.telemetry, tuple(self._pages.denied())
        fleet_of = store.changes, denied
        if self._fleet_of != fleet_of:
            self._fleet = await read_fleet(store.objects(), denied)
            self._fleet_of = fleet_of
        now = time.time()
        providers = read_providers(telemetry, self._pages.last_errors(), now)
        view = View(self._fleet, providers, telemetry.started, telemetry.reload_failed, telemetry.config_loaded)
        pieces: list[str] = []
        began = perf_counter()
        for piece in _template.generate(
            view=view,
            fleet=self._fleet,
            now=now,
            metrics_path=self._pages.telemetry_path,
            notice=self._pages.notice(),
        ):
            pieces.append(piece)
            if perf_counter() - began >= _SLICE_SECONDS:
                await yield_to_loop()
                began = perf_counter()
        return "".join(pieces).encode()
