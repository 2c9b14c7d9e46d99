"""Our side of every scrape: `python -m benchmarks.server SERIES [CONNECTIONS [WEB_CONFIG]]` serves a fleet's page.

It does so as the daemon does, to as many connections at a time, with a web config file if one is given.

Parts are published by the stores and the renderer that polls use; only what they hold is made up. Lines on its input
are orders, each answered by a line of JSON when it is done: `all` publishes every provider's parts with other values,
`tenth` those of the next provider of ten; `settle` waits until the page is ready. What is told is the wall seconds
that publishing took, without those that making the objects took; the number of the change, which is what
`trainfleet_jobs` shows of each provider published; and how many providers that were.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path
from time import perf_counter

from benchmarks.fleet import Fleet, Part, Provider
from trainfleet_exporter.page import PageStore, Renderer, RenderSettings
from trainfleet_exporter.polling.parts import PartStore
from trainfleet_exporter.process.resources import tune_memory
from trainfleet_exporter.telemetry import CollectorState, Telemetry
from trainfleet_exporter.web.access import Access, AccessControl
from trainfleet_exporter.web.app import Pages, make_app
from trainfleet_exporter.web.connection_limiter import MAX_CONNECTIONS
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.server import WebServer

_COLLECTORS = {"jobs": "ListJobs", "usage": "DescribeMetricLast", "job_counts": "ListJobs"}
"""With an operation that each calls, for the counters of its telemetry."""


class Held:
    """The page store with a fleet in it."""

    def __init__(self, fleet: Fleet) -> None:
        self.page_store = PageStore()
        self.telemetry = Telemetry()
        self._providers = fleet.providers
        self._next = 0
        self.change = 0
        self.published = 0
        """Providers of which the latest change told."""
        renderer = Renderer(RenderSettings(job_labels=("team", "project")))
        self._stores = {
            (provider.name, collector): self._store(CollectorState(provider.name, collector, 60.0), renderer)
            for provider in fleet.providers
            for collector in _COLLECTORS
        }

    def _store(self, state: CollectorState, renderer: Renderer) -> PartStore:
        self.telemetry.watch(state)
        self.telemetry.attempt(
            state.provider, api="dlc", operation=_COLLECTORS[state.collector], outcome="ok", seconds=0.05
        )
        return PartStore(state, page_store=self.page_store, renderer=renderer, keep_polls=3, poll_timeout=60.0)

    async def publish_all(self) -> float:
        """Other values of everything."""
        return await self._publish(self._providers)

    async def publish_next(self) -> float:
        """Other values of the next provider."""
        provider = self._providers[self._next % len(self._providers)]
        self._next += 1
        return await self._publish([provider])

    async def _publish(self, providers: list[Provider]) -> float:
        self.change += 1
        self.published = len(providers)
        parts: list[tuple[str, Part]] = []
        for provider in providers:
            parts += [(provider.name, part) async for part in provider.parts(self.change)]
        began = perf_counter()
        for name, part in parts:
            await self._stores[name, part.collector].publish(part.key, part.objects)
        return perf_counter() - began


async def _main(fleet: Fleet, max_connections: int, web_config: Path | None) -> None:
    held = Held(fleet)
    await held.publish_all()
    await held.page_store.build()
    keeping_ready = asyncio.create_task(held.page_store.keep_built())
    pages = Pages(page_store=held.page_store, telemetry=held.telemetry, waiting_for=list[str], config_text=lambda: "")
    app = make_app(pages)
    if web_config is not None:
        app = AccessControl(app, Access(web_config))
    server = WebServer(app, listen("127.0.0.1:0"), max_connections=max_connections)
    gc.collect()
    gc.freeze()  # as the daemon does
    await server.start()
    print(json.dumps({"url": f"http://{server.addresses[0]}"}), flush=True)
    loop = asyncio.get_running_loop()
    while order := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        seconds = 0.0
        match order:
            case "all":
                seconds = await held.publish_all()
            case "tenth":
                seconds = await held.publish_next()
            case "settle":
                await held.page_store.build()
        print(json.dumps({"wall": seconds, "change": held.change, "published": held.published}), flush=True)
    keeping_ready.cancel()
    await server.stop()


if __name__ == "__main__":
    tune_memory()
    connections = int(sys.argv[2]) if len(sys.argv) > 2 else MAX_CONNECTIONS
    asyncio.run(_main(Fleet(int(sys.argv[1])), connections, Path(sys.argv[3]) if len(sys.argv) > 3 else None))
