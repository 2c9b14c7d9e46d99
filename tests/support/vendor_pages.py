"""Pages of the vendors in TRAINFLEET_VENDOR_PAGES or in a folder next to the checkout, if there are any."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


def example_of(page: str, after: str, before: str) -> dict[str, Any] | None:
    """Return the JSON example of a page between two texts. None if the page is missing."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "seeds"
    path = Path(os.environ.get("TRAINFLEET_VENDOR_PAGES", beside)) / page
    if not path.exists():
        return None
    _, _, rest = path.read_text(encoding="utf-8").partition(after)
    example: dict[str, Any] = json.loads(rest.partition(before)[0])
    return example


def cases(page: str, values: dict[str, Any], after: str, before: str) -> list[Any]:
    """Return test parameters: the copied values of an example, and the example itself if the page exists."""
    found = [pytest.param(values, id="values of the page")]
    whole = example_of(page, after, before)
    if whole is not None:
        found.append(pytest.param(whole, id="the page itself"))
    return found
