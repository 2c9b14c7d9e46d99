"""Lists the files of the exporter that one call, one jobs poll and one gzip scrape pass through (`sys.setprofile`).

`python -m benchmarks.passed --checkout PATH` traces another checkout. A file is passed if one of its functions is
entered. The call is what an operation of a provider (`_OPERATIONS`) passes through in a poll of `workspaces`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import trainfleet_exporter
from benchmarks.cloud import Fleet, config, serve
from benchmarks.processes import become
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.providers.registry import installed_platforms

_PACKAGE = f"{Path(trainfleet_exporter.__file__).parent}/"
_OPERATIONS = re.compile(r"providers/\w+/(api|client)\.py")
"""Files whose functions are the operations of an API."""
_EVERYTHING = re.compile("")
_JOBS, _PODS = 100, 8
_SCRAPES = 3
_UNTIL_BUILT = 3.0
"""Seconds after the first polls in which the page is built."""

Passed = Mapping[str, set[str]]
"""Names of the functions that were entered, by file."""


async def passed(work: Callable[[], Awaitable[object]], *, below: re.Pattern[str] = _EVERYTHING) -> Passed:
    """What some work on the running loop passes through, in all threads; only `below` functions of certain files."""
    found: defaultdict[str, set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_PACKAGE) and _is_below(frame, below):
            found[name.removeprefix(_PACKAGE)].add(frame.f_code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        await work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def _is_below(frame: FrameType | None, files: re.Pattern[str]) -> bool:
    while frame is not None and not files.match(frame.f_code.co_filename.removeprefix(_PACKAGE)):
        frame = frame.f_back
    return frame is not None


async def trace() -> Mapping[str, Passed]:
    """The three, each as it is after others of its kind."""
    fleet = Fleet(_JOBS, _PODS)
    async with await serve(fleet) as cloud:
        loaded = _load(f"http://127.0.0.1:{cloud.sockets[0].getsockname()[1]}")
        exporter = Exporter(loaded, installed_platforms())
        runners = {runner.state.collector: runner for runner in exporter.runners}
        for _ in range(2):
            await runners["workspaces"].tick()
            await runners["jobs"].tick()
        call = await passed(runners["workspaces"].tick, below=_OPERATIONS)
        fleet.change(jobs=1.0)
        jobs = await passed(runners["jobs"].tick)
        await exporter.aclose()
        scrape = await _trace_scrape(loaded)
    return {"one call": call, "a jobs poll, every job new": jobs, "a gzip scrape": scrape}


async def _trace_scrape(loaded: Config) -> Passed:
    daemon = Daemon(loaded, installed_platforms(), WebSettings(addresses=("127.0.0.1:0",)))
    await daemon.start()
    try:
        host, port = daemon.server.addresses[0].rsplit(":", 1)
        for runner in daemon.exporter.runners:
            await runner.first_poll_done.wait()
        await asyncio.sleep(_UNTIL_BUILT)
        scrapes = [await passed(lambda: _scrape(host, int(port))) for _ in range(_SCRAPES)]
    finally:
        await daemon.stop()
    return min(scrapes, key=len)  # what else the daemon does meanwhile is in another one


async def _scrape(host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    if b"chunked" in head.lower() or not gzip.decompress(body):
        raise RuntimeError(f"no whole gzip page: {head!r}")


def _load(url: str) -> Config:
    with TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(config(url).replace("poll_interval: 60s", "poll_interval: 3600s"), encoding="utf-8")
        platforms = {name: platform.config for name, platform in installed_platforms().items()}
        return load_config(path, environ={}, platforms=platforms)


def main() -> int:
    """Trace and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passed", description=__doc__)
    parser.add_argument("--checkout", type=Path, help="the checkout whose exporter is traced")
    parser.add_argument("--files", action="store_true", help="list the files")
    asked = parser.parse_args()
    if asked.checkout is not None:
        become("benchmarks.passed", ["--files"] if asked.files else [], asked.checkout)
    for what, found in asyncio.run(trace()).items():
        print(f"{what}: {len(found)} files, {sum(map(len, found.values()))} functions")
        if asked.files:
            print("\n".join(f"    {name}: {', '.join(sorted(functions))}" for name, functions in sorted(found.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
