"""Answers of a cloud as objects: what fits is read, what does not is absent alone, and too much is refused in time."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.transport.rig import Rig, http, raw_server
from trainfleet_exporter.errors import BadAnswer, CloudError, RequestRefused
from trainfleet_exporter.transport import BodyLimits, json_fields
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
        ({"JobId": {"x": 1}, "Specs": "none"}, Row(), 1),
        ({"JobId": True, "IsSpot": 2, "Spec": [], "Tags": "x"}, Row(), 3),
        ({"JobId": "a", "Specs": [{"Type": "a"}, "x", [], {"Type": "b"}]}, Row("a", specs=[Spec("a"), Spec("b")]), 2),
    ],
)
def test_what_does_not_fit_is_absent_alone(fields: dict[str, Any], expected: Row, lost: int) -> None:
    found, counted = read(fields)
    assert found == expected
    assert counted == Counter({"malformed": lost} if lost else {})


# Bodies


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


async def test_a_gzip_answer_over_the_wire() -> None:
    answer = http(gzip.compress(b'{"Jobs": [1]}', mtime=0), GZIP)
    async with raw_server(answer) as server, Rig(base_url=f"http://{server.address}") as rig:
        assert await rig.call() == {"Jobs": [1]}
        assert await rig.call() == {"Jobs": [1]}
        assert server.connections == 1


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


async def test_few_large_bodies_are_received_at_a_time() -> None:
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

    async with Rig(lambda _: httpx.Response(200, stream=Slow())) as rig:
        calls = [asyncio.create_task(rig.call()) for _ in range(8)]
        await asyncio.sleep(1)
        assert under_way == 4
        done.set()
        assert [len(payload["padding"]) for payload in await asyncio.gather(*calls)] == [_MIB] * 8
    assert most == 4


# Fields


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
