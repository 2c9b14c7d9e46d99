"""An exporter that polls on command: `python -m benchmarks.driven CONFIG`.

The exporter, its poll thread and its web server are those of the daemon; only the schedule is not. Each line of its
input is a command, answered by a line of JSON when it is done: the CPU seconds that the process has used.

* `sweep`: poll every collector once, and wait until their page is ready to be sent.
* `on`, `off`: start and stop polling every collector without a pause; the poll under way goes on to its end.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from time import process_time

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.polling.poll_thread import PollThread
from trainfleet_exporter.process.resources import tune_memory
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.server import WebServer

_FIRST = ("workspaces", "jobs")


async def _main(config_path: Path) -> None:
    platforms = installed_platforms()
    config = load_config(config_path, environ={}, platforms={name: one.config for name, one in platforms.items()})
    exporter = Exporter(config, platforms)
    pages = Pages(page_store=exporter.page_store, telemetry=exporter.telemetry)
    server = WebServer(make_app(pages), listen("127.0.0.1:0"))
    tune_memory()
    exporter.page_store.current()
    exporter.page_store.is_kept_built = True
    await server.start()
    print(json.dumps({"url": f"http://{server.addresses[0]}"}), flush=True)
    polls, driver = PollThread(lambda: sys.exit("the poll thread died")), _Driver(exporter)
    await polls.call(driver.begin())
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        await polls.call(driver.do(command))
        print(json.dumps({"cpu": process_time()}), flush=True)
    await server.stop()
    await polls.call(exporter.aclose())
    await polls.close()


class _Driver:
    """Carries out commands in the loop that polls."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._wanted = asyncio.Event()
        self._building: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Build pages from now on."""
        self._building = asyncio.create_task(self._exporter.page_store.keep_built())

    async def do(self, command: str) -> None:
        """Carry out one command."""
        match command:
            case "sweep":
                await _poll(self._exporter)
                self._exporter.page_store.build()
            case "on":
                self._wanted.set()
                self._polling = asyncio.create_task(_poll_on(self._exporter, self._wanted))
            case "off" if self._polling is not None:
                self._wanted.clear()
                await self._polling


async def _poll(exporter: Exporter) -> None:
    # The exporter keeps readings of new jobs only when it knows these jobs.
    first = [runner for runner in exporter.runners if runner.state.collector in _FIRST]
    await asyncio.gather(*(runner.tick() for runner in first))
    await asyncio.gather(*(runner.tick() for runner in exporter.runners if runner not in first))
    failed = [f"{runner.state.collector}: {runner.errors}" for runner in exporter.runners if not runner.state.success]
    if failed:
        raise RuntimeError(f"these collectors fail: {'; '.join(failed)}")


async def _poll_on(exporter: Exporter, wanted: asyncio.Event) -> None:
    while wanted.is_set():
        await _poll(exporter)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
