"""Times of scrapes, idle and while polls run, and resident memory: ours, an older checkout's and other servers'."""

from __future__ import annotations

import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import peers, rig
from benchmarks.report import Section, Table, number, quantile
from benchmarks.rig import DrivenExporter, Scraper

OURS, BEFORE = "trainfleet-exporter", "before"
_PODS = 8
_SCRAPES = 75
"""Scrapes of each encoding in each window with polls."""
_PAUSES = (0.005, 0.025)
"""Seconds between scrapes, at random, so that scrapes occur at any moment of a poll."""
_CHANGE_EVERY = 1.0
_AT_REST = 0.02
_LOOK_EVERY = 0.5
_ENCODINGS = ("plain", "gzip")
_METHOD = (
    f"Jobs have {_PODS} pods each and 12 readings for each pod. All servers hold the same samples.",
    (
        "Idle: in each round, one reader scrapes each server once, in a new order. It leaves out slow servers in most "
        "rounds, so their p99 is their slowest scrape. nginx sends a plain and a gzipped file, with sendfile off."
    ),
    (
        "Polling: the exporter polls without a pause. In each second, all readings and a fiftieth of the jobs change. "
        "The exporter has one core. The cloud and the reader share the other."
    ),
)


@dataclass(frozen=True, slots=True)
class _Size:
    """A fleet, and how often its servers are scraped. A slow server is scraped once in so many rounds."""

    jobs: int
    rounds: int
    every: dict[str, int]
    windows: int


_SIZES = (
    _Size(80, 600, {peers.PUSHGATEWAY: 3, peers.CLIENT: 15}, 8),
    _Size(800, 300, {peers.PUSHGATEWAY: 6, peers.CLIENT: 60}, 8),
    _Size(8_000, 100, {peers.PUSHGATEWAY: 10, peers.CLIENT: 50}, 4),
)
"""About 10,000, 100,000 and a million series."""
_SHORT_SIZES = tuple(_Size(jobs, 30, {peers.PUSHGATEWAY: 3, peers.CLIENT: 15}, 1) for jobs in (8, 80))


