"""Answers of AOM, from their bytes to columns: decoded in batches, and one odd row loses only itself."""

from __future__ import annotations

import asyncio
import json
import math
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.exposition import lines
from tests.support.golden import check_golden
from tests.transport.rig import Rig
from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.model import Accelerators, Job, Status
from trainfleet_exporter.providers.huawei_modelarts.api import Identity
from trainfleet_exporter.providers.huawei_modelarts.payloads import Labels, Sample, Series, Value
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import AomApi, Collected, JobNames, is_too_large
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import CARD_LABELS, JOB_LABEL, POD_LABELS, plans
from trainfleet_exporter.transport.body import decode_json

GOLDEN = Path(__file__).parent / "golden"
PLAN = next(plan for plan in plans(None, {}) if plan.reading.measure.device is not None)


class _Project:
    async def project(self, deadline: float) -> str:
        return "p"


async def batches(body: bytes) -> Iterator[list[Sample | None]]:
    """What a query returns that is answered so."""
    async with Rig(lambda _: httpx.Response(200, content=body)) as rig:
        aom = AomApi(rig.client, cast("Identity", _Project()))
        return await aom.query("up", deadline=asyncio.get_running_loop().time() + 60)


async def collected(body: bytes) -> Collected:
    asked = (Accelerators("gpu", "", 2),)
    jobs = {name: JobNames.of(Job(job_id=name, status=Status.RUNNING, accelerators=asked), ["x-0"]) for name in "ab"}
    found = Collected(PLAN, jobs, {*jobs, "ended"})
    for samples in await batches(body):
        found.add(PLAN.queries[0], samples)
    found.settle()
    return found


def outcome(body: bytes) -> Any:
    """All that is made of an answer: what is shown, and what is dropped; or that it is no answer."""
    try:
        found = asyncio.run(collected(body))
    except BadAnswer:
        return None
    columns = [column.readings for column in found.columns]
    shown = [(one.of, [subject.keys for subject in one.subjects], list(one.values)) for one in columns]
    return found.dropped, shown


def row(value: object, **labels: Any) -> dict[str, Any]:
    return {"metric": labels, "value": [1767595140.5, value]}


def answer(rows: Any, *, spaces: bool = False, kind: str = "vector", **further: Any) -> bytes:
    """An answer as Prometheus writes it, or with spaces."""
    payload = {"status": "success", "data": {"resultType": kind, "result": rows, **further}}
    return json.dumps(payload, separators=None if spaces else (",", ":"), ensure_ascii=False).encode()


