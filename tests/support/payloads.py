"""Answers as tests write them, read as the exporter reads them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from trainfleet_exporter.transport.payload import decode_value

T = TypeVar("T")


def payload(given: Any, into: type[T]) -> T:
    """Plain values as JSON, decoded into the struct that describes them."""
    found = decode_value(json.dumps(given).encode(), into)
    assert found is not None
    return found


def payloads(given: list[Any], into: type[T]) -> list[T]:
    """A list of them."""
    return [payload(one, into) for one in given]
