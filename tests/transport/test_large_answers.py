"""Answers that hold too much: refused before they are decoded, decoded once, and one at a time."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from weakref import WeakSet

import httpx
import pytest

from tests.support.clock import run_stepped
from tests.transport.rig import Rig
from trainfleet_exporter.errors import BadAnswer, CloudError
from trainfleet_exporter.providers.huawei_modelarts.aom import is_too_large
from trainfleet_exporter.providers.huawei_modelarts.payloads import QueryAnswer
from trainfleet_exporter.providers.listing import Page, read_whole_list
from trainfleet_exporter.quantities import text
from trainfleet_exporter.transport import BULK, NOT_JSON, BodyLimits, Call
from trainfleet_exporter.transport.body import decode_json

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
def test_many_values_are_refused_undecoded(unit: bytes, last: bytes, limits: BodyLimits) -> None:
    decoded = []

    async def decode(body: bytes) -> Any:
        decoded.append(len(body))
        return {}

    answer = httpx.Response(200, content=gzip.compress(_many(unit, last), 1), headers={"content-encoding": "gzip"})

    async def main() -> CloudError:
        async with Rig(lambda _: answer) as rig:
            return await rig.failure(decode=decode, limits=limits)

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


def test_one_large_answer_is_decoded_at_a_time() -> None:
    under_way, most = 0, 0

    async def decode(body: bytes) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(3):
            await asyncio.sleep(0)
        under_way -= 1
        return {}

    async def calls(content: bytes) -> int:
        nonlocal most
        most = 0
        async with Rig(partial(_answer, content)) as one, Rig(partial(_answer, content)) as other:
            await asyncio.gather(*(rig.call(decode=decode) for rig in (one, other) for _ in range(4)))
        return most

    assert asyncio.run(calls(_LARGE)) == 1
    assert asyncio.run(calls(b"{}")) > 1


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


def test_one_large_payload_is_there_at_a_time() -> None:
    class Payload(dict[str, Any]):
        """A payload that can be referred to weakly."""

        __hash__ = object.__hash__  # type: ignore[assignment]

    content = b'{"total":60000,"items":[%b0]}' % (b'{"a":1},' * 60_000)
    payloads: WeakSet[Payload] = WeakSet()
    most = 0

    async def decode(body: bytes) -> Any:
        nonlocal most
        payload = Payload(decode_json(body))
        payloads.add(payload)
        most = max(most, len(payloads))
        return payload

    async def read(rig: Rig) -> int:
        async def read_page(_: int) -> Page[Any]:
            payload = await rig.call(decode=decode)
            # The listing has the rows alone, so they hold on to what they came in.
            return Page(payload["total"], Rows(payload))

        listing = await read_whole_list(read_page, id_of=lambda row: text(row, "id"), operation="ListThings")
        return listing.malformed

    class Rows(list[Any]):
        """Rows that know their payload."""

        def __init__(self, payload: Payload) -> None:
            super().__init__(payload["items"])
            self.payload = payload

    async def main() -> list[int]:
        async with Rig(partial(_answer, content)) as one, Rig(partial(_answer, content)) as other:
            return await asyncio.gather(*(read(rig) for rig in (one, other) for _ in range(4)))

    assert asyncio.run(main()) == [60_001] * 8
    assert most == 1


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


def test_half_a_surrogate_pair_costs_no_second_payload() -> None:
    def peak(last: bytes) -> int:
        body = _many(b"[],", last, 100_000)
        tracemalloc.start()
        try:
            assert decode_json(body) is not NOT_JSON
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(b'"\\ud83d"') < 1.3 * peak(b"NaN")


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
