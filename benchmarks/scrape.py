"""A scrape of pages of four sizes, plain and gzip: ours beside nginx, Pushgateway and prometheus-client, in turn."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import peers, processes
from benchmarks.figures import megabytes, milliseconds, number, ratios
from benchmarks.reader import Reader, Scrape
from benchmarks.report import Check, Found, Table

_ROUNDS = {1_000: 501, 10_000: 201, 100_000: 101, 1_000_000: 31}
_PROMISED = 1_000_000
_WARM_UPS = 2
_COLUMNS = (
    "server",
    "scrapes",
    "first byte, ms",
    "last byte, ms",
    "times ours",
    "CPU a scrape, ms",
    "resident, MiB",
    "body",
)
_METHOD = (
    "Medians, and from the 10th to the 90th percentile in brackets. All servers hold the same samples and run at once. "
    "One reader makes one scrape of each in a round, in another order each round, after one or two scrapes to warm up. "
    "Pushgateway takes part in each third round only, prometheus-client in each fifteenth. `times ours` is the median "
    "ratio of a scrape to ours of the same round, to the last byte. For those two, it is the ratio to our median. CPU "
    "covers all processes of a server, user and system, over its scrapes. nginx sends a plain and a gzipped file, with "
    "sendfile off, which is faster over loopback. Its memory does not include them, because the kernel caches them."
)


@dataclass(slots=True)
class _Measured:
    """One server, and its scrapes by the round that they were in."""

    server: peers.Server
    every: int
    """It is asked in every so-manieth round: three of ten seconds each say as much as thirty of one."""
    scrapes: dict[int, Scrape] = field(default_factory=dict)
    cpu: float = 0.0

    def seconds(self) -> list[float]:
        return [scrape.whole for scrape in self.scrapes.values()]

    def beside(self, other: _Measured) -> list[float]:
        """Ratios of scrapes to the other's in the same rounds; to its median, where there are fewer of one."""
        if self.every != other.every:
            middle = statistics.median(other.seconds())
            return [seconds / middle for seconds in self.seconds()]
        return [own / others for own, others in zip(self.seconds(), other.seconds(), strict=True)]


def run(*, short: bool = False) -> Iterator[Found]:
    """A table for each size and encoding; of the largest, what was promised. `short` leaves that out."""
    for series, rounds in _ROUNDS.items():
        if short and series == _PROMISED:
            continue
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            ours = stack.enter_context(processes.ordered("benchmarks.server", str(series)))
            page = peers.page(ours.port)
            servers = [(peers.Server("trainfleet-exporter", ours.port, [ours.pid]), 1)]
            lacking = peers.missing("nginx", "prometheus-pushgateway")
            if "nginx" not in lacking:
                servers.append((stack.enter_context(peers.nginx(page, folder)), 1))
            if "prometheus-pushgateway" not in lacking:
                servers.append((stack.enter_context(peers.pushgateway(page, folder)), 3))
            servers.append((stack.enter_context(peers.prometheus_client(page, folder)), 15))
            notes = [_METHOD, *(f"{program}: not on this machine, left out." for program in lacking)]
            for gzip in (False, True):
                measured = [_Measured(server, every) for server, every in servers]
                _measure(measured, rounds, gzip=gzip)
                yield _table(page, measured, notes, gzip=gzip)
                if series == _PROMISED:
                    yield from _promises(measured, gzip=gzip)


def _measure(measured: list[_Measured], rounds: int, *, gzip: bool) -> None:
    with ExitStack() as stack:
        asked = [(one, stack.enter_context(Reader(one.server.port, gzip=gzip))) for one in measured]
        for one, reader in asked:
            for _ in range(min(_WARM_UPS, rounds // one.every)):
                reader.scrape()
        before = [processes.cpu_seconds(one.server.pids) for one in measured]
        for turn in range(rounds):
            first = turn % len(asked)
            sequence = asked[first:] + asked[:first]
            for one, reader in sequence[:: -1 if turn // len(asked) % 2 else 1]:
                if turn % one.every == 0:
                    one.scrapes[turn] = reader.scrape()
        for one, used in zip(measured, before, strict=True):
            one.cpu = (processes.cpu_seconds(one.server.pids) - used) / len(one.scrapes)


def _table(page: peers.Page, measured: list[_Measured], notes: list[str], *, gzip: bool) -> Table:
    table = Table(f"Scrape, {'gzip' if gzip else 'plain'}: {page.series():,} series", _COLUMNS, notes=notes)
    ours = measured[0]
    for one in measured:
        scrapes = list(one.scrapes.values())
        table.rows.append(
            (
                one.server.name,
                str(len(scrapes)),
                milliseconds([scrape.first for scrape in scrapes]),
                milliseconds([scrape.whole for scrape in scrapes]),
                "1" if one is ours else ratios(one.beside(ours)),
                number(one.cpu * 1e3),
                number(processes.resident(one.server.pids)),
                megabytes(scrapes[-1].size),
            )
        )
    return table


def _promises(measured: list[_Measured], *, gzip: bool) -> Iterator[Check]:
    ours = measured[0]
    by_name = {one.server.name: one for one in measured[1:]}
    nginx = by_name.get("nginx, static files")
    if gzip:
        yield _gzip_promise(ours, nginx)
        return
    promise = "plain scrape of 1 M series <= 1.3 x nginx's"
    if nginx is None:
        yield Check(promise, "nginx is missing", None)
    else:
        ratio = statistics.median(ours.beside(nginx))
        yield Check(promise, f"{number(ratio)} x", ratio <= 1.3)
    for name, least in (("Pushgateway", 20), ("prometheus-client", 150)):
        promise = f"plain scrape of 1 M series >= {least} x faster than {name}'s"
        if name not in by_name:
            yield Check(promise, f"{name} is missing", None)
        else:
            ratio = statistics.median(by_name[name].beside(ours))
            yield Check(promise, f"{number(ratio)} x", ratio >= least)


def _gzip_promise(ours: _Measured, nginx: _Measured | None) -> Check:
    promise = "gzip scrape of 1 M series <= 2 x nginx's ready-made file, or within 2 ms of it"
    if nginx is None:
        return Check(promise, "nginx is missing", None)
    ratio = statistics.median(ours.beside(nginx))
    more = statistics.median(ours.seconds()) - statistics.median(nginx.seconds())
    return Check(promise, f"{number(ratio)} x, {number(more * 1e3)} ms more", ratio <= 2 or more <= 0.002)
