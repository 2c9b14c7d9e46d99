"""Calls that bring their own way to decode a body: it makes the payload, and nothing else changes."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from tests.support.clock import run_stepped
from tests.transport.rig import Rig, Script
from trainfleet_exporter.errors import BadAnswer, RequestTimedOut
from trainfleet_exporter.transport import NOT_JSON
from trainfleet_exporter.transport.body import decode_json


def test_the_payload_is_what_is_made_of_the_body() -> None:
    bodies: list[bytes] = []

    async def decode(body: bytes) -> Any:
        bodies.append(body)
        await asyncio.sleep(0)
        return {"of": body.decode()}

    async def main() -> None:
        answers = Script(httpx.Response(503, content=b"busy"), httpx.Response(200, content=b"x"))
        async with Rig(answers) as rig:
            await rig.failure(decode=decode)
            assert await rig.call(decode=decode, no_data=lambda payload: payload == {"of": "x"}) == {"of": "x"}
            assert rig.outcomes == ["server", "no_data"]
        assert bodies == [b"busy", b"x"]  # each answer is decoded before it is judged

    run_stepped(main)


def test_what_it_cannot_decode_is_an_answer_that_is_no_json() -> None:
    async def decode(body: bytes) -> Any:
        return decode_json(body)

    async def main() -> None:
        async with Rig(Script(httpx.Response(200, content=b"<html>"))) as rig:
            told = str(await rig.failure(decode=decode))
            assert told == str(await rig.failure())
            assert "is not JSON" in told

    run_stepped(main)


def test_decoding_ends_with_the_time_of_the_request() -> None:
    async def decode(_: bytes) -> Any:
        await asyncio.sleep(3600)

    async def main() -> None:
        async with Rig(Script(200)) as rig:
            assert isinstance(await rig.failure(decode=decode, within=5), RequestTimedOut)

    run_stepped(main)


def test_not_json_is_judged_as_such() -> None:
    async def decode(_: bytes) -> Any:
        return NOT_JSON

    async def main() -> None:
        async with Rig(Script(200)) as rig:
            assert isinstance(await rig.failure(decode=decode), BadAnswer)

    run_stepped(main)
