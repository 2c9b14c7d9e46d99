"""Single values of payloads: what is taken, what is absent, and what is counted as unusable."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.providers.values import LARGEST, amount, gibibytes, quantity
from trainfleet_exporter.transport.json_fields import counting_unusable


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e300, -2.0])
def test_unusable_amounts_are_absent_and_counted(value: float) -> None:
    with counting_unusable() as unusable:
        assert amount(value) is None
    assert unusable["out_of_range"] == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("558080Mi", 558080 * 2**20),
        ("1.5Ki", 1536),
        (".5Gi", 2**29),
        ("2G", 2e9),
        ("3Ti", 3 * 2**40),
        (" 0 ", 0),
        ("-0", 0),
        ("1E", 1e18),
        ("1E1", 10),
    ],
)
def test_quantities_are_base_units(text: str, value: float) -> None:
    assert quantity(text) == value


@given(st.text() | st.from_regex(r"[+-]?[0-9.]{1,50}([eE][+-]?[0-9]{0,5}|[numkMGTPEi]{0,2})", fullmatch=True))
def test_any_text_is_an_amount_or_none(text: str) -> None:
    for read in (quantity, gibibytes):
        found = read(text)
        assert found is None or 0 <= found <= LARGEST


@pytest.mark.parametrize(("given_as", "value"), [(92.5, 92.5), ("92.5", 92.5), ("92.5Gi", 92.5), ("1073741824e1", 10)])
def test_bare_numbers_of_memory_count_gib(given_as: str | float, value: float) -> None:
    assert gibibytes(given_as) == value * 2**30
