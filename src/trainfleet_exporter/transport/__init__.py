"""Calls to cloud APIs: signed anew for every attempt, limited, retried, counted. The only room that knows HTTP clients.

Cloud-neutral: what one cloud does differently is a `Dialect` that its provider hands in.
"""

from __future__ import annotations

from trainfleet_exporter.transport.calls import (
    NOT_JSON,
    Attempt,
    Call,
    Dialect,
    HttpAnswer,
    HttpSettings,
    Limits,
    Priority,
    SignedRequest,
)
from trainfleet_exporter.transport.client import ApiClient, Transport

__all__ = [
    "NOT_JSON",
    "ApiClient",
    "Attempt",
    "Call",
    "Dialect",
    "HttpAnswer",
    "HttpSettings",
    "Limits",
    "Priority",
    "SignedRequest",
    "Transport",
]
