"""Memory of the exporter while clouds send small responses with many values. `python -m benchmarks.answers` is its
child: the simulated clouds."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.ports import held_port

from benchmarks import rig
from benchmarks.report import Goal, Section, Table, number
from trainfleet_simulator import Simulator

_ROWS = 124_900
"""Rows of a page that is just below the limit of values. Each has two values."""
_PAGE = json.dumps({"total": _ROWS, "items": [{"a": 1}] * _ROWS}, separators=(",", ":"))
_FAULTS: Mapping[str, Mapping[str, object]] = {
    **{kind: {"match": {}, "kind": kind} for kind in ("many_lists", "many_objects", "many_nans", "many_surrogates")},
    "padded": {"match": {}, "kind": "padded"},  # just below the limit of values, so the exporter decodes it
    "rows, just below the limit": {"match": {"operation": "ListTrainingJobs"}, "status": 200, "body": _PAGE},
}
"""The simulator's faults."""
_SECONDS, _SHORT_SECONDS = 15.0, 4.0
_FIRST_POLLS_SECONDS = 12.0
_LOOK_EVERY = 0.05
_LIMIT = 60.0
"""MiB above idle, as in SECURITY.md."""
_METHOD = (
    f"One daemon polls two simulated clouds. They send each kind of response for {_SECONDS:.0f} s.",
    "A response has 50 kB and inflates to almost 32 MiB; the rows are 1 MB. The peak is the kernel's.",
)


def run(short: bool, old: Path | None) -> Iterator[Section]:
    """Yield the section. It does not compare: `old` does not matter."""
    columns = ("responses", "number", "peak above idle, MiB", "slowest /-/healthy, s")
    section = Section("Small responses with many values", _METHOD, {"Memory by response": (table := Table(columns))})
    seconds = _SHORT_SECONDS if short else _SECONDS
    peaks: list[float] = []
    waits: list[float] = []
    with tempfile.TemporaryDirectory() as folder, rig.child("answers") as clouds, held_port() as port:
        config = Path(folder, "config.yaml")
        config.write_text(clouds.facts["config"], encoding="utf-8")
        listen = f"--web.listen-address=127.0.0.1:{port}"
        command = [sys.executable, "-m", "trainfleet_exporter", f"--config.file={config}", listen]
        with rig.running(command, log=Path(folder, "log")) as daemon:
            time.sleep(_FIRST_POLLS_SECONDS)
            idle = rig.resident([daemon.pid])
            for kind, fault in _FAULTS.items():
                rig.progress(f"responses: {kind}")
                rig.forget_peak(daemon.pid)
                since = _log(clouds.url, 10**12)["seq"]
                rig.get(f"{clouds.url}/faults", json.dumps([fault]).encode())
                waits.append(_slowest(f"http://127.0.0.1:{port}/-/healthy", seconds))
                rig.get(f"{clouds.url}/faults", b"[]")
                peaks.append(rig.peak(daemon.pid) - idle)
                sent = sum(bool(answer.get("fault")) for answer in _log(clouds.url, since)["answers"])
                table.rows.append((kind.replace("_", " "), str(sent), number(peaks[-1]), number(waits[-1])))
    section.goals += [
        Goal(f"peak at most {_LIMIT:.0f} MiB above idle", f"{number(max(peaks))} MiB", max(peaks) <= _LIMIT),
        Goal("/-/healthy takes at most 1 s", f"{number(max(waits))} s", max(waits) <= 1.0),
    ]
    yield section


def _slowest(url: str, seconds: float) -> float:
    """Request a path for so many seconds; return the longest time of a response."""
    slowest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        rig.get(url)
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(_LOOK_EVERY)
    return slowest


def _log(url: str, since: int) -> dict[str, Any]:
    """Return the responses of the clouds after the first `since` ones."""
    found: dict[str, Any] = json.loads(rig.get(f"{url}/truth?since={since}"))
    return found


async def _main() -> None:
    """Serve simulated clouds until the input ends. No event happens in their worlds, so no job ends."""
    simulator = Simulator(seed=7, clouds=("pai", "modelarts"), population=100, still=True)
    async with simulator.serve() as url:
        print(json.dumps({"url": url, "config": simulator.config_yaml(url)}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
