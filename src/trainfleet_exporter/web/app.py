"""The endpoints: /metrics, the status page, health, readiness, the running config, and its reload.

None of them calls a cloud or waits for a poll: they show the latest published values.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from trainfleet_exporter.lease import Role
from trainfleet_exporter.web.connection import with_security_headers
from trainfleet_exporter.web.metrics import MetricsEndpoint
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.status_page import StatusPage


def make_app(pages: Pages) -> ASGIApp:
    """Return the ASGI application. It answers GET and HEAD, and POST and PUT for the reload."""

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("trainfleet-exporter is healthy.\n")

    is_shown = False

    async def ready(_: Request) -> Response:
        nonlocal is_shown
        role = pages.role()
        if role is Role.UNDECIDED:
            return PlainTextResponse("waiting for the lease, or for an exporter that holds it\n", status_code=503)
        if role is Role.STANDBY and not pages.may_take():
            return PlainTextResponse("on standby, and cannot take the lease; see the log\n", status_code=503)
        if role is Role.STANDBY:
            return PlainTextResponse("trainfleet-exporter is ready and stands by.\n")
        waiting = pages.waiting_for()
        if waiting:
            return PlainTextResponse(f"waiting for the first poll of: {', '.join(waiting)}\n", status_code=503)
        if not is_shown:  # from now on, scrapes get what the first polls found
            await pages.page_store.build()
            is_shown = True
        return PlainTextResponse("trainfleet-exporter is ready.\n")

    async def config(_: Request) -> Response:
        return PlainTextResponse(pages.config_text())

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
    return with_security_headers(starlette)


def _comes_from_elsewhere(request: Request) -> bool:
    """Return whether a browser sends the request for a page of another site; other clients send no origin."""
    origin = request.headers.get("origin")
    elsewhere = origin is not None and origin.partition("://")[2] != request.headers.get("host", "")
    return elsewhere or request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
