"""The meaning of responses, where it is the same for every cloud: of an HTTP status, and of a wrong clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.transport.json_fields import iso_time

WRONG_CLOCK = "the clock of this machine is off"
"""How the message of `wrong_clock` begins."""
_STATUSES: Mapping[int, type[CloudError]] = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 429: Throttled}
_USUAL_WORDS: Mapping[type[CloudError], str] = {
    AccessDenied: "access denied",
    NotFound: "not found",
    RequestRefused: "the request was refused",
    ServerTrouble: "the service failed",
    Throttled: "too many requests",
}


def kind_of(status: int) -> type[CloudError] | None:
    """What an HTTP status alone means. None for a good one, and for a redirect, which the transport reports."""
    if status < 400:
        return None
    return _STATUSES.get(status, RequestRefused if status < 500 else ServerTrouble)


def error_of(kind: type[CloudError], message: str, **facts: Any) -> CloudError:
    """The error, in usual words if the service gave none."""
    return kind(message or _USUAL_WORDS[kind], **facts)


def seconds_ahead(date: str) -> float | None:
    """How far the clock here is ahead of the header `date` of a response; None without a date that can be used."""
    try:
        there = parsedate_to_datetime(date).timestamp()
        iso_time(there)
    except (ValueError, OverflowError):  # no date, or one beyond the year 9999
        return None
    return time.time() - there


def wrong_clock(date: str) -> str:
    """Say that the clock here is off: both times and the difference, if the header `date` of the response is known."""
    here, ahead = time.time(), seconds_ahead(date)
    if ahead is None:
        return f"{WRONG_CLOCK}: here it is {iso_time(here)}, there it is unknown"
    minutes = round(abs(ahead) / 60)
    by = f" by {minutes} minutes ({'ahead' if ahead > 0 else 'behind'})" if minutes else ""
    return f"{WRONG_CLOCK}{by}: here it is {iso_time(here)}, there it is {iso_time(here - ahead)}"
