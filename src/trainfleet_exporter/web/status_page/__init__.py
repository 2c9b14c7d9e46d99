"""The status page at `/`, for a person on call who has five seconds.

    newest page ──objects──► Fleet ────┐
         │                             ├── View ── page.html.jinja ──► the page, kept for a second
         └──standing───────────────────┘

A request for it calls no cloud and waits for no poll. The page is made in a thread, and has a bounded number of rows.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

import trainfleet_exporter
from trainfleet_exporter.model import Status
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.status_page import figures, words

REFRESH_SECONDS = 30
"""How often a browser loads the page again."""
_KEPT_SECONDS = 1.0
"""Seconds to reuse a response. Nothing on the page changes faster, and many readers cost the same as one."""
_RECENT_SECONDS = 3600.0
"""Seconds that the last error of a working collector stays on the page."""

_FOLDER = Path(__file__).parent
_STYLE = (_FOLDER / "style.css").read_text(encoding="utf-8")
_STYLE_HASH = f"sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}"

_PAGE_HEADERS = {
    # Allow only the page itself and no script; the icon is in the page.
    "content-security-policy": f"default-src 'none'; style-src '{_STYLE_HASH}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
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
    filter_.__name__: filter_
    for filter_ in (words.ago, words.amount, words.cut, words.percent, words.several, words.span, words.utc)
}
_environment.globals = {
    "Health": figures.Health,
    "idle_ratio": figures.IDLE_RATIO,
    "recent_seconds": _RECENT_SECONDS,
    "refresh_seconds": REFRESH_SECONDS,
    "rows": figures.ROWS,
    "statuses": list(Status),
    "style": Markup(_STYLE),  # noqa: S704 - a file of this package
    "version": trainfleet_exporter.__version__,
}
_template = _environment.from_string(re.sub(r"\n\s*", "", (_FOLDER / "page.html.jinja").read_text(encoding="utf-8")))


class StatusPage:
    """The endpoint. Belongs to one event loop."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        link = pages.telemetry_path.lstrip("/")
        self._metrics_link = f"./{link}" if ":" in link else link  # relative, and not taken for a scheme
        self._rendering = asyncio.Lock()
        self._body = b""
        self._rendered_at = float("-inf")
        self._fleet = figures.Fleet()
        self._fleet_of: tuple[int, tuple[str, ...]] | None = None
        """The number of the page of metrics, and the globs of `metrics.deny`, that it was made for."""

    async def answer(self, _: Request) -> Response:
        loop = asyncio.get_running_loop()
        async with self._rendering:
            if loop.time() - self._rendered_at >= _KEPT_SECONDS:
                self._body = await self._render()
                self._rendered_at = loop.time()
        return HTMLResponse(self._body, headers=_PAGE_HEADERS)

    async def _render(self) -> bytes:
        shown, telemetry = self._pages.page_store.page(), self._pages.telemetry
        standing = shown.standing
        fleet_of = shown.number, tuple(standing.denied)
        if self._fleet_of != fleet_of:
            self._fleet = await asyncio.to_thread(figures.read_fleet, shown.objects, standing.denied)
            self._fleet_of = fleet_of
        now = time.time()
        view = figures.View(self._fleet, figures.read_providers(standing, telemetry.calls(), now), standing)
        facts = {"view": view, "fleet": self._fleet, "now": now, "notice": standing.notice}
        page = await asyncio.to_thread(_template.render, metrics_link=self._metrics_link, **facts)
        return page.encode()
