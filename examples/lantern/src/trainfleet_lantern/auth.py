"""How to call Lantern's API: a token in a header, and what a response means (transport.Dialect)."""

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
    """Calls the only API. Reads the token again for each attempt, because its file may change."""

    token: Secret
    api: str = "lantern"

    async def prepare(self, call: Call, deadline: float) -> object:
        """Do nothing: a token needs no preparation."""
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Return False: there is no other token to try."""
        return False

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt. The token is among the secrets, because the cloud may quote it in an error."""
        token = self.token.reveal()
        target = f"{call.path}?{urlencode(call.query, quote_via=quote)}" if call.query else call.path
        return SignedRequest(call.method, target, {"host": host, "x-lantern-token": token}, call.body, (token,))

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """Return None for a good response, or the error for its HTTP status."""
        if answer.status < 400:
            return None
        reported = mapping(answer.payload, "error") if isinstance(answer.payload, dict) else {}
        message = printable(text(reported, "message"), 300) or "the service gave no reason"
        facts: dict[str, Any] = {
            "status": answer.status,
            "code": printable(text(reported, "code"), 64),
            "retry_after": number({"s": answer.headers.get("retry-after", "")}, "s"),
        }
        if answer.status == 429:
            return Throttled(message, **facts)
        if answer.status in (401, 403):
            return AccessDenied(message, **facts)
        if answer.status == 404:
            return NotFound(message, **facts)
        return (ServerTrouble if answer.status >= 500 else RequestRefused)(message, **facts)
