"""Single values of payloads: what is taken, what is absent, and what is counted as unusable."""

from __future__ import annotations

import math

import pytest

from trainfleet_exporter.providers.values import LARGEST, amount
from trainfleet_exporter.transport.json_fields import counting_unusable


@pytest.mark.parametrize("value", [0.0, 0.5, 8.0, LARGEST])
def test_amounts_are_taken_as_they_are(value: float) -> None:
    assert amount(value) == value


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e300, -2.0])
def test_unusable_amounts_are_absent_and_counted(value: float) -> None:
    with counting_unusable() as unusable:
        assert amount(value) is None
    assert unusable["out_of_range"] == 1
