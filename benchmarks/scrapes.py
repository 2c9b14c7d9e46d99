"""Scrapes of ours next to nginx, Pushgateway and prometheus-client."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import peers, rig
from benchmarks.report import Check, Found, Table, megabytes, milliseconds, number, spread
from benchmarks.rig import Page, Scrape, Scraper

_LARGEST = 8_000
_ROUNDS = {8: 501, 80: 201, 800: 101, _LARGEST: 31}
"""By the number of jobs. The largest page has a million series."""
_PODS = 8
_WARM_UPS = 2
_SIDE_BY_SIDE = (
    "All servers hold the same samples and run at the same time. Cells show medians (10th to 90th percentile).",
    (
        "In each round, one reader scrapes each server once, in a new order. Before the first round, the reader "
        "scrapes each server once or twice to warm up. The reader scrapes Pushgateway only in every third round, and "
        "prometheus-client in every fifteenth."
    ),
    (
        "`times ours` is the median ratio of a scrape to our scrape in the same round, to the last byte. For "
        "Pushgateway and prometheus-client, it is the ratio to our median."
    ),
    "CPU time covers all processes of a server, user and system, over its scrapes.",
    (
        "nginx sends a plain and a gzipped file. nginx runs with sendfile off, because it sends files faster over "
        "loopback without sendfile. The memory of nginx does not include the files, because the kernel caches them."
    ),
)
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


@dataclass(slots=True)
class _Measured:
    """One server, and its scrapes by round."""

    server: peers.Server
    every: int
    """It is scraped once in so many rounds. Three scrapes of ten seconds are as good as thirty of one second."""
    scrapes: dict[int, Scrape] = field(default_factory=dict)
    cpu: float = 0.0

    def seconds(self) -> list[float]:
        return [scrape.whole for scrape in self.scrapes.values()]

    def relative_to(self, other: _Measured) -> list[float]:
        """Return ratios of scrapes to the other's in the same rounds, or to its median if one of them has fewer
        scrapes."""
        if self.every != other.every:
            middle = statistics.median(other.seconds())
            return [seconds / middle for seconds in self.seconds()]
        return [own / others for own, others in zip(self.seconds(), other.seconds(), strict=True)]


def side_by_side(short: bool, old: Path | None = None) -> Iterator[Found]:
    """Yield a table for each size and encoding, and the promises for the largest size. `short` omits the largest. `old`
    is another checkout, which is one of the servers."""
    for jobs, rounds in _ROUNDS.items():
        if short and jobs == _LARGEST:
            continue
        with ExitStack() as stack:
            ours, *before = stack.enter_context(rig.exporters(jobs, _PODS, [rig.ROOT, *filter(None, [old])]))
            for each in (ours, *before):
                each.command("sweep")
            page = rig.page(ours.port)
            servers = [(peers.ours(ours), 1), *((peers.Server("before", each.port, [each.pid]), 1) for each in before)]
            lacking = peers.missing(peers.NGINX, peers.PUSHGATEWAY)
            if peers.NGINX not in lacking:
                servers.append((stack.enter_context(peers.nginx(page)), 1))
            if peers.PUSHGATEWAY not in lacking:
                servers.append((stack.enter_context(peers.pushgateway(page)), 3))
            servers.append((stack.enter_context(peers.prometheus_client(page)), 15))
            for gzip in (False, True):
                measured = [_Measured(server, every) for server, every in servers]
                _measure(measured, rounds, gzip=gzip)
                yield _table(page, measured, lacking, gzip=gzip)
                if jobs == _LARGEST:
                    yield from _promises(measured, gzip=gzip)


def _measure(measured: list[_Measured], rounds: int, *, gzip: bool) -> None:
    with ExitStack() as stack:
        asked = [(one, stack.enter_context(Scraper(one.server.port, gzip=gzip))) for one in measured]
        for one, scraper in asked:
            for _ in range(min(_WARM_UPS, rounds // one.every)):
                scraper.scrape()
        before = [rig.cpu_seconds(one.server.pids) for one in measured]
        for turn in range(rounds):
            first = turn % len(asked)
            sequence = asked[first:] + asked[:first]
            for one, scraper in sequence[:: -1 if turn // len(asked) % 2 else 1]:
                if turn % one.every == 0:
                    one.scrapes[turn] = scraper.scrape()
        for one, used in zip(measured, before, strict=True):
            one.cpu = (rig.cpu_seconds(one.server.pids) - used) / len(one.scrapes)


def _table(page: Page, measured: list[_Measured], lacking: list[str], *, gzip: bool) -> Table:
    table = Table(f"Scrape, {_encoding(gzip)}: {page.series():,} series", _COLUMNS)
    table.notes = [*_SIDE_BY_SIDE, *peers.left_out(lacking)]
    ours = measured[0]
    for one in measured:
        scrapes = list(one.scrapes.values())
        table.rows.append(
            (
                one.server.name,
                str(len(scrapes)),
                milliseconds([scrape.first for scrape in scrapes]),
                milliseconds(one.seconds()),
                "1" if one is ours else spread(one.relative_to(ours)),
                number(one.cpu * 1e3),
                number(rig.resident(one.server.pids)),
                megabytes(scrapes[-1].size),
            )
        )
    return table


def _promises(measured: list[_Measured], *, gzip: bool) -> Iterator[Check]:
    ours = measured[0]
    others = {one.server.name: one for one in measured[1:]}
    promise = "plain scrape of 1 M series <= 1.3 x nginx's"
    if gzip:
        promise = "gzip scrape of 1 M series <= 2 x nginx's ready-made file, or within 2 ms of it"
    nginx = others.get(peers.NGINX_FILES)
    if nginx is None:
        yield Check(promise, "nginx is missing", None)
    else:
        ratio = statistics.median(ours.relative_to(nginx))
        more = statistics.median(ours.seconds()) - statistics.median(nginx.seconds())
        if gzip:
            yield Check(promise, f"{number(ratio)} x, {number(more * 1e3)} ms more", ratio <= 2 or more <= 0.002)
        else:
            yield Check(promise, f"{number(ratio)} x", ratio <= 1.3)
    for name, least in () if gzip else (("Pushgateway", 20), ("prometheus-client", 150)):
        promise = f"plain scrape of 1 M series >= {least} x faster than {name}'s"
        if name not in others:
            yield Check(promise, f"{name} is missing", None)
        else:
            ratio = statistics.median(others[name].relative_to(ours))
            yield Check(promise, f"{number(ratio)} x", ratio >= least)


def _encoding(gzip: bool) -> str:
    return "gzip" if gzip else "plain"
