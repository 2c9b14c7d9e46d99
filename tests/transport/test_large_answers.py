"""Answers that hold too much: refused before they are decoded, decoded once, and one at a time."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any
from weakref import WeakSet

import httpx
import msgspec
import pytest

from tests.support.clock import run_stepped
from tests.transport.rig import Rig
from trainfleet_exporter.errors import BadAnswer, CloudError
from trainfleet_exporter.providers.huawei_modelarts.payloads import QueryAnswer
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import is_too_large
from trainfleet_exporter.providers.jobs.listing import Page, read_whole_list
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import BULK, BodyLimits, Call, body, payload
from trainfleet_exporter.transport.body import decode_json
from trainfleet_exporter.transport.calls import NOT_JSON

_MIB = 2**20
_LARGE = b'{"padding":"%b"}' % (b"x" * _MIB)


def _answer(content: bytes, _: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=content)


def _many(unit: bytes, last: bytes, size: int = 7 * _MIB) -> bytes:
    return b'{"padding":[' + unit * ((size - 100) // len(unit)) + last + b"]}"


@pytest.mark.parametrize(
    ("unit", "last"),
    [(b"[],", b"1"), (b'{"a":1},', b"1"), (b"NaN,", b"1"), (b"[],", b'"\\ud83d"'), (b"[[],{}],", b"1")],
    ids=["lists", "objects", "NaN", "surrogate", "nested"],
)
@pytest.mark.parametrize("limits", [BodyLimits(), BULK], ids=["usual", "bulk"])
def test_many_values_are_refused_undecoded(
    unit: bytes, last: bytes, limits: BodyLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    for place in ("client.decode", "exchange.decode_short_fields"):
        monkeypatch.setattr(f"trainfleet_exporter.transport.{place}", lambda body, *_, **__: decoded.append(len(body)))
    answer = httpx.Response(200, content=gzip.compress(_many(unit, last), 1), headers={"content-encoding": "gzip"})

    async def main() -> CloudError:
        async with Rig(lambda _: answer) as rig:
            return await rig.failure(limits=limits)

    error = asyncio.run(main())
    assert isinstance(error, BadAnswer)
    assert str(error).endswith(f"the answer is over the limit of {limits.values:,} values")
    assert is_too_large(error)
    assert decoded == []


def test_a_call_has_its_own_limits() -> None:
    async def main() -> None:
        async with Rig(lambda _: httpx.Response(200, content=b'{"a":[1,2,3]}')) as rig:
            assert await rig.call(limits=BodyLimits(values=4)) == {"a": [1, 2, 3]}
            assert "limit of 3 values" in str(await rig.failure(limits=BodyLimits(values=3)))
            assert "limit of 12 bytes" in str(await rig.failure(limits=BodyLimits(decoded=12)))

    asyncio.run(main())


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


def test_one_large_payload_is_there_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"total":60000,"items":[%b0]}' % (b'{"a":1},' * 60_000)
    payloads: WeakSet[_Things] = WeakSet()
    most = 0

    def decode(*args: Any, **limits: Any) -> Any:
        nonlocal most
        found = payload.decode(*args, **limits)
        payloads.add(found)
        most = max(most, len(payloads))
        return found

    async def read(rig: Rig) -> int:
        async def read_page(_: int) -> Page[_Thing]:
            call = Call(operation="ListThings", path="/things")
            page = await rig.client.call(call, _Things, deadline=asyncio.get_running_loop().time() + 60)
            # The listing has the rows alone, so they hold on to what they came in.
            return Page(whole(page.total), _Rows(page))

        listing = await read_whole_list(read_page, id_of=lambda row: row.id, operation="ListThings")
        return listing.malformed

    async def main() -> list[int]:
        async with Rig(partial(_answer, content)) as one, Rig(partial(_answer, content)) as other:
            return await asyncio.gather(*(read(rig) for rig in (one, other) for _ in range(4)))

    monkeypatch.setattr("trainfleet_exporter.transport.client.decode", decode)
    assert asyncio.run(main()) == [60_001] * 8
    assert most == 1


class _Thing(msgspec.Struct, gc=False):
    id: str | None = None


class _Things(msgspec.Struct, weakref=True, eq=False):
    """A page that can be referred to weakly."""

    total: float | None = None
    items: list[_Thing | None] | None = None


class _Rows(list[_Thing | None]):
    """Rows that know their page."""

    def __init__(self, page: _Things) -> None:
        super().__init__(page.items or ())
        self.page = page


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


@pytest.mark.parametrize("escape", [b"\\ud83d", rb"\\"], ids=["surrogates", "backslashes"])
def test_too_many_escapes_are_not_looked_through(escape: bytes) -> None:
    assert decode_json(b'["' + escape * 199_999 + b'\\ud83d"]') is not NOT_JSON
    assert decode_json(b'["' + escape * 200_001 + b'\\ud83d"]') is NOT_JSON


def test_an_answer_that_does_not_fit_is_bounded_too() -> None:
    """What is skipped undecoded costs little, but not where the whole answer has to be read field by field."""
    rows = b'{"status":"success","data":{"resultType":"vector","result":[%b0]}}' % (b"[]," * 500_001)

    async def call(content: bytes) -> QueryAnswer:
        async with Rig(partial(_answer, content)) as rig:
            call = Call(operation="Query", path="/query", limits=BodyLimits(values=2_000_000))
            return await rig.client.call(call, QueryAnswer, deadline=asyncio.get_running_loop().time() + 60)

    assert asyncio.run(call(rows)).data is not None
    with pytest.raises(BadAnswer, match="over the limit of 1,000,000 values that can be read field by field") as caught:
        asyncio.run(call(rows.replace(b",0]", b",NaN]")))
    assert is_too_large(caught.value)
