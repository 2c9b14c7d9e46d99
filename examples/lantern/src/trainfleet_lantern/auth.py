"""How Lantern's API is spoken: a token in a header, and what an answer means (transport.Dialect)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import (
    AccessDenied,
    CloudError,
    NotFound,
    RequestRefused,
    ServerTrouble,
    Throttled,
)
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import mapping, number, printable, text


@dataclass(frozen=True, slots=True)
class LanternDialect:
    """The one API. The token is read anew for each attempt, for it may be in a file that changes."""

    token: Secret
    api: str = "lantern"

    async def prepare(self, call: Call, deadline: float) -> object:
        """A token needs no preparing."""
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """There is no other token to try."""
        return False

    def sign(self, call: Call, host: str) -> SignedRequest:
        """One attempt. What proves who asks is named as a secret: the cloud may quote it when it refuses."""
        token = self.token.reveal()
        target = f"{call.path}?{urlencode(call.query, quote_via=quote)}" if call.query else call.path
        return SignedRequest(call.method, target, {"host": host, "x-lantern-token": token}, call.body, (token,))

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer; else what went wrong, by its HTTP status."""
        if answer.status < 400:
            return None
        told = mapping(answer.payload, "error") if isinstance(answer.payload, dict) else {}
        message = printable(text(told, "message"), 300) or "the service gave no reason"
        facts: dict[str, Any] = {
            "status": answer.status,
            "code": printable(text(told, "code"), 64),
            "retry_after": number({"s": answer.headers.get("retry-after", "")}, "s"),
        }
        if answer.status == 429:
            return Throttled(message, **facts)
        if answer.status in (401, 403):
            return AccessDenied(message, **facts)
        if answer.status == 404:
            return NotFound(message, **facts)
        return (ServerTrouble if answer.status >= 500 else RequestRefused)(message, **facts)
