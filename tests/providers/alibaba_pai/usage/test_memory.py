"""Responses are released before the next call: a poll of many pages holds none while it waits."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest
from benchmarks.cloud import Fleet, config, serve
from benchmarks.rig import load

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.providers.alibaba_pai import usage
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.transport.payload import decode_value


class _Points(list[object]):
    """A page of readings that a weak reference can follow."""


def test_pages_of_readings_are_released_before_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[weakref.ref[_Points]] = []
    held: list[int] = []

    def decoded(given: Any, into: Any, decode: Any = decode_value) -> _Points:
        points = _Points(decode(given, into))
        pages.append(weakref.ref(points))
        return points

    class Watched(Fleet):
        def last(self, query: dict[str, str]) -> str:
            held.append(sum(page() is not None for page in pages))
            return super().last(query)

    async def main() -> None:
        async with await serve(Watched(400, 8)) as cloud:
            url = f"http://127.0.0.1:{cloud.sockets[0].getsockname()[1]}"
            exporter = Exporter(load(config(url)), installed_platforms())
            runners = {runner.state.collector: runner for runner in exporter.runners}
            for name in ("workspaces", "jobs", "usage"):
                await runners[name].tick()
                assert runners[name].state.success
            await exporter.aclose()

    monkeypatch.setattr(usage, "decode_value", decoded)
    asyncio.run(main())
    assert len(pages) == len(held) > 24  # several pages of each metric
    assert max(held) == 0
