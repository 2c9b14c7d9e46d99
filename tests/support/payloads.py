"""Responses of tests, decoded as the exporter decodes them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from trainfleet_exporter.transport.payload import decode_value

T = TypeVar("T")


def payload(given: Any, into: type[T]) -> T:
    """Encode plain values as JSON and decode them into a struct."""
    found = decode_value(json.dumps(given).encode(), into)
    assert found is not None
    return found


def payloads(given: list[Any], into: type[T]) -> list[T]:
    """Do the same for each item of a list."""
    return [payload(one, into) for one in given]
