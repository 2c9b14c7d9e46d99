"""Calls to cloud APIs: signed anew for every attempt, limited, retried, counted. The only room that knows HTTP clients.

Cloud-neutral: what one cloud does differently is a `Dialect` that its provider hands in.
"""

from __future__ import annotations

from trainfleet_exporter.transport.account import Account
from trainfleet_exporter.transport.budget import Budget
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
    Caller,
    Dialect,
    HttpAnswer,
    HttpSettings,
    Limits,
    Priority,
    SignedRequest,
    TextForm,
)
from trainfleet_exporter.transport.client import ApiClient, Transport
from trainfleet_exporter.transport.ledger import KEPT_AFTER_MONTH, Holder, Ledger
from trainfleet_exporter.transport.ownership import Ownership

__all__ = [
    "BULK",
    "CALLER",
    "HISTORY",
    "KEPT_AFTER_MONTH",
    "NOT_JSON",
    "PAGE",
    "USUAL",
    "Account",
    "ApiClient",
    "Attempt",
    "BodyLimits",
    "Budget",
    "Call",
    "Caller",
    "Dialect",
    "Holder",
    "HttpAnswer",
    "HttpSettings",
    "Ledger",
    "Limits",
    "Ownership",
    "Priority",
    "SignedRequest",
    "TextForm",
    "Transport",
]
