"""The meaning of single values in a cloud's payloads: amounts, whole numbers, quantities with a suffix, times, codes,
pool states.

Payloads (transport.payload) have a number as float, a text as str, and None for an absent or unfit value. In these
clouds, -1 means "none". Every function here returns None for a missing or unusable value, so that a caller can never
read it as zero. Unusable values are counted: see json_fields.UNUSABLE.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from msgspec import ValidationError, convert

from trainfleet_exporter.model import PoolStatus
from trainfleet_exporter.transport.json_fields import FIRST_TIME, as_number, unusable

T = TypeVar("T")
POOL_STATUS = {
    "Ready": PoolStatus.READY,
    "Running": PoolStatus.READY,
    "Available": PoolStatus.READY,
    "Creating": PoolStatus.CREATING,
    "Waiting": PoolStatus.CREATING,
    "Checking": PoolStatus.CREATING,
    "Abnormal": PoolStatus.ABNORMAL,
    "Error": PoolStatus.ABNORMAL,
    "CreationFailed": PoolStatus.ABNORMAL,
    "ScalingFailed": PoolStatus.ABNORMAL,
    "Deleting": PoolStatus.DELETING,
}
"""The words that both clouds have for the state of a pool or node."""
_MEANS_NONE = -1.0
LARGEST = 1e18
"""Above every count, size and rate of a cloud; and a product of such amounts is still finite."""
_GIB = 2.0**30
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,4}))?",
    re.ASCII,
)
"""https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", re.ASCII)
_EXPONENTS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}


def amount(value: float | None) -> float | None:
    """A number of 0 or more, in any unit; a larger one than LARGEST is out of range."""
    if value is None or 0 <= value <= LARGEST:
        return value
    if value != _MEANS_NONE:
        unusable(value, "out_of_range")
    return None


def number(value: str | float | None) -> float | None:
    """An amount given as a number, or as text in a field that may hold other texts, too. An empty text is none."""
    found = as_number(value)
    if found is None:
        unusable(value, "malformed")
    return amount(found)


def whole(value: float | None) -> int | None:
    """A whole number of 0 or more."""
    if value is not None and value >= 0 and value.is_integer():
        return int(value)
    amount(value)  # which counts what cannot be one
    return None


def quantity(value: object) -> float | None:
    """An amount of base units, given as a number or as a quantity of Kubernetes (`558080Mi`, `8`, `500m`, `64e9`)."""
    found = _parse_quantity(value) if isinstance(value, str) else as_number(value)
    if found is None and value is not None:
        unusable(value, "malformed")
    return amount(found)


@lru_cache(maxsize=128)
def _parse_quantity(text: str) -> float | None:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    suffix = match["suffix"] or ""
    exponent = match["exponent"] or _EXPONENTS.get(suffix, 0)
    return float(f"{match['number']}e{exponent}") * _BINARY.get(suffix, 1.0) or 0.0  # not -0


def gibibytes(value: str | float | None) -> float | None:
    """Bytes of an amount whose bare number counts GiB, also as text. A text with a suffix or exponent is a quantity."""
    if isinstance(value, str) and any(map(str.isalpha, value)):
        return quantity(value)
    bare = number(value)
    return None if bare is None else amount(bare * _GIB)


def utc_time(value: str | None) -> float | None:
    """Unix seconds of an ISO 8601 time with its zone, such as `2026-01-01T00:00:10Z`. None if it is not set."""
    if value is None:
        return None
    try:
        time = convert(value, datetime)
    except ValidationError:
        time = None
    if time is None or time.tzinfo is None or value[10] != "T":
        unusable(value, "malformed")
        return None
    return _if_set(time.timestamp())


def unix_time(value: float | None, *, per_second: int = 1) -> float | None:
    """Unix seconds of a time that counts seconds, or so many parts of one. None if it is not set."""
    if value is None:
        return None
    if not math.isfinite(value):
        unusable(value, "out_of_range")
        return None
    return _if_set(value / per_second)


def _if_set(unix: float) -> float | None:
    """Return the time, or None if it means "not set": year 1 or Unix 0 in any time zone."""
    return unix if unix >= FIRST_TIME else None


def readable(items: Sequence[T | None] | None) -> list[T]:
    """The items of a list that could be read. The others are counted as malformed."""
    found = [item for item in items or () if item is not None]
    for _ in range(len(items or ()) - len(found)):
        unusable({}, "malformed")
    return found


def code(text: str | None) -> str:
    """A platform's word if it is a code; else nothing: texts may quote what users wrote."""
    return text if text and _CODE.fullmatch(text) else ""


def checked_code(text: str | None) -> str:
    """As `code`; but what is given and is no code counts as malformed."""
    found = code(text)
    if text and not found:
        unusable(text, "malformed")
    return found
