"""Vectors cut between their samples: however they are written, the outcome is that of decoding them in one go."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.model import Accelerators, Job, Status
from trainfleet_exporter.providers.huawei_modelarts.aom_parts import JobParts
from trainfleet_exporter.providers.huawei_modelarts.aom_usage import Collected
from trainfleet_exporter.providers.huawei_modelarts.aom_vectors import (
    Labels,
    Packed,
    Sample,
    Vector,
    decode_answer,
    slices,
)
from trainfleet_exporter.providers.huawei_modelarts.metric_map import CARD_LABELS, JOB_LABEL, POD_LABELS, plans
from trainfleet_exporter.transport import NOT_JSON
from trainfleet_exporter.transport.body import decode_json

PLAN = next(plan for plan in plans(None, {}) if plan.reading.device is not None)


def decoded(body: bytes) -> Any:
    return asyncio.run(decode_answer(body))


def row(value: object, **labels: Any) -> dict[str, Any]:
    return {"metric": labels, "value": [1767595140.5, value]}


def answer(rows: Any, *, spaces: bool = False, **further: Any) -> bytes:
    """An answer as Prometheus writes it, or with spaces."""
    payload = {"status": "success", "data": {"resultType": "vector", "result": rows, **further}}
    return json.dumps(payload, separators=None if spaces else (",", ":"), ensure_ascii=False).encode()


def outcome(payload: Any) -> Any:
    """All that is made of an answer: what is shown, and what is dropped."""
    if not isinstance(payload, dict) or not isinstance(payload.get("data"), dict):
        return payload
    rows = payload["data"].get("result")
    if not isinstance(rows, Vector | list):
        return payload
    asked = (Accelerators("gpu", "", 2),)
    jobs = {name: JobParts.of(Job(job_id=name, status=Status.RUNNING, accelerators=asked), ["x-0"]) for name in "ab"}
    found = Collected(PLAN, jobs, {*jobs, "ended"})
    for some in rows.slices() if isinstance(rows, Vector) else slices(rows):
        found.add(PLAN.queries[0], some)
    for _ in found.settle():
        pass
    rest = {**payload, "data": {key: value for key, value in payload["data"].items() if key != "result"}}
    columns = found.readings()
    shown = [(one.of, [subject.keys for subject in one.subjects], list(one.values)) for one in columns]
    return rest, found.dropped, shown


def test_the_labels_are_those_of_the_table() -> None:
    assert Labels.__struct_fields__ == (JOB_LABEL, *POD_LABELS, *CARD_LABELS)


def test_samples_come_some_hundred_at_a_time_and_others_have_their_turn() -> None:
    rows = [row("50", service_id=f"job-{number:040}", pod_name="worker-0") for number in range(40_000)]
    body = answer(rows)

    async def main() -> tuple[Any, int]:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        payload = await decode_answer(body)
        counting.cancel()
        return payload, turns

    payload, turns = asyncio.run(main())
    assert turns >= len(body) // 2**20
    vector = payload["data"]["result"]
    assert isinstance(vector, Vector)
    some = list(vector.slices())
    assert max(map(len, some)) <= 1000
    assert [sample.metric.service_id for part in some for sample in part] == [
        given_row["metric"]["service_id"] for given_row in rows
    ]
    assert [len(part) for part in slices(rows[:600])] == [250, 250, 100]


def test_a_long_vector_that_cannot_be_cut_waits_as_bytes() -> None:
    rows = [row("50", service_id=f"job-{number:040}", pod_name="worker-0") for number in range(10_000)]
    odd = {"metric": {"service_id": 2**64}, "value": [1.0, "1"]}
    payload = decoded(answer([*rows[:300], odd, *rows[300:]], spaces=True))
    packed = payload["data"]["result"]
    assert isinstance(packed, Packed)
    assert [one for part in packed.slices() for one in part] == [*rows[:300], None, *rows[300:]]


def test_a_long_vector_of_another_form_takes_little_memory() -> None:
    body = b'{"status":"success","data":{"resultType":"vector","result":[%b0]}}' % (b'{"a":1},' * 200_000)
    tracemalloc.start()
    try:
        payload = decoded(body)
        assert tracemalloc.get_traced_memory()[0] < 2 * len(body)
    finally:
        tracemalloc.stop()
    assert sum(map(len, payload["data"]["result"].slices())) == 200_001


def test_what_stands_around_the_samples_is_kept() -> None:
    payload = decoded(answer([row("1", service_id="a")], stats={"n": [1]}, infos=["x"]))
    assert isinstance(payload["data"].pop("result"), Vector)
    assert payload == {"status": "success", "data": {"resultType": "vector", "stats": {"n": [1]}, "infos": ["x"]}}


@pytest.mark.parametrize(
    "body",
    [
        answer([]),
        answer(None),
        answer([row("1", service_id="a")], spaces=True),
        answer([row("1", service_id="a", pod_name='quoted "]}]')]),
        answer([row("1", service_id="a", pod_name="not ASCII: é")]),
        answer([row("1", service_id="a"), {"metric": {}, "value": [float("nan"), "1"]}]),
        b"[" + answer([row("1", service_id="a")]) + b"]",
        answer([row("1", service_id="a")]).replace(b'"result"', b'"results"'),
        answer([row("1", service_id="a")]).replace(b"]}}", b'],"result":["later"]}}'),
        answer([row("1", service_id="a")]) + b"}",
        answer([row("1", service_id="a")])[:-1],
        answer([row("1", service_id="a")]).replace(b"]}]", b"]}]]", 1),
        b'{"error":[{"metric":{"x":["y"]}]}}',
        b'[{"metric":{"]}]',
        b"",
    ],
)
def test_any_other_answer_is_decoded_in_one_go(body: bytes) -> None:
    payload, plain = decoded(body), decode_json(body)
    assert payload == plain or repr(payload) == repr(plain)  # NaN is not equal to itself


def test_a_sample_that_is_unusual_is_taken_as_the_json_has_it() -> None:
    rows = [row(2, service_id="a", pod_name="x-0", gpu_id=1), row("1", service_id="a", pod_name="x-0", gpu_id="0")]
    vector = decoded(answer(rows))["data"]["result"]
    assert list(vector.slices()) == [rows]
    (usual,) = decoded(answer(rows[1:]))["data"]["result"].slices()
    assert isinstance(usual[0], Sample)
    _, dropped, shown = outcome(decoded(answer(rows)))
    assert (dropped, shown[0][2]) == ({}, [0.015])


def test_digits_beyond_reason_are_no_json_once_they_are_read() -> None:
    body = answer([row("1", service_id="a")]).replace(b"1767595140.5", b"1" * 5000)
    assert decode_json(body) is NOT_JSON
    with pytest.raises(BadAnswer, match="not JSON"):
        list(decoded(body)["data"]["result"].slices())


_TEXT = st.sampled_from(["", "a", "b", "ended", "x-0", "0", "1", '"', "\\", '"]}]', '},{"metric":{', "é", "\n"])
_ROW = st.one_of(
    st.fixed_dictionaries(
        {
            "metric": st.dictionaries(
                st.sampled_from(["service_id", "pod_name", "pod", "gpu_id", "metric"]),
                _TEXT | st.integers(0, 3) | st.none(),
            ),
            "value": st.tuples(st.integers(0, 9), st.sampled_from(["50", "7", "NaN", "-1", "x"]) | st.integers(0, 99)),
        }
    ),
    st.fixed_dictionaries({"metric": st.dictionaries(_TEXT, _TEXT), "value": st.lists(_TEXT | st.floats())}),
    st.recursive(_TEXT | st.none(), lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=4),
)


@given(st.lists(_ROW), st.booleans())
def test_the_outcome_is_that_of_decoding_in_one_go(rows: list[Any], spaces: bool) -> None:
    body = answer(rows, spaces=spaces)
    assert repr(outcome(decoded(body))) == repr(outcome(decode_json(body)))


@given(st.integers(0, 400), st.integers(0, 12), st.sampled_from([*b'{}[],:"\\ a0\xff\xc3', *b"metric"]))
@example(0, 0, ord(" "))
def test_an_answer_that_is_damaged_anywhere_is_judged_as_before(place: int, removed: int, put: int) -> None:
    rows = [
        row(str(number), service_id=job_id, pod_name="x-0", gpu_id=str(number)) for number, job_id in enumerate("abab")
    ]
    body = answer(rows)
    damaged = body[:place] + bytes([put]) + body[place + removed :]
    assert repr(outcome(decoded(damaged))) == repr(outcome(decode_json(damaged)))
