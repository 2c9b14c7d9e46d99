"""Marks of GetJob's answers: the same for those that say the same of pods, and for no others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.providers.alibaba_pai.detail import Detail
from trainfleet_exporter.transport.calls import NOT_JSON

ANSWER = '{"JobId":"a","Duration":5,"Pods":[{"PodId":"p","Duration": 7}],"RequestId":"0A-b"}'


def _decoded(body: str | bytes, known: bytes = b"") -> tuple[Detail, Any]:
    detail = Detail("a", known)
    payload = asyncio.run(detail.decode(body if isinstance(body, bytes) else body.encode()))
    return detail, payload


def test_an_answer_at_another_time_is_not_decoded_and_can_be_all_the_same() -> None:
    first, payload = _decoded(ANSWER)
    assert payload == json.loads(ANSWER)
    assert (first.is_known, len(first.mark)) == (False, 16)
    later = ANSWER.replace(":5", ":65").replace(": 7", ": 67").replace("0A-b", "1")
    second, payload = _decoded(later, first.mark)
    assert (second.is_known, second.mark) == (True, first.mark)
    assert payload == {"JobId": "a", "RequestId": "1"}
    assert second.row() == json.loads(later)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"p"', '"q"'),
        ('"a"', '"b"'),
        ("Duration", "Duratiom"),
        (":5", ":05"),
        (":5", ":\x0b5"),
        (":5", ":5.0"),
        (":5", ":-5"),
        (":5", ":null"),
        (":5", ':"5"'),
        (":5", ":5" + "0" * 5000),
        ('"0A-b"', '"0\\u0041"'),
        ('"0A-b"', '"\x00"'),
        ('"0A-b"', "7"),
        ("}]", "}] "),
        ("}]", "}"),
    ],
)
def test_any_other_change_is_decoded(old: str, new: str) -> None:
    first, _ = _decoded(ANSWER)
    detail, _ = _decoded(ANSWER.replace(old, new), first.mark)
    assert not detail.is_known


def test_an_answer_in_bad_utf8_is_not_the_same() -> None:
    first, _ = _decoded(ANSWER)
    detail, payload = _decoded(ANSWER.encode().replace(b"0A", b"\xff"), first.mark)
    assert not detail.is_known
    assert payload is NOT_JSON


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        "oops",
        ANSWER.replace("{", '{"Code":"OK",', 1),
        ANSWER.replace("{", '{"Success":true,', 1),
        ANSWER.replace("{", '{"message":"",', 1),
        ANSWER.replace('"PodId"', '"RequestId":"of-a-pod","PodId"'),
        ANSWER.replace('"RequestId":"0A-b"', '"Others":{"RequestId":"nested"}'),
        ANSWER.replace("0A-b", "\\u0041"),
    ],
)
def test_what_a_verdict_could_be_told_by_otherwise_has_no_mark(answer: str) -> None:
    detail, _ = _decoded(answer)
    assert detail.mark == b""


def test_without_a_request_id_there_is_none() -> None:
    answer = '{"JobId":"a","Pods":[]}'
    first, _ = _decoded(answer)
    assert _decoded(answer, first.mark)[1] == {"JobId": "a"}


VALUES = st.recursive(
    st.none() | st.integers(-2, 3) | st.sampled_from([1.5, "Duration", '"Duration":5', 'x"Duration": 5', "RequestId"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["Duration", "RequestId", 'x"Duration', "Pods", "Type"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _timeless(value: Any) -> Any:
    """A value without what marks pass over, also behind longer names that end so, which are the names of nothing."""
    if isinstance(value, dict):
        return {
            key: _timeless(one)
            for key, one in value.items()
            if not (key.endswith("Duration") and type(one) is int and one >= 0)
            and not (key == "RequestId" and isinstance(one, str))
        }
    return [_timeless(one) for one in value] if isinstance(value, list) else value


@given(st.dictionaries(st.sampled_from(["Duration", "RequestId", "Pods"]), VALUES), st.data())
def test_answers_of_one_mark_differ_in_nothing_else(row: dict[str, Any], data: st.DataObject) -> None:
    other = data.draw(st.just(row) | st.dictionaries(st.sampled_from(["Duration", "RequestId", "Pods"]), VALUES))
    first, _ = _decoded(json.dumps(row))
    if first.mark and _decoded(json.dumps(other), first.mark)[0].is_known:
        assert json.dumps(_timeless(row)) == json.dumps(_timeless(other))