ROWS = [row(str(10 * n), service_id="ab"[n % 2], pod_name="x-0", gpu_id=str(n // 2)) for n in range(4)]


def test_the_labels_are_those_of_the_table() -> None:
    assert Labels.__struct_fields__ == (JOB_LABEL, *POD_LABELS, *CARD_LABELS)


def test_samples_are_decoded_in_batches() -> None:
    rows = [row("50", service_id=f"job-{number}") for number in range(600)]
    found = list(asyncio.run(batches(answer(rows))))
    assert [len(samples) for samples in found] == [250, 250, 100]
    names = [
        one.metric.service_id for samples in found for one in samples if one is not None and one.metric is not None
    ]
    assert names == [f"job-{number}" for number in range(600)]


def test_a_long_vector_waits_as_bytes() -> None:
    """80,000 cards are a third of a gigabyte as plain JSON values."""
    rows = [row("50", service_id=f"job-{number:040}", pod_name=f"worker-{number}") for number in range(10_000)]
    body = answer(rows)
    tracemalloc.start()
    try:
        found = asyncio.run(batches(body))
        assert tracemalloc.get_traced_memory()[0] < 2 * len(body)
    finally:
        tracemalloc.stop()
    assert sum(map(len, found)) == 10_000


def test_more_samples_than_any_fleet_has_are_refused() -> None:
    with pytest.raises(BadAnswer, match="over the limit of 250,000 samples") as caught:
        asyncio.run(batches(answer([0] * 250_001)))
    assert is_too_large(caught.value)


@pytest.mark.parametrize("rows", [[], None])
def test_an_empty_vector(rows: Any) -> None:
    assert list(asyncio.run(batches(answer(rows)))) == []


@pytest.mark.parametrize(
    "body",
    [
        answer("none"),
        answer({}),
        answer(ROWS, kind="matrix"),
        answer(ROWS).replace(b'"result"', b'"results"'),
        b'{"status":"success","data":null}',
        b'{"status":"success","data":[]}',
        b"[" + answer(ROWS) + b"]",
        answer(ROWS) + b"}",
        answer(ROWS)[:-1],
        answer(ROWS).replace(b"]}]", b"]}]]", 1),
        answer(ROWS).replace(b"x-0", b"\\x", 1),
        answer(ROWS).replace(b"x-0", b"\x01", 1),
        b"",
    ],
)
def test_anything_else_is_no_answer(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        asyncio.run(batches(body))


def test_how_an_answer_is_written_makes_no_difference() -> None:
    good = outcome(answer(ROWS))
    assert good[0] == {}
    assert outcome(answer(ROWS, spaces=True)) == good
    assert outcome(answer(ROWS, stats={"n": [1]}, infos=["x"])) == good
    numbers = [{**one, "value": [str(one["value"][0]), float(one["value"][1])]} for one in ROWS]
    assert outcome(answer(numbers)) == good


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (row("1"), "malformed"),
        (row("1", service_id="elsewhere"), "unlisted"),
        (row(None, service_id="a"), "malformed"),
        (row(True, service_id="a"), "malformed"),
        (row("", service_id="a"), "malformed"),
        (row("NaN", service_id="a"), "no_data"),
        (row(math.nan, service_id="a"), "no_data"),
        (row(-1, service_id="a"), "no_data"),
        (row(math.inf, service_id="a"), "out_of_range"),
        ({"metric": {"service_id": "a"}}, "malformed"),
        ({"metric": {"service_id": "a"}, "value": "1"}, "malformed"),
        ({"metric": {"service_id": "a"}, "value": [1, "1", 1]}, "malformed"),
        ({"metric": "a", "value": [1, "1"]}, "malformed"),
        ({"metric": {"service_id": ["a"]}, "value": [1, "1"]}, "malformed"),
        ({}, "malformed"),
        ([], "malformed"),
        (None, "malformed"),
        ("x", "malformed"),
    ],
)
def test_an_odd_row_loses_only_itself(odd: object, reason: str) -> None:
    assert outcome(answer([*ROWS[:2], odd, *ROWS[2:]])) == ({reason: 1}, outcome(answer(ROWS))[1])


def test_an_answer_that_is_not_utf8_is_refused() -> None:
    body = answer([*ROWS, row("1", service_id="a", pod_name="BAD")]).replace(b"BAD", b"\xff")
    assert outcome(body) is None


def test_digits_beyond_reason_lose_only_their_row() -> None:
    body = answer(ROWS).replace(b"1767595140.5", b"1" * 5000, 1)
    assert outcome(body) == ({"malformed": 1}, outcome(answer(ROWS[1:]))[1])


def test_labels_may_be_numbers_or_null() -> None:
    numbers = [
        {**one, "metric": {**one["metric"], "gpu_id": int(one["metric"]["gpu_id"]), "pod": None}} for one in ROWS
    ]
    assert outcome(answer(numbers)) == outcome(answer(ROWS))


@pytest.mark.parametrize(
    ("name", "spoilt"),
    [
        ("aom_nan", b'{"metric":{"service_id":"b","pod_name":"x-0","gpu_id":"7"},"value":[NaN,NaN]}'),
        ("aom_nan_time", b'{"metric":{"service_id":"b","pod_name":"x-0","gpu_id":"7"},"value":[NaN,"70"]}'),
        ("aom_lone_surrogate", b'{"metric":{"service_id":"b","pod_name":"x\\ud83d","gpu_id":"7"},"value":[1,"70"]}'),
    ],
)
def test_golden_pages_that_are_not_quite_json(name: str, spoilt: bytes) -> None:
    body = answer(ROWS).replace(b"]}]", b"]}," + spoilt + b"]")
    found = asyncio.run(collected(body))
    dropped = "".join(f"# dropped {reason}: {count}\n" for reason, count in found.dropped.items())
    check_golden(GOLDEN / f"{name}.txt", lines([column.readings for column in found.columns]) + dropped)


async def series(body: bytes) -> list[Series | None]:
    """What a query of a range returns that is answered so."""
    async with Rig(lambda _: httpx.Response(200, content=body)) as rig:
        aom = AomApi(rig.client, cast("Identity", _Project()))
        deadline = asyncio.get_running_loop().time() + 60
        return list(await aom.query_range("up", start=0, end=60, step=60, deadline=deadline))


def test_the_series_of_a_range() -> None:
    labels = {"service_id": "a", "gpu_id": 3}
    rows = [
        {"metric": labels, "values": [[60, "1"], [120, math.nan], "x", [180]]},
        5,
        {"metric": labels, "values": "1"},
    ]
    first, second, third = asyncio.run(series(answer(rows, kind="matrix")))
    expected = Labels(service_id="a", gpu_id="3")
    assert repr(first) == repr(Series(expected, [Value(60.0, "1"), Value(120.0, math.nan), None, None]))
    assert second is None
    assert third == Series(expected, None)
    assert asyncio.run(series(answer(None, kind="matrix"))) == []
    with pytest.raises(BadAnswer, match="not a matrix"):
        asyncio.run(series(answer(rows)))


@pytest.mark.parametrize(
    ("data", "names"), [(["a", "b", None, {}], {"a", "b"}), ([], set()), (None, set()), ("a", None), ({}, None)]
)
def test_names_of_metrics(data: object, names: set[str] | None) -> None:
    async def main() -> frozenset[str]:
        async with Rig(lambda _: httpx.Response(200, json={"status": "success", "data": data})) as rig:
            aom = AomApi(rig.client, cast("Identity", _Project()))
            return await aom.metric_names(deadline=asyncio.get_running_loop().time() + 60)

    if names is None:
        with pytest.raises(BadAnswer, match="no list of values"):
            asyncio.run(main())
    else:
        assert asyncio.run(main()) == names


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


def field_by_field(body: bytes) -> bytes:
    """The same answer with a NaN in it, so that it is read field by field."""
    return body.replace(b"{", b'{"unread":NaN,', 1)


@given(st.lists(_ROW), st.booleans())
def test_both_ways_to_read_an_answer_have_the_same_outcome(rows: list[Any], spaces: bool) -> None:
    body = answer(rows, spaces=spaces)
    assert outcome(body) is not None
    assert repr(outcome(body)) == repr(outcome(field_by_field(body)))


@given(st.integers(0, 400), st.integers(0, 12), st.sampled_from([*b'{}[],:"\\ a0\xff\xc3', *b"metric"]))
@example(0, 0, ord(" "))
def test_an_answer_that_is_damaged_anywhere_is_read_or_refused(place: int, removed: int, put: int) -> None:
    body = answer(ROWS)
    damaged = body[:place] + bytes([put]) + body[place + removed :]
    found = outcome(damaged)
    if isinstance(decode_json(damaged), dict):
        assert repr(found) == repr(outcome(field_by_field(damaged)))
