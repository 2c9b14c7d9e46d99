"""One reading goes the way that docs/architecture.md shows, from a cloud's response to a scrape, by few files."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import MutableMapping
from contextlib import aclosing
from types import FrameType
from typing import Any

import pytest
from benchmarks.cloud import Fleet, config, serve
from benchmarks.rig import load

from tests.architecture.source import ROOT
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.pages import Pages

_STEP = re.compile(r"^\| \d+ \| \[\S+\]\(\.\./src/trainfleet_exporter/(\S+)\) \| `(\S+)` \|", re.MULTILINE)
_MOST_FILES = 10


async def _walk() -> tuple[list[tuple[str, str]], bytes]:
    """Poll one job of two pods and scrape; the functions that run, each once, in the order in which they begin."""
    async with aclosing(serve(Fleet(1, 2))) as cloud:
        exporter = Exporter(load(config(cloud.url)), installed_platforms())
        runners = {runner.state.collector: runner for runner in exporter.runners}
        for name in ("workspaces", "jobs"):
            await runners[name].tick()
        entered: dict[tuple[str, str], None] = {}

        def note(frame: FrameType, event: str, _: object) -> None:
            file = frame.f_code.co_filename.rpartition("/trainfleet_exporter/")[2]
            if event == "call":
                entered.setdefault((file, frame.f_code.co_qualname))

        sys.setprofile(note)
        try:
            await runners["usage"].tick()
            exporter.page_store.build()
            exporter.page_store.is_kept_built = True
            body = await _scrape(exporter)
        finally:
            sys.setprofile(None)
            await exporter.aclose()
    return list(entered), body


async def _scrape(exporter: Exporter) -> bytes:
    app = make_app(Pages(page_store=exporter.page_store, telemetry=exporter.telemetry))
    sent: list[bytes] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body", b""))

    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": [], "query_string": b""}
    await app(scope, receive, send)
    return b"".join(sent)


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    return _STEP.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))


def test_reading_goes_the_way_that_the_docs_show(steps: list[tuple[str, str]]) -> None:
    entered, body = asyncio.run(_walk())
    assert body.count(b"\ntrainfleet_pod_accelerator_utilization_ratio{") == 2
    assert [step for step in steps if step not in entered] == []
    assert sorted(steps, key=entered.index) == steps


def test_way_of_a_reading_has_at_most_ten_files(steps: list[tuple[str, str]]) -> None:
    assert 1 < len({file for file, _ in steps}) <= _MOST_FILES