@dataclass(slots=True)
class _Found:
    """What was measured at one size: seconds of scrapes by server, state (idle, polling) and encoding, and MiB."""

    page: rig.Page
    seconds: defaultdict[tuple[str, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    memory: defaultdict[str, float] = field(default_factory=lambda: defaultdict(lambda: math.nan))

    def quantile(self, server: str, state: str, encoding: str, share: float) -> float:
        """Return a quantile in seconds; nan if it was not measured."""
        found = self.seconds.get((server, state, encoding))
        return quantile(found, share) if found else math.nan

    def series(self) -> str:
        return f"{self.page.series():,} series"


def run(short: bool, old: Path | None) -> Section:
    """Measure every size."""
    checkouts = {OURS: rig.ROOT, **({BEFORE: old} if old else {})}
    return _section([_measure(size, checkouts) for size in (_SHORT_SIZES if short else _SIZES)], list(checkouts))


def _measure(size: _Size, checkouts: dict[str, Path]) -> _Found:
    """Measure one size, idle and while polling."""
    with rig.exporters(size.jobs, _PODS, list(checkouts.values())) as running:
        exporters = dict(zip(checkouts, running, strict=True))
        for exporter in running:
            exporter.command("sweep")
        found = _Found(rig.page(running[0].port))
        rig.progress(f"{found.series()}: idle")
        with peers.peers(found.page) as others:
            servers = {**{name: peers.Peer(each.port, [each.pid]) for name, each in exporters.items()}, **others}
            for encoding in _ENCODINGS:
                _scrape_in_turn(found, servers, size, encoding)
            found.memory |= {name: rig.resident(server.pids) for name, server in servers.items()}
        rig.progress(f"{found.series()}: while polling")
        with _on_the_other_core(running[0]):
            for turn in range(size.windows):
                for name, exporter in exporters.items():
                    _wait_for_rest(exporter)
                    exporter.command("on")
                    _window(found, name, exporter, turn)
                    exporter.command("off")
        for name, exporter in exporters.items():
            found.memory[f"{name}, after polls"] = rig.resident([exporter.pid])
        return found


def _scrape_in_turn(found: _Found, servers: dict[str, peers.Peer], size: _Size, encoding: str) -> None:
    """Scrape every server once a round, or less often if it is slow, after a scrape to warm up."""
    with ExitStack() as stack:
        scrapers = [
            (name, stack.enter_context(Scraper(server.port, gzip=encoding == "gzip")))
            for name, server in servers.items()
        ]
        for name, scraper in scrapers:
            if size.every.get(name, 1) < size.rounds // 2:
                scraper.scrape()
        for turn in range(size.rounds):
            first = turn % len(scrapers)
            sequence = scrapers[first:] + scrapers[:first]
            for name, scraper in sequence[:: -1 if turn // len(scrapers) % 2 else 1]:
                if turn % size.every.get(name, 1) == 0:
                    found.seconds[name, "idle", encoding].append(scraper.scrape())


@contextmanager
def _on_the_other_core(ours: DrivenExporter) -> Iterator[None]:
    """Give the exporter its own core, if there are two, and let the cloud yield to us on the other."""
    cores = os.sched_getaffinity(0)
    os.sched_setscheduler(ours.cloud.pid, os.SCHED_IDLE, os.sched_param(0))
    _, others = rig.two_cores()
    os.sched_setaffinity(0, cores if others is None else {others})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _window(found: _Found, name: str, exporter: DrivenExporter, turn: int) -> None:
    """Scrape for a while, plain and gzip in turn, and change the fleet once a second."""
    pauses = random.Random(turn)
    with ExitStack() as stack:
        scrapers = {
            encoding: stack.enter_context(Scraper(exporter.port, gzip=encoding == "gzip")) for encoding in _ENCODINGS
        }
        for scraper in scrapers.values():
            scraper.scrape()
        changed = time.monotonic()
        for _ in range(_SCRAPES):
            for encoding, scraper in scrapers.items():
                time.sleep(pauses.uniform(*_PAUSES))
                found.seconds[name, "polling", encoding].append(scraper.scrape())
            if time.monotonic() - changed >= _CHANGE_EVERY:
                exporter.change(jobs=0.02, usage=True)
                changed = time.monotonic()


def _wait_for_rest(exporter: DrivenExporter) -> None:
    """Wait until the exporter is idle."""
    used = rig.cpu_seconds(exporter.pid)
    while True:
        time.sleep(_LOOK_EVERY)
        before, used = used, rig.cpu_seconds(exporter.pid)
        if used - before <= _AT_REST:
            return


def _section(found: list[_Found], exporters: list[str]) -> Section:
    section, sizes = Section("Scrapes", _METHOD), [each.series() for each in found]
    rows = [(name, state) for state in ("idle", "polling") for name in exporters]
    rows += [(name, "idle") for name in (peers.NGINX, peers.PUSHGATEWAY, peers.CLIENT)]
    for encoding in _ENCODINGS:
        table = section.tables[f"{encoding}: ms to the last byte, p50 (p99)"] = Table(("server", *sizes))
        for name, state in rows:
            cells = [_milliseconds(each, name, state, encoding) for each in found]
            table.rows.append((f"{name}, {state}" if name in exporters else name, *cells))
    section.tables["Resident memory, MiB, and size of the page"] = memory = Table(("", *sizes))
    for name in list(found[0].memory):
        memory.rows.append((name, *(number(each.memory[name]) for each in found)))
    memory.rows.append(("page, plain, MB", *(number(len(each.page.plain) / 1e6) for each in found)))
    memory.rows.append(("page, gzip, MB", *(number(len(each.page.gzip) / 1e6) for each in found)))
    section.tables["Ratios"] = ratios = Table(("", *sizes))
    for title, encoding, share, server, state, other, other_state in _ratios(BEFORE in exporters):
        pairs = [
            (each.quantile(server, state, encoding, share), each.quantile(other, other_state, encoding, share))
            for each in found
        ]
        ratios.rows.append((f"{encoding}, p{share * 100:.0f}: {title}", *(number(one / two) for one, two in pairs)))
    return section


def _ratios(is_paired: bool) -> Iterator[tuple[str, str, float, str, str, str, str]]:
    """Yield title, encoding, quantile, and server and state of both sides of each row."""
    for encoding in _ENCODINGS:
        yield "idle / nginx", encoding, 0.5, OURS, "idle", peers.NGINX, "idle"
        if is_paired:
            yield "polling / before", encoding, 0.99, OURS, "polling", BEFORE, "polling"


def _milliseconds(found: _Found, name: str, state: str, encoding: str) -> str:
    middle, most = (found.quantile(name, state, encoding, share) * 1e3 for share in (0.5, 0.99))
    return f"{number(middle)} ({number(most)})"
