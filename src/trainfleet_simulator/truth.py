"""A log of the simulator's responses, for tests that compare metrics with the truth."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from trainfleet_simulator.exchange import Answer, Operation

_KEPT = 3000
_NOT_FOUND = ("NotFound", "ResourceNotFound", "EntityNotExist", "ModelArts.2775", "ModelArts.50015001")
_AUTH = (
    *("InvalidAccessKeyId", "InvalidTimeStamp", "InvalidSecurityToken", "Signature", "IncompleteSignature", "Forb"),
    *("NoPermission", "AuthenticationFail", "AccessDenied", "UnrecognizedClient", "InvalidSignature", "ExpiredToken"),
    *("InvalidIdentityToken", "MissingAuthenticationToken"),
)
"""Beginnings of codes."""


def outcome_of(status: int, code: str) -> str:
    """Return the exporter's word for the outcome of a response."""
    if status < 400:
        return "ok"
    if code.startswith("Throttling") or status == 429:
        return "throttled"
    if status >= 500:
        return "server"
    if status in {401, 403} or code.startswith(_AUTH):
        return "auth"
    is_missing = code.startswith(_NOT_FOUND) or (status == 404 and code.startswith("ModelArts."))
    return "not_found" if is_missing else "client"


class Truth:
    """Counts all calls, and keeps the last few thousand responses."""

    def __init__(self) -> None:
        self._answers: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._calls: dict[str, dict[str, Counter[str]]] = {}
        self._seq = 0

    def note(
        self, operation: Operation, answer: Answer | None, outcome: str, *, at: float, request_id: str, fault: str
    ) -> None:
        """Record one response. `fault` is the name of the applied fault; then `answer` is None."""
        self._seq += 1
        self._calls.setdefault(operation.api, {}).setdefault(operation.name, Counter())[outcome] += 1
        self._answers.append(
            {
                "seq": self._seq,
                "time": at,
                "api": operation.api,
                "operation": operation.name,
                "outcome": outcome,
                "request_id": request_id,
                "query": dict(operation.parameters),
                "total": None if answer is None else answer.total,
                "rows": [] if answer is None else answer.rows,
                **({"fault": fault} if fault else {}),
            }
        )

    def show(self, now: float, *, since: int = 0, operation: str = "") -> dict[str, Any]:
        """Return the whole log, with only the responses after `since` and of one operation."""
        answers = [
            answer for answer in self._answers if answer["seq"] > since and operation in {"", answer["operation"]}
        ]
        return {"now": now, "seq": self._seq, "calls": self._calls, "answers": answers}
