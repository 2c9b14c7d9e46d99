"""Tolerant reading of the fields of a cloud's JSON.

Clouds send the same number as `8`, `8.0` and `"8"`, leave fields out, or fill them with null and "". Every function
here returns `None` for a missing or invalid field, so that a caller cannot mistake it for zero. `UNUSABLE` counts
invalid fields.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

UNUSABLE: Final[ContextVar[Counter[str] | None]] = ContextVar("unusable", default=None)
"""Counts what cannot be used, by reason: `malformed`, `out_of_range`, `duplicate` or `no_data`."""
_NOT_GIVEN = (None, "", -1, "-1", -1.0)
"""-1 is what these clouds say for "none"."""
_LONGEST_NUMBER = 40
"""Characters of a number given as text."""
FIRST_TIME = 86_400.0
"""Unix seconds. Times before the second day of 1970 mean "not set"."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)", re.ASCII)


def number(fields: Mapping[str, Any], key: str) -> float | None:
    """A finite, non-negative number, given as a number or as text."""
    given = fields.get(key)
    value = as_number(given)
    if value is None:
        unusable(given, "malformed")
    elif not 0 <= value < math.inf:
        unusable(given, "out_of_range")
        return None
    return value


def as_number(given: Any) -> float | None:
    """Return a number that is given as one or as text, which may be infinite or NaN; None for anything else."""
    value = given
    if isinstance(value, str):
        try:
            value = float(value) if value.isascii() and len(value) < _LONGEST_NUMBER else None
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@contextmanager
def counting_unusable() -> Iterator[Counter[str]]:
    """Count such fields within the block. An outer block counts them, too."""
    around, inside = UNUSABLE.get(), Counter[str]()
    token = UNUSABLE.set(inside)
    try:
        yield inside
    finally:
        UNUSABLE.reset(token)
        if around is not None:
            around.update(inside)


def unusable(given: object, reason: str) -> None:
    """Count an invalid field, within `counting_unusable`."""
    counts = UNUSABLE.get()
    if counts is not None and (isinstance(given, bool | dict | list) or given not in _NOT_GIVEN):
        counts[reason] += 1


def whole(fields: Mapping[str, Any], key: str) -> int | None:
    """A whole, non-negative number, given as a number or as text."""
    value = number(fields, key)
    return int(value) if value is not None and value.is_integer() else None


def text(fields: Mapping[str, Any], key: str) -> str:
    """A text; numbers are taken as their digits (ids are sometimes sent bare). Empty where absent."""
    value = fields.get(key)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return ""


def printable(value: str, limit: int) -> str:
    """Return a text from outside for one line of a log: without control characters, and of limited length."""
    clean = "".join(char if char.isprintable() else " " for char in value)
    return clean if len(clean) <= limit else clean[:limit] + "..."


def flag(fields: Mapping[str, Any], key: str) -> bool | None:
    """A boolean, given as a boolean or as text."""
    value = fields.get(key)
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def utc_time(fields: Mapping[str, Any], key: str) -> float | None:
    """Unix seconds of an ISO 8601 time with its zone, such as `2026-01-01T00:00:10Z`.

    None if it means "not set": year 1 or Unix 0 in any time zone.
    """
    value = fields.get(key)
    if isinstance(value, str) and _TIME.fullmatch(value) is not None:
        with suppress(ValueError):  # a 30th of February
            unix = datetime.fromisoformat(value).timestamp()
            return unix if unix >= FIRST_TIME else None
    unusable(value, "malformed")
    return None


def iso_time(unix: float) -> str:
    """The UTC text form that these APIs accept, in whole seconds: `2026-01-01T00:00:10Z`."""
    return datetime.fromtimestamp(math.floor(unix), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def mapping(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A nested object; empty where absent or of another type."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}
