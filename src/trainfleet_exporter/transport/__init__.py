"""Calls to cloud APIs: signed for each attempt, limited, retried, counted. No other component imports HTTP clients.

It names no cloud: the differences of clouds are in the `Dialect` that each provider passes in.
"""

from __future__ import annotations

from trainfleet_exporter.transport.account import Account
from trainfleet_exporter.transport.calls import (
    BULK,
    CALLER,
    HISTORY,
    NOT_JSON,
    PAGE,
    USUAL,
    Attempt,
    BodyLimits,
    Call,
    CallBudget,
    Caller,
    CallLimits,
    Dialect,
    HttpAnswer,
    HttpSettings,
    Priority,
    SignedRequest,
    TextForm,
)
from trainfleet_exporter.transport.client import ApiClient, Transport

__all__ = [
    "BULK",
    "CALLER",
    "HISTORY",
    "NOT_JSON",
    "PAGE",
    "USUAL",
    "Account",
    "ApiClient",
    "Attempt",
    "BodyLimits",
    "Call",
    "CallBudget",
    "CallLimits",
    "Caller",
    "Dialect",
    "HttpAnswer",
    "HttpSettings",
    "Priority",
    "SignedRequest",
    "TextForm",
    "Transport",
]
