"""Calls to cloud APIs: signed for each attempt, limited, retried, counted. Only it and `lease` import HTTP clients.

It names no cloud. Each provider passes in a `Dialect` with the differences of its cloud.
"""

from __future__ import annotations

from trainfleet_exporter.transport.calls import (
    BULK,
    HISTORY,
    PAGE,
    USUAL,
    Attempt,
    BodyLimits,
    Call,
    CallLimits,
    Dialect,
    HttpAnswer,
    HttpSettings,
    SignedRequest,
    TextForm,
)
from trainfleet_exporter.transport.client import ApiClient, Transport
from trainfleet_exporter.transport.limiter import Account
from trainfleet_exporter.transport.retry import CALLER, Caller

__all__ = [
    "BULK",
    "CALLER",
    "HISTORY",
    "PAGE",
    "USUAL",
    "Account",
    "ApiClient",
    "Attempt",
    "BodyLimits",
    "Call",
    "CallLimits",
    "Caller",
    "Dialect",
    "HttpAnswer",
    "HttpSettings",
    "SignedRequest",
    "TextForm",
    "Transport",
]
