"""A real Prometheus that scrapes a million series every fifteen seconds: what it says of ours, and of nginx's file."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import held_port

from benchmarks import peers, processes
from benchmarks.figures import number
from benchmarks.processes import Failed
from benchmarks.report import Found, Table

_SERIES = 1_000_000
_INTERVAL = 15
_SECONDS = 300
_SECONDS_OF_NGINX = 75
_SHORT_SECONDS = 45
_POLL_EVERY = 60.0
_TURN = 0.2
_PATIENCE = 180.0
_CONFIG = """\
global: {{scrape_interval: {interval}s, scrape_timeout: 10s}}
scrape_configs:
  - job_name: trainfleet
    body_size_limit: 512MB
    sample_limit: 2000000
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
_COLUMNS = (
    "target",
    "scrapes",
    "up",
    "samples a scrape",
    "scrape duration, s",
    "longest, s",
    "first, s",
    "CPU of Prometheus, s a scrape",
    "resident, MiB",
    "peak, MiB",
)
_METHOD = (
    "`scrape_duration_seconds` of Prometheus includes inflating, parsing and storing. The same page as nginx's static "
    "file is the reference. Median and longest exclude the first scrape, which creates every series. Requests ask for "
    "gzip by default. CPU and memory are those of Prometheus. It started with an empty store for each target, one after "
    "the other."
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a Prometheus has of a target: values of each scrape; and what it took itself."""

    up: Sequence[float]
    samples: Sequence[float]
    durations: Sequence[float]
    cpu: float
    resident: float
    peak: float


def run(*, short: bool = False) -> Iterator[Found]:
    """A table with a row for ours and, where there is one, for nginx."""
    table = Table("A real Prometheus, a scrape every 15 s", _COLUMNS, notes=[_METHOD])
    lacking = peers.missing("prometheus")
    if lacking:
        table.notes.append("prometheus: not on this machine, nothing was measured.")
        yield table
        return
    with ExitStack() as stack:
        ours = stack.enter_context(processes.ordered("benchmarks.server", str(_SERIES)))
        if peers.missing("nginx"):
            table.notes.append("nginx: not on this machine, left out.")
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            nginx = stack.enter_context(peers.nginx(peers.page(ours.port), folder))
            seen = _watch(nginx.port, _SHORT_SECONDS if short else _SECONDS_OF_NGINX, lambda: None)
            table.rows.append(_row(nginx.name, seen))
        used = processes.cpu_seconds([ours.pid])
        seen = _watch(ours.port, _SHORT_SECONDS if short else _SECONDS, lambda: ours.order("all"))
        used = processes.cpu_seconds([ours.pid]) - used
        table.rows.append(_row("trainfleet-exporter", seen))
        table.notes.append(
            f"Each minute, all readings on our page changed. Our server used {number(used)} s of CPU meanwhile to "
            "generate, render and compress them."
        )
    yield table


def _row(name: str, seen: _Seen) -> tuple[str, ...]:
    return (
        name,
        str(len(seen.durations)),
        "always 1" if set(seen.up) == {1.0} else f"**{sum(seen.up):.0f} of {len(seen.up)}**",
        f"{min(seen.samples):,.0f} to {max(seen.samples):,.0f}",
        number(statistics.median(seen.durations[1:])),
        number(max(seen.durations[1:])),
        number(seen.durations[0]),
        number(seen.cpu / len(seen.durations)),
        number(seen.resident),
        number(seen.peak),
    )


def _watch(port: int, seconds: float, change: Callable[[], object]) -> _Seen:
    """Let a Prometheus scrape for so long after its first scrape, with a change each minute."""
    with tempfile.TemporaryDirectory() as name, held_port() as own_port:
        folder = Path(name)
        config = folder / "prometheus.yaml"
        config.write_text(_CONFIG.format(interval=_INTERVAL, port=port), encoding="utf-8")
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{own_port}",
        ]
        with processes.running(command, log=folder / "log") as process:
            url = f"http://127.0.0.1:{own_port}"
            peers.wait_for(f"{url}/-/ready", process.poll)
            _wait_for_first(url)
            began = changed = time.monotonic()
            while (now := time.monotonic()) < began + seconds:
                if now >= changed + _POLL_EVERY:
                    changed = now
                    change()
                time.sleep(_TURN)
            return _Seen(
                up=_values(url, "up"),
                samples=_values(url, "scrape_samples_scraped"),
                durations=_values(url, "scrape_duration_seconds"),
                cpu=processes.cpu_seconds([process.pid]),
                resident=processes.resident([process.pid]),
                peak=processes.peak([process.pid]),
            )


def _wait_for_first(url: str) -> None:
    """Until the first scrape is stored, which takes many times as long as others: it makes every series."""
    latest = time.monotonic() + _PATIENCE
    while not _values(url, "up"):
        if time.monotonic() > latest:
            raise Failed(f"Prometheus stored nothing in {_PATIENCE:.0f} s")
        time.sleep(_TURN)


def _values(url: str, name: str) -> list[float]:
    """All values of the one series of this name; nothing where there is none yet."""
    query = urllib.parse.urlencode({"query": f"{name}[1h]"})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}") as answer:  # noqa: S310 - http
        found = json.load(answer)["data"]["result"]
    return [float(value) for series in found for _, value in series["values"]]
