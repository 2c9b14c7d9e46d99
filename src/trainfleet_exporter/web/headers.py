"""For browsers: whatever is shown is what it is said to be, runs nothing, and is no part of another site's page."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"x-frame-options": b"DENY",
}


def guarded(app: ASGIApp) -> ASGIApp:
    """The application, whose answers have these headers unless they have their own."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async def adding(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                headers = [header for header in HEADERS.items() if header[0] not in own]
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        await app(scope, receive, adding)

    return call
