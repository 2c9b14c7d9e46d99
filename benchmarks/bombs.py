"""Answers of 50 kB that inflate to just under 32 MiB of values: what they cost in memory, and how long they hold up."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from benchmarks import processes
from benchmarks.figures import number
from benchmarks.report import Check, Found, Table

_BOMBS = ("many_lists", "many_objects", "many_nans", "many_surrogates", "padded")
"""The simulator's names for them. The last is just below the limit of values, and so is decoded."""
_A_LIST = "ListTrainingJobs"
_CASES: Mapping[str, Mapping[str, str]] = {
    "GetJob": {"operation": "GetJob"},
    "all operations": {},
    _A_LIST: {"operation": _A_LIST},
}
"""Which calls are answered so."""
_ROWS = 124_900
"""Rows of a page that is just below the limit of values: each has two."""
_SECONDS, _SHORT = 60.0, 10.0
_SETTLE = 12.0
"""Seconds after which all has been polled once."""
_PAUSE = 0.05
_PATIENCE = 120.0
_TOO_MUCH = 4096.0
"""MiB from which on a case is ended, so that the machine is not."""
_MEMORY, _HEALTHY = 400.0, 1.0
"""What is promised: MiB above idle, and seconds."""
_STARTED = re.compile(r"msg=started .*address=\S+:(\d+)")
_COLUMNS = ("answers", "of", "answered so", "idle, MiB", "peak above idle, MiB", "slowest /-/healthy, s")
_METHOD = (
    "A daemon of its own for each row, with both simulated clouds, concurrency 8. Once all has been polled, the clouds "
    f"answer so for {_SECONDS:.0f} s. `/-/healthy` is asked 20 times a second; the peak is the kernel's."
)


@dataclass(frozen=True, slots=True)
class _Measured:
    count: int
    idle: float
    peak: float
    slowest: float

    @property
    def above(self) -> float:
        return self.peak - self.idle


def run(*, short: bool = False) -> Iterator[Found]:
    """A table with a row for each kind of answer, and what was promised."""
    table = Table("Answers of few bytes and many values", _COLUMNS, notes=[_METHOD])
    found = []
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yaml")
        with processes.ordered("benchmarks.bombs_cloud", str(config)) as cloud:
            for name, match in _CASES.items():
                for kind, fault in _faults(name):
                    _set_faults(cloud.url, [])
                    one = _measure(cloud.url, config, {"match": match, **fault}, _SHORT if short else _SECONDS)
                    found.append(one)
                    figures = map(number, (one.idle, one.above, one.slowest))
                    table.rows.append((kind.replace("_", " "), name, str(one.count), *figures))
    yield table
    most, slowest = max(one.above for one in found), max(one.slowest for one in found)
    yield Check(f"answers of many values take at most {_MEMORY:.0f} MiB", f"{number(most)} MiB", most <= _MEMORY)
    yield Check("`/-/healthy` next to them takes at most 1 s", f"{number(slowest)} s", slowest <= _HEALTHY)


def _faults(case: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """What the calls of a case are answered with, one after the other."""
    if case == _A_LIST:
        rows = ",".join(['{"a":1}'] * _ROWS)
        yield "rows, just below the limit", {"status": 200, "body": f'{{"total":{_ROWS},"items":[{rows}]}}'}
        return
    for kind in _BOMBS:
        yield kind, {"kind": kind}


def _measure(url: str, config: Path, fault: Mapping[str, object], seconds: float) -> _Measured:
    log = config.with_suffix(".log")
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "trainfleet_exporter", f"--config.file={config}"]
    with processes.running([*command, "--web.listen-address=127.0.0.1:0"], log=log) as daemon:
        port = _port(daemon, log)
        time.sleep(_SETTLE)
        idle = processes.resident([daemon.pid])
        since = int(_answers(url, 10**12)["seq"])
        processes.forget_peak([daemon.pid])
        _set_faults(url, [fault])
        slowest, end = 0.0, time.monotonic() + seconds
        while time.monotonic() < end and processes.resident([daemon.pid]) < _TOO_MUCH:
            began = time.monotonic()
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/healthy", timeout=_PATIENCE).close()
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(_PAUSE)
        _set_faults(url, [])
        peak = processes.peak([daemon.pid])
        count = sum(bool(answer.get("fault")) for answer in _answers(url, since)["answers"])
        return _Measured(count, idle, peak, slowest)


def _port(daemon: Popen[str], log: Path) -> int:
    """Where the daemon listens, once it does."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and daemon.poll() is None:
        if found := _STARTED.search(log.read_text(encoding="utf-8")):
            return int(found[1])
        time.sleep(_PAUSE)
    raise processes.Failed("the daemon did not begin")


def _set_faults(url: str, faults: Sequence[Mapping[str, object]]) -> None:
    urllib.request.urlopen(f"{url}/faults", data=json.dumps(faults).encode()).close()  # noqa: S310 - http


def _answers(url: str, since: int) -> dict[str, Any]:
    """What the clouds have answered after so many answers."""
    with urllib.request.urlopen(f"{url}/truth?since={since}") as answer:  # noqa: S310 - http
        found: dict[str, Any] = json.load(answer)
        return found
