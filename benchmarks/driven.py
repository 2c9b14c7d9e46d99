"""An exporter that polls when it is told to: `python -m benchmarks.driven CONFIG`, beside which a benchmark sits.

The exporter and its web server are those of the daemon; only the schedule is not. Lines on its input are orders, and
each is answered by a line of JSON: `poll` polls every sweep once, and from then on the cycles over jobs go on by
themselves; `sweep` polls the sweeps that it names (all, where it names none) and waits until their page is ready to be
sent; `on` and `off` begin and end to poll every sweep without a pause (the poll under way goes on to its end), `look`
does nothing. What is told is the process's CPU seconds, the wall seconds of the order, and its memory.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Collection
from pathlib import Path
from time import perf_counter, process_time

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.polling import PerObjectCollector
from trainfleet_exporter.process.resources import tune_memory
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.web.app import Pages, make_app
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.server import WebServer

_FIRST = ("workspaces", "jobs")


async def _main(config_path: Path) -> None:
    platforms = installed_platforms()
    config = load_config(config_path, environ={}, platforms={name: one.config for name, one in platforms.items()})
    exporter = Exporter(config, platforms)
    pages = Pages(
        page_store=exporter.page_store,
        telemetry=exporter.telemetry,
        waiting_for=exporter.waiting_for,
        config_text=lambda: "",
    )
    server = WebServer(make_app(pages), listen("127.0.0.1:0"))
    tune_memory()
    await server.start()
    ready = asyncio.create_task(exporter.page_store.keep_built())
    print(json.dumps({"url": f"http://{server.addresses[0]}"}), flush=True)
    loop = asyncio.get_running_loop()
    polling: asyncio.Task[None] | None = None
    wanted = asyncio.Event()
    rolling: set[asyncio.Task[None]] = set()
    while order := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        began = perf_counter()
        match order.split():
            case ["poll"]:
                await _poll(exporter)
                if not rolling:
                    rolling |= {
                        asyncio.create_task(_roll(runner))
                        for runner in exporter.runners
                        if isinstance(runner.collector, PerObjectCollector)
                    }
            case ["sweep", *names]:
                await _poll(exporter, names)
                await exporter.page_store.build()
            case ["on"]:
                wanted.set()
                polling = asyncio.create_task(_poll_on(exporter, wanted))
            case ["off"] if polling is not None:
                wanted.clear()
                await polling
        print(json.dumps({"cpu": process_time(), "wall": perf_counter() - began, **_memory()}), flush=True)
    ready.cancel()
    await server.stop()
    await exporter.aclose()


async def _poll(exporter: Exporter, names: Collection[str] = ()) -> None:
    sweeps = [
        runner
        for runner in exporter.runners
        if not isinstance(runner.collector, PerObjectCollector) and (not names or runner.state.collector in names)
    ]
    # Readings of jobs that came since the last poll are taken only when these jobs are known.
    first = [runner for runner in sweeps if runner.state.collector in _FIRST]
    await asyncio.gather(*(runner.tick() for runner in first))
    await asyncio.gather(*(runner.tick() for runner in sweeps if runner not in first))
    failed = [runner.state.collector for runner in sweeps if not runner.state.success]
    if failed:
        raise SystemExit(f"these collectors fail: {', '.join(failed)}")


async def _poll_on(exporter: Exporter, wanted: asyncio.Event) -> None:
    while wanted.is_set():
        await _poll(exporter)


async def _roll(runner: object) -> None:
    while True:
        await runner.tick()  # type: ignore[attr-defined]


def _memory() -> dict[str, float]:
    """Resident memory now and at its peak, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {
        name: int(found[1]) / 1024
        for name, key in (("rss", "VmRSS"), ("peak", "VmHWM"))
        if (found := re.search(rf"{key}:\s+(\d+)", status))
    }


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
