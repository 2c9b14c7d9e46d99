"""Answers of a cloud as objects: what fits is read, what does not is absent alone, and too much is refused in time."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from tests.transport.rig import Rig, http, raw_server
from trainfleet_exporter.errors import BadAnswer, CloudError, RequestRefused
from trainfleet_exporter.transport import BodyLimits, body, json_fields, payload
from trainfleet_exporter.transport.body import decode_json
from trainfleet_exporter.transport.calls import NOT_JSON
from trainfleet_exporter.transport.json_fields import counting_unusable
from trainfleet_exporter.transport.payload import decode

GZIP = "Content-Encoding: gzip"


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


def test_numbers_beyond_all_bounds_are_left_to_who_reads_them() -> None:
    for text in ("1e999", "1" + "0" * 400, '"inf"', "Infinity"):
        assert decode(f'{{"Duration": {text}}}'.encode(), Row).duration == math.inf
    assert math.isnan(decode(b'{"JobId": "a", "Duration": NaN}', Row).duration or 0.0)


def test_a_row_that_is_no_object_keeps_its_place() -> None:
    assert decode(b'{"Rows": [1, {"JobId": "a"}, null, []]}', Page).rows == [None, Row(job_id="a"), None, None]


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


def test_what_does_not_fit_is_read_up_to_a_limit() -> None:
    fits, spoilt = b'{"name": "a", "values": [[1, 2]]}', b'{"name": 5, "values": [[1, 2]]}'
    assert decode(fits, Series, tolerated=1).name == "a"
    assert decode(spoilt, Series, tolerated=5).name == "5"
    with pytest.raises(BadAnswer):
        decode(spoilt, Series, tolerated=4)


# Bodies


def _by_the_standard_library(body: bytes) -> object:
    """What a body holds by Python's own decoder; each byte of half a surrogate pair becomes U+FFFD."""

    def whole(value: object) -> object:
        if isinstance(value, dict):
            return {whole(key): whole(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [whole(inner) for inner in value]
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if isinstance(value, str) else value

    try:
        return whole(json.loads(body.decode("utf-8-sig")))
    except ValueError:
        return NOT_JSON


ODD = st.sampled_from(
    [
        *(
            b'"\\ud83d"',
            b'"\\ud83d\\ude00"',
            b'"\\ud83d\\uD83D\\ude00\\udc00"',
            b'"\\\\ud83d\\ude00"',
            b'"\\\\\\ud83d\\\\"',
            b'{"\\udc00": 1}',
            b'"\xed\xa0\x80"',
            b'"\x01"',
            b'"\x7f"',
            b'"\\u0000\\/"',
        ),
        *(b"-0", b"-0.0", b"1e400", b"NaN", b"Infinity", b"1.", b"01", b"1E5", b"0.1e-400"),
        *(b"18446744073709551616", b"-9223372036854775809", b"9" * 400),
        *(b'{"a":1,"a":2}', b"[1,]", b"\xef\xbb\xbf1", b"\xc2\xa0", b"\x0b", b"'a'", b"// a"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.lists(VALUES.map(json.dumps).map(str.encode) | ODD, max_size=4),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=2)), max_size=2),
)
def test_every_body_is_decoded_as_the_standard_library_does(
    parts: list[bytes], is_list: bool, changes: list[tuple[int, bytes]]
) -> None:
    body = b"[" + b", ".join(parts) + b"]" if is_list else b"".join(parts)
    for place, put in changes:
        body = body[:place] + put + body[place + 1 :]
    assert repr(decode_json(body)) == repr(_by_the_standard_library(body))  # as text: NaN, and 1 or 1.0 or True


def _failure(answer: bytes) -> CloudError:
    async def main() -> CloudError:
        async with raw_server(answer) as server, Rig(base_url=f"http://{server.address}") as rig:
            error = await rig.failure()
            assert rig.outcomes == [error.outcome]
            error.message = error.message.replace(server.address, "HOST")
            assert "SECRET" not in str(error)
            return error

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (http(b"", GZIP), "the answer is not JSON but an empty body"),
        (http(b"<SECRET>", "Content-Type: text/html; x=SECRET"), "the answer is not JSON but 8 bytes of text/html"),
        (http(b"<SECRET>"), "the answer is not JSON but 8 bytes of no stated type"),
        (http(b"SECRET", GZIP), "the answer is not gzip, although its header says so"),
        (http(gzip.compress(b"{}", mtime=0)[:-1], GZIP), "the gzip answer is cut off"),
        (http(gzip.compress(b"{}", mtime=0) * 2, GZIP), "the gzip answer has bytes after its end"),
        (http(b"{}", "Content-Encoding: br"), "the answer has another encoding than gzip"),
        (http(gzip.compress(bytes(9 * 2**20), mtime=0), GZIP), "the answer is over the limit of 8 MiB when inflated"),
        (http(b"[1]"), "JSON but not an object"),
    ],
)
def test_bad_answers_say_what_is_wrong_and_quote_nothing(answer: bytes, message: str) -> None:
    error = _failure(answer)
    assert isinstance(error, BadAnswer)
    assert str(error).startswith("ListJobs: HTTP 200 HOST: ")
    assert str(error).endswith(message)


