"""The vendors' pages themselves, where they are at hand: TRAINFLEET_VENDOR_PAGES, or a folder next to the checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


def example_of(page: str, after: str, before: str) -> dict[str, Any] | None:
    """The JSON example in a vendor's page; None where the pages are not at hand."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "seeds"
    path = Path(os.environ.get("TRAINFLEET_VENDOR_PAGES", beside)) / page
    if not path.exists():
        return None
    _, _, rest = path.read_text(encoding="utf-8").partition(after)
    example: dict[str, Any] = json.loads(rest.partition(before)[0])
    return example


def cases(page: str, values: dict[str, Any], after: str, before: str) -> list[Any]:
    """Test parameters: the values of a page's example, and the page itself where it is at hand."""
    found = [pytest.param(values, id="values of the page")]
    whole = example_of(page, after, before)
    if whole is not None:
        found.append(pytest.param(whole, id="the page itself"))
    return found
