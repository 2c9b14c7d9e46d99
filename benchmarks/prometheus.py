"""A real Prometheus that scrapes a million series every 15 seconds: its own figures of ours and of nginx's file."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import held_port

from benchmarks import peers, rig
from benchmarks.report import Found, Table, number
from benchmarks.rig import Failed

_SERIES = 1_000_000
_INTERVAL = 15
_SECONDS = 300
_NGINX_SECONDS = 75
_SHORT_SECONDS = 45
_POLL_EVERY = 60.0
_LOOK_EVERY = 0.2
_FIRST_SCRAPE_SECONDS = 180.0
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
    "`scrape_duration_seconds` of Prometheus includes inflating, parsing and storing. The reference is the same page "
    "as a static file of nginx. The median and `longest` exclude the first scrape, which creates every series."
)
_METHOD_OF_PROMETHEUS = (
    "Prometheus requests gzip by default. CPU and memory are those of Prometheus. For each target, Prometheus started "
    "with an empty store."
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The stored values of a target, one for each scrape; and the CPU seconds and MiB of Prometheus."""

    up: Sequence[float]
    samples: Sequence[float]
    durations: Sequence[float]
    cpu: float
    resident: float
    peak: float


def run(*, short: bool) -> Iterator[Found]:
    """Yield a table with a row for ours and, if it is installed, for nginx."""
    table = Table("A real Prometheus, a scrape every 15 s", _COLUMNS, notes=[_METHOD, _METHOD_OF_PROMETHEUS])
    if peers.missing("prometheus"):
        table.notes.append("prometheus: not on this machine, nothing was measured.")
        yield table
        return
    with rig.child("server", _SERIES) as ours:
        lacking = peers.missing(peers.NGINX)
        table.notes += peers.left_out(lacking)
        if not lacking:
            with peers.nginx(rig.page(ours.port)) as nginx:
                seen = _watch(nginx.port, _SHORT_SECONDS if short else _NGINX_SECONDS, lambda: None)
            table.rows.append(_row(nginx.name, seen))
        used = rig.cpu_seconds([ours.pid])
        seen = _watch(ours.port, _SHORT_SECONDS if short else _SECONDS, lambda: ours.command("all"))
        used = rig.cpu_seconds([ours.pid]) - used
        table.rows.append(_row("trainfleet-exporter", seen))
        table.notes.append(
            f"Each minute, all readings on our page changed. Our server used {number(used)} s of CPU to generate, "
            "render and compress them."
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
    """Run a Prometheus for so many seconds after its first scrape, with a change each minute."""
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
        with rig.running(command, log=folder / "log") as process:
            url = f"http://127.0.0.1:{own_port}"
            peers.wait_for(f"{url}/-/ready", process)
            _wait_for_first(url)
            began = changed = time.monotonic()
            while (now := time.monotonic()) < began + seconds:
                if now >= changed + _POLL_EVERY:
                    changed = now
                    change()
                time.sleep(_LOOK_EVERY)
            return _Seen(
                up=_values(url, "up"),
                samples=_values(url, "scrape_samples_scraped"),
                durations=_values(url, "scrape_duration_seconds"),
                cpu=rig.cpu_seconds([process.pid]),
                resident=rig.resident([process.pid]),
                peak=rig.peak([process.pid]),
            )


def _wait_for_first(url: str) -> None:
    """Wait until the first scrape is stored. It takes much longer than others, because it creates every series."""
    latest = time.monotonic() + _FIRST_SCRAPE_SECONDS
    while not _values(url, "up"):
        if time.monotonic() > latest:
            raise Failed(f"Prometheus stored nothing in {_FIRST_SCRAPE_SECONDS:.0f} s")
        time.sleep(_LOOK_EVERY)


def _values(url: str, name: str) -> list[float]:
    """Return all values of the series of this name; empty if it does not exist yet."""
    query = urllib.parse.urlencode({"query": f"{name}[1h]"})
    found = json.loads(rig.get(f"{url}/api/v1/query?{query}"))["data"]["result"]
    return [float(value) for series in found for _, value in series["values"]]
