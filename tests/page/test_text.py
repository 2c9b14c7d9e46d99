"""Escaping and numbers: what is written reads back the same, by three readers."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from trainfleet_conformance.page import sample
from trainfleet_exporter.page.text import escape_label, format_value, format_values

any_text = st.text(st.characters(exclude_categories=[]))  # half surrogate pairs too
awkward = st.text(st.sampled_from('\\"\n\r\t\0n{}=, #\x85\u2028\ud800😀é'))


def line_with(label: str, value: str = "1") -> str:
    return f'some_gauge{{provider="p",text="{label}"}} {value}\n'


@given(any_text | awkward)
@example("\\n")
@example('\\"')
@example("ends in \\")
@example("\r\n")
@example("# EOF")
@example('"} 2\nother_gauge{a="')
def test_any_label_text_round_trips(text: str) -> None:
    meant = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    line = line_with(escape_label(text))
    line.encode()  # must not raise
    expected = {"provider": "p", "text": meant}
    assert sample(line.removesuffix("\n")) == ("some_gauge", expected, 1.0)
    head = "# HELP some_gauge x\n# TYPE some_gauge gauge\n"
    (by_text,) = parse_text(head + line)
    (by_openmetrics,) = parse_openmetrics(head + line + "# EOF\n")
    assert by_text.samples[0].labels == expected
    assert by_openmetrics.samples[0].labels == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(1e15)
@example(999999999999999.0)
@example(5e-324)
@example(1.7976931348623157e308)
def test_any_finite_float_round_trips(value: float) -> None:
    text = format_value(value)
    assert float(text) == value
    (family,) = parse_text(line_with("x", text))
    assert float(family.samples[0].value) == value
    (family,) = parse_openmetrics(line_with("x", text) + "# EOF\n")
    assert float(family.samples[0].value) == value


@given(st.integers())
def test_integers_keep_their_digits(value: int) -> None:
    assert format_value(value) == str(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (True, "1"),
        (2.0, "2"),
        (-3.0, "-3"),
        (1767225802.25, "1767225802.25"),
        (1767225802.0, "1767225802"),
        (0.1, "0.1"),
        (1e15, "1000000000000000.0"),
        (1e22, "1e+22"),
        (1e-7, "1e-07"),
        (10**400, "+Inf"),
        (-(10**400), "-Inf"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_how_numbers_are_written(value: float, text: str) -> None:
    assert format_value(value) == text


@given(st.lists(st.floats() | st.integers() | st.sampled_from([-0.0, 0.0, 1e-4, 9.9e-5, 1e15, 1e15 - 1, 1e16])))
def test_many_values_are_written_like_single_ones(values: list[float]) -> None:
    assert format_values(values) == list(map(format_value, values))
