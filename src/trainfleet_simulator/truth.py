"""A log of the simulator's responses, for tests that compare metrics with the truth."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

_KEPT = 3000


_NOT_FOUND = {
    "NotFound",
    "ResourceNotFound",
    "EntityNotExist.Role",
    "EntityNotExist.OIDCProvider",
    "ModelArts.2775",
    "ModelArts.50015001",
}


def outcome_of(status: int, code: str) -> str:
    """Return the exporter's word for the outcome of a response."""
    if status < 400:
        return "ok"
    if code.startswith("Throttling") or status == 429:
        return "throttled"
    if status >= 500:
        return "server"
    auth = (
        "InvalidAccessKeyId",
        "InvalidTimeStamp",
        "InvalidSecurityToken",
        "Signature",
        "IncompleteSignature",
        "Forb",
        "NoPermission",
        "AuthenticationFail",
        *("AccessDenied", "UnrecognizedClient", "InvalidSignature", "ExpiredToken", "InvalidIdentityToken"),
        "MissingAuthenticationToken",
    )
    if status in {401, 403} or code.startswith(auth):
        return "auth"
    if status == 404 and code.startswith("ModelArts."):
        return "not_found"
    return "not_found" if code in _NOT_FOUND else "client"


class Truth:
    """Counts all calls, and keeps the last few thousand responses."""

    def __init__(self) -> None:
        self._answers: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._calls: dict[str, dict[str, Counter[str]]] = {}
        self._seq = 0

    def note(
        self,
        *,
        at: float,
        api: str,
        operation: str,
        outcome: str,
        request_id: str,
        query: Mapping[str, str],
        total: int | None,
        rows: list[list[Any]],
        fault: str = "",
    ) -> None:
        """Record one response. `fault` is the name of the applied fault; then the response has no rows here."""
        self._seq += 1
        self._calls.setdefault(api, {}).setdefault(operation, Counter())[outcome] += 1
        self._answers.append(
            {
                "seq": self._seq,
                "time": at,
                "api": api,
                "operation": operation,
                "outcome": outcome,
                "request_id": request_id,
                "query": dict(query),
                "total": total,
                "rows": rows,
                **({"fault": fault} if fault else {}),
            }
        )

    def show(self, now: float, *, since: int = 0, operation: str = "") -> dict[str, Any]:
        """Return the whole log, with only the responses after `since` and of one operation."""
        answers = [
            answer for answer in self._answers if answer["seq"] > since and operation in {"", answer["operation"]}
        ]
        return {"now": now, "seq": self._seq, "calls": self._calls, "answers": answers}