def test_a_gzip_answer_over_the_wire() -> None:
    async def main() -> None:
        answer = http(gzip.compress(b'{"Jobs": [1]}', mtime=0), GZIP)
        async with raw_server(answer) as server, Rig(base_url=f"http://{server.address}") as rig:
            assert await rig.call() == {"Jobs": [1]}
            assert await rig.call() == {"Jobs": [1]}
            assert server.connections == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("location", "where"),
    [
        ("Location: https://login.test:8443/?token=SECRET", "login.test:8443"),
        ("Location: https://me:SECRET@login.test/", "login.test"),
        ("Location: /elsewhere?SECRET", "HOST"),
        ("Location: http://[SECRET", "no valid address"),
        ("Location: http://h:SECRET/", "no valid address"),
        ("X: y", "HOST"),
    ],
)
def test_redirects_are_refused_and_name_the_host_alone(location: str, where: str) -> None:
    error = _failure(http(b"{}", location, status="302 Found"))
    assert isinstance(error, RequestRefused)
    assert str(error) == f"ListJobs: HTTP 302 HOST: redirected to {where}; redirects are not followed"


# Large answers


_MIB = 2**20
_LARGE = b'{"padding":"%b"}' % (b"x" * _MIB)


def _answer(content: bytes, _: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=content)


@pytest.mark.parametrize("unit", [b"[],", b'{"a":1},', b"NaN,"], ids=["lists", "objects", "NaN"])
def test_many_values_are_refused_undecoded(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    limits, decoded = BodyLimits(values=250_000), list[int]()
    for place in ("client.decode", "exchange.decode_short_fields"):
        monkeypatch.setattr(f"trainfleet_exporter.transport.{place}", lambda body, *_, **__: decoded.append(len(body)))
    content = gzip.compress(b'{"padding":[' + unit * 250_001 + b"1]}", 1)
    answer = httpx.Response(200, content=content, headers={"content-encoding": "gzip"})

    async def main() -> CloudError:
        async with Rig(lambda _: answer) as rig:
            return await rig.failure(limits=limits)

    error = asyncio.run(main())
    assert isinstance(error, BadAnswer)
    assert str(error).endswith("the answer is over the limit of 250,000 values")
    assert decoded == []


def test_one_large_answer_is_decoded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = most = decoded = 0
    pieces_of = body._cut

    def cut(wire: bytes, limit: int) -> Iterator[memoryview]:
        nonlocal under_way, most
        for number, piece in enumerate(pieces_of(wire, limit)):
            if number == 2:  # from the second piece on, an answer is a long one
                under_way += 1
                most = max(most, under_way)
            yield piece

    def decode(*args: Any, **limits: Any) -> Any:
        nonlocal under_way, decoded
        under_way -= 1
        decoded += 1
        return payload.decode(*args, **limits)

    async def main() -> None:
        async with Rig(partial(_answer, _LARGE)) as one, Rig(partial(_answer, _LARGE)) as other:
            await asyncio.gather(*(rig.call() for rig in (one, other) for _ in range(4)))

    monkeypatch.setattr(body, "_cut", cut)
    monkeypatch.setattr("trainfleet_exporter.transport.client.decode", decode)
    asyncio.run(main())
    assert (most, decoded) == (1, 8)


def test_a_large_answer_that_is_slow_holds_up_no_other() -> None:
    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield _LARGE
            await asyncio.sleep(15)

    async def main() -> None:
        async with (
            Rig(lambda _: httpx.Response(200, stream=Slow())) as slow,
            Rig(lambda _: httpx.Response(200, content=_LARGE)) as quick,
        ):
            waiting = asyncio.create_task(slow.call())
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            await quick.call()
            assert asyncio.get_running_loop().time() - began < 1
            assert not waiting.done()
            await waiting

    run_stepped(main)


def test_few_large_bodies_are_received_at_a_time() -> None:
    under_way, most, done = 0, 0, asyncio.Event()

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal under_way, most
            yield _LARGE[:-1]
            under_way += 1
            most = max(most, under_way)
            await done.wait()
            yield _LARGE[-1:]
            under_way -= 1

    async def main() -> None:
        async with Rig(lambda _: httpx.Response(200, stream=Slow())) as rig:
            calls = [asyncio.create_task(rig.call()) for _ in range(8)]
            await asyncio.sleep(1)
            assert under_way == 4
            done.set()
            assert [len(payload["padding"]) for payload in await asyncio.gather(*calls)] == [_MIB] * 8

    run_stepped(main)
    assert most == 4


# Fields


@pytest.mark.parametrize("value", [None, "", True, math.nan, math.inf, -1, "-1", "x", [], {}, 10**400])
def test_not_a_number(value: Any) -> None:
    assert json_fields.number({"n": value}, "n") is None


def test_absent_is_not_zero() -> None:
    assert json_fields.number({}, "n") is None
    assert json_fields.number({"n": 0}, "n") == 0
    assert json_fields.number({"n": "0"}, "n") == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-01T00:00:10Z", 1767225610.0),
        ("2026-01-01T08:00:10+08:00", 1767225610.0),
        ("2026-01-01T00:00:10.250Z", 1767225610.25),
        ("2026-01-01T00:00:10", None),  # no zone: whose noon would it be?
        ("2026-02-30T00:00:00Z", None),
        ("", None),
        (None, None),
        (1767225610, None),
    ],
)
def test_times(text: Any, value: float | None) -> None:
    assert json_fields.utc_time({"t": text}, "t") == value


NOT_SET = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00.000Z",
    "0001-01-01T08:05:43+08:05",
    "0001-01-01T00:00:00+08:00",
    "1969-12-31T16:00:00-08:00",
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00.000000000Z",
    "1970-01-01T00:00:00.999Z",
    "1970-01-01T08:00:00+08:00",
    "1970-01-01T00:00:00+08:00",
    "1970-01-01T00:00:00-08:00",
    "1970-01-01T08:00:00Z",
)


@pytest.mark.parametrize("text", NOT_SET)
def test_a_time_that_is_not_set_is_absent(text: str) -> None:
    with counting_unusable() as lost:
        assert json_fields.utc_time({"t": text}, "t") is None
    assert not lost  # nothing was given
