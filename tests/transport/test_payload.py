"""Bodies as the structs that describe them: strictly where they fit, and field by field where they do not."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.transport.json_fields import counting_unusable
from trainfleet_exporter.transport.payload import (
    NotJson,
    decode,
    decode_short_fields,
    decode_value,
)


class Spec(msgspec.Struct, rename="pascal", gc=False):
    type: str | None = None
    pod_count: float | None = None


class Row(msgspec.Struct, rename="pascal", gc=False):
    job_id: str | None = None
    duration: float | None = None
    memory: str | float | None = None
    is_spot: bool | None = None
    spec: Spec | None = None
    specs: list[Spec] | None = None
    tags: dict[str, object] | None = None
    word: Spec | str | None = None


class Page(msgspec.Struct, rename="pascal", gc=False):
    total_count: float | None = None
    rows: list[Row | None] | None = None


def read(row: Any) -> tuple[Row, Counter[str]]:
    """The row as it is read from a page of three, whose other rows stay as they are; and what was counted."""
    good = Row(job_id="good", duration=1.0)
    with counting_unusable() as lost:
        text = json.dumps({"TotalCount": 3, "Rows": [{"JobId": "good", "Duration": 1}, row, {"JobId": "good"}]})
        page = decode(text.encode(), Page)
    assert page.total_count == 3
    assert page.rows is not None
    assert page.rows[0] == good
    assert page.rows[2] == Row(job_id="good")
    assert isinstance(page.rows[1], Row)
    return page.rows[1], lost


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"Duration": 8}, Row(duration=8.0)),
        ({"Duration": "8.5"}, Row(duration=8.5)),
        ({"Duration": None, "JobId": None, "Specs": None}, Row()),
        ({"JobId": 12345678901234567890}, Row(job_id="12345678901234567890")),
        ({"Memory": "512Gi"}, Row(memory="512Gi")),
        ({"Memory": 512}, Row(memory=512.0)),
        ({"IsSpot": "True"}, Row(is_spot=True)),
        ({"Spec": {"Type": 7, "PodCount": "2"}}, Row(spec=Spec("7", 2.0))),
        ({"Specs": [{"Type": "a"}, None, {"Type": "b"}]}, Row(specs=[Spec("a"), Spec("b")])),
        ({"Tags": {"a": "b", "c": {"d": [1]}}}, Row(tags={"a": "b", "c": {"d": [1]}})),
        ({"Word": "text"}, Row(word="text")),
        ({"Word": {"Type": 5}}, Row(word=Spec("5"))),
        ({"JobId": "\ud800x"}, Row(job_id="\ufffd\ufffd\ufffdx")),
        ({"JobId": "", "Duration": ""}, Row(job_id="")),
        ({"Duration": -1, "Unread": math.nan}, Row(duration=-1.0)),
    ],
)
def test_what_fits_in_some_way_is_read_and_nothing_counted(fields: dict[str, Any], expected: Row) -> None:
    assert read(fields) == (expected, Counter())


@pytest.mark.parametrize(
    ("fields", "expected", "lost"),
    [
        ({"JobId": "a", "Duration": "soon"}, Row(job_id="a"), 1),
        ({"JobId": "a", "Duration": True}, Row(job_id="a"), 1),
        ({"JobId": "a", "Duration": {"x": 1}, "Spec": {"PodCount": []}}, Row(job_id="a", spec=Spec()), 2),
        ({"JobId": "a", "Memory": {"x": 1}}, Row(job_id="a"), 1),
        ({"JobId": {"x": 1}, "Specs": "none"}, Row(), 0),
        ({"JobId": True, "IsSpot": 2}, Row(), 0),
        ({"JobId": "a", "Specs": [{"Type": "a"}, "x", [], {"Type": "b"}]}, Row("a", specs=[Spec("a"), Spec("b")]), 2),
    ],
)
def test_what_does_not_fit_is_absent_alone(fields: dict[str, Any], expected: Row, lost: int) -> None:
    found, counted = read(fields)
    assert found == expected
    assert counted == Counter({"malformed": lost} if lost else {})


@pytest.mark.parametrize("text", ["1e999", "1" + "0" * 400, '"inf"', "Infinity"])
def test_numbers_beyond_all_bounds_are_left_to_who_reads_them(text: str) -> None:
    assert decode(f'{{"Duration": {text}}}'.encode(), Row).duration == math.inf
    negative = f'"-{text[1:]}' if text.startswith('"') else f"-{text}"
    assert decode(f'{{"Duration": {negative}}}'.encode(), Row).duration == -math.inf


def test_a_number_that_is_none_is_left_to_who_reads_it() -> None:
    assert math.isnan(decode(b'{"JobId": "a", "Duration": NaN}', Row).duration or 0.0)


def test_a_row_that_is_no_object_keeps_its_place() -> None:
    assert decode(b'{"Rows": [1, {"JobId": "a"}, null, []]}', Page).rows == [None, Row(job_id="a"), None, None]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"JobId": "a", "Unread": "\xff"}',
        b"<html>",
        b'{"JobId": "a"',
        b'{"JobId": "a"} x',
        b"[" * 5000 + b"]" * 5000,
    ],
)
def test_no_json(body: bytes) -> None:
    with pytest.raises(NotJson):
        decode(body, Row)
    with pytest.raises(NotJson):
        decode(body, dict)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"1"])
def test_no_object(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        decode(body, Row)
    with pytest.raises(BadAnswer):
        decode(body, dict)


def test_a_value_inside_an_answer() -> None:
    assert decode_value(msgspec.Raw(b'{"JobId": 5}'), Row) == Row(job_id="5")
    assert decode_value(b'{"JobId": "a", "Duration": NaN}', Row) is not None
    assert decode_value(b'"x"', Row) is None
    assert decode_value(b"<", Row) is None


def test_short_fields_leave_out_what_is_long() -> None:
    rows = [{"JobId": "a" * 100}] * 100
    assert decode_short_fields(json.dumps({"Code": "x", "Jobs": rows}).encode()) == {"Code": "x"}
    assert decode_short_fields(b'{"Code": NaN, "Jobs": []}').keys() == {"Code", "Jobs"}
    assert decode_short_fields(b"[1]") == [1]
    assert decode_short_fields(b'{"Code": NaN, "Jobs": [%b0]}' % (b"0," * 100_000)) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([field.encode_name for field in msgspec.structs.fields(Row)]), JSON))
def test_any_object_is_read_and_each_field_by_itself(fields: dict[str, Any]) -> None:
    body = json.dumps(fields).encode()
    found = decode(body, Row)
    for name, value in fields.items():
        alone = decode(json.dumps({name: value}).encode(), Row)
        field = next(one.name for one in msgspec.structs.fields(Row) if one.encode_name == name)
        assert repr(getattr(found, field)) == repr(getattr(alone, field))


class Counts(msgspec.Struct):
    rows: list[Row] | msgspec.UnsetType | None = msgspec.UNSET
    by_word: dict[str, float | None] | None = None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", msgspec.UNSET),
        (b'{"rows": {}}', msgspec.UNSET),
        (b'{"rows": null}', None),
        (b'{"rows": [1]}', []),
    ],
)
def test_missing_list_differs_from_an_empty_one(body: bytes, expected: object) -> None:
    assert decode(body, Counts).rows == expected


def test_an_entry_of_a_map_that_does_not_fit_is_null() -> None:
    assert decode(b'{"by_word": {"a": "1", "b": true, "c": null}}', Counts).by_word == {"a": 1, "b": None, "c": None}


class Value(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    time: float | None = None
    value: str | float | None = None


class Series(msgspec.Struct):
    name: str = ""
    values: list[Value | None] | None = None
    further: list[msgspec.Raw] | None = None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('[1.5, "2"]', Value(1.5, "2")),
        ('["1.5", 2]', Value(1.5, 2.0)),
        ("[null, null]", Value()),
        ('[{}, "2"]', Value(None, "2")),
        ("[1, true]", Value(1.0)),
        ('[1, "2", 3]', None),
        ('{"time": 1}', None),
        ("null", None),
    ],
)
@pytest.mark.parametrize("name", ['"a"', "5"], ids=["strictly", "field by field"])
def test_an_array_of_fixed_form(name: str, value: str, expected: Value | None) -> None:
    found = decode(f'{{"name": {name}, "values": [{value}, [7, "8"]]}}'.encode(), Series)
    assert found == Series(json.loads(f"[{name}]")[0] if name == '"a"' else "5", [expected, Value(7.0, "8")])


def test_undecoded_rows_keep_what_they_hold() -> None:
    rows = ['{"a": NaN, "b": null}', str(2**70), "null", '"\\ud83d\\ude00"', '{"a": [1.5]}']
    body = f'{{"name": 5, "unread": NaN, "further": [{", ".join(rows)}]}}'.encode()
    found = decode(body, Series).further
    assert found is not None
    assert [repr(json.loads(bytes(row))) for row in found] == [repr(json.loads(row)) for row in rows]


def test_nesting_beyond_reason_costs_an_undecoded_row_alone() -> None:
    deep = b"[" * 900 + b"]" * 900
    found = decode(b'{"name": NaN, "further": [1, %b, 2]}' % deep, Series).further
    assert found is not None
    assert [bytes(row) for row in (found[0], found[-1])] == [b"1", b"2"]


def test_what_does_not_fit_is_read_up_to_a_limit() -> None:
    fits, spoilt = b'{"name": "a", "values": [[1, 2]]}', b'{"name": 5, "values": [[1, 2]]}'
    assert decode(fits, Series, tolerated=1).name == "a"
    assert decode(spoilt, Series, tolerated=5).name == "5"
    with pytest.raises(BadAnswer):
        decode(spoilt, Series, tolerated=4)
