"""Scrapes of ours next to nginx, Pushgateway and prometheus-client; the first scrape after a poll; decompressors."""

from __future__ import annotations

import gzip as gzips
import os
import re
import statistics
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks import peers, rig
from benchmarks.report import Check, Found, Table, megabytes, milliseconds, number, spread
from benchmarks.rig import Child, Failed, Page, Scrape, Scraper

_MILLION = 1_000_000
_ROUNDS = {1_000: 501, 10_000: 201, 100_000: 101, _MILLION: 31}
"""By the number of series."""
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
_POLLS = 15
_BUILD_SECONDS = 60.0
"""Seconds in which the page of a poll must be sent."""
_LIVE_JOBS = re.compile(rb"^trainfleet_jobs\{.*\} (\d+)$", re.MULTILINE)
_BEGINNING = 1 << 14
_AFTER_POLL = (
    (
        f"{_POLLS} polls of each kind. Ten providers share the series. `tenth` is a poll of one of them. Cells show "
        "medians (10th to 90th percentile)."
    ),
    (
        "`first scrape` begins when the exporter has published the last part of the poll. One plain and one gzip "
        "scrape follow, in a new order after each poll."
    ),
    (
        "Then scrapes continue without a pause until a page has all data of the poll (`new page sent after`). Scrapes "
        "before this page get the complete previous page. After this page, the reader scrapes our page and nginx's "
        "static file in turn."
    ),
)
_AFTER_POLL_COLUMNS = (
    "changed, encoding",
    "first scrape, ms",
    "scrape of a settled page, ms",
    "nginx, ms",
    "first / nginx",
    "publishing, s",
    "new page sent after, s",
    "new page in the first scrape",
)
_GO = Path(__file__).parent / "gunzip.go"
_DECOMPRESS_SECONDS = 300.0
_DECOMPRESSORS = (
    "Each program reads one gzip response (curl makes its own request). The benchmark compares the result with the "
    "plain page, without the exporter's own metrics, which differ in each scrape. The Go program of the "
    "benchmark requires that the response is one gzip member with nothing after it."
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


def side_by_side(*, short: bool) -> Iterator[Found]:
    """Yield a table for each size and encoding, and the promises for the largest size. `short` omits the largest."""
    for series, rounds in _ROUNDS.items():
        if short and series == _MILLION:
            continue
        with ExitStack() as stack:
            ours = stack.enter_context(rig.child("server", series))
            page = rig.page(ours.port)
            servers = [(peers.ours(ours), 1)]
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
                if series == _MILLION:
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


@dataclass(slots=True)
class _AfterPoll:
    """One kind of poll in one encoding, in seconds."""

    first: list[float] = field(default_factory=list)
    settled: list[float] = field(default_factory=list)
    nginx: list[float] = field(default_factory=list)
    publishing: list[float] = field(default_factory=list)
    shown: list[float] = field(default_factory=list)
    at_once: int = 0

    def row(self, title: str) -> tuple[str, ...]:
        ratios = [first / other for first, other in zip(self.first, self.nginx, strict=False)]
        return (
            title,
            milliseconds(self.first),
            milliseconds(self.settled),
            milliseconds(self.nginx) if self.nginx else "",
            spread(ratios) if ratios else "",
            number(statistics.median(self.publishing)),
            f"{number(statistics.median(self.shown))} (at most {number(max(self.shown))})",
            f"{self.at_once} of {len(self.first)}",
        )


def after_poll(*, short: bool) -> Iterator[Found]:
    """Yield a table of polls that change everything and of polls that change a tenth, and the promises."""
    with ExitStack() as stack:
        ours = stack.enter_context(rig.child("server", _MILLION // 10 if short else _MILLION))
        scrapers = {gzip: stack.enter_context(Scraper(ours.port, gzip=gzip)) for gzip in (False, True)}
        nginx: dict[bool, Scraper] = {}
        lacking = peers.missing(peers.NGINX)
        page = rig.page(ours.port)
        if not lacking:
            server = stack.enter_context(peers.nginx(page))
            nginx = {gzip: stack.enter_context(Scraper(server.port, gzip=gzip)) for gzip in (False, True)}
        for scraper in [*scrapers.values(), *nginx.values()] * 2:
            scraper.scrape()
        table = Table(f"First scrape after a poll: {page.series():,} series", _AFTER_POLL_COLUMNS)
        table.notes = [*_AFTER_POLL, *peers.left_out(lacking)]
        kinds = {(change, gzip): _AfterPoll() for change in ("all", "tenth") for gzip in (False, True)}
        for change in ("all", "tenth"):
            both = {gzip: kinds[change, gzip] for gzip in (False, True)}
            for turn in range(_POLLS):
                _poll(ours, change, scrapers, both, turn)
                ours.command("settle")
                for gzip, measured in both.items():
                    measured.settled.append(scrapers[gzip].scrape().whole)
                    if gzip in nginx:
                        measured.nginx.append(nginx[gzip].scrape().whole)
    for (change, gzip), measured in kinds.items():
        table.rows.append(measured.row(f"{change}, {_encoding(gzip)}"))
    yield table
    for gzip in (False, True):
        alike = {change: measured for (change, zipped), measured in kinds.items() if zipped is gzip}
        yield _after_poll_promise(alike, gzip=gzip, series=page.series())


def _poll(
    ours: Child, change: str, scrapers: Mapping[bool, Scraper], both: Mapping[bool, _AfterPoll], turn: int
) -> None:
    answer = ours.command(change)
    ended = perf_counter()
    for measured in both.values():
        measured.publishing.append(answer["wall"])
    waiting = [False, True] if turn % 2 else [True, False]
    is_first = True
    while waiting:
        if perf_counter() - ended > _BUILD_SECONDS:
            raise Failed("the page of a poll is not sent")
        for gzip in list(waiting):
            scrape = scrapers[gzip].scrape()
            is_new = _shown(scrapers[gzip], answer["change"]) == answer["published"]
            if is_first:
                both[gzip].first.append(scrape.whole)
                both[gzip].at_once += is_new
            if is_new:
                both[gzip].shown.append(perf_counter() - ended)
                waiting.remove(gzip)
        is_first = False


def _shown(scraper: Scraper, change: int) -> int:
    """Count the providers with the number of this change as their number of live jobs, on the latest page."""
    text = scraper.beginning
    if text.startswith(b"\x1f\x8b"):
        text = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(text, _BEGINNING)
    return _LIVE_JOBS.findall(text).count(b"%d" % change)


def _after_poll_promise(kinds: Mapping[str, _AfterPoll], *, gzip: bool, series: int) -> Check:
    """Return the promise for the worst kind of poll."""
    promise = f"first {_encoding(gzip)} scrape of {series:,} series after a poll <= 2 x nginx's"
    if gzip:
        promise += ", or within 2 ms of it"
    if not all(measured.nginx for measured in kinds.values()):
        return Check(promise, "nginx is missing", None)
    texts, kept = [], True
    for change, measured in kinds.items():
        ratio = statistics.median(first / other for first, other in zip(measured.first, measured.nginx, strict=True))
        more = statistics.median(measured.first) - statistics.median(measured.nginx)
        kept = kept and (ratio <= 2 or (gzip and more <= 0.002))
        texts.append(f"{change}: {number(ratio)} x, {number(more * 1e3)} ms more")
    return Check(promise, "; ".join(texts), kept)


def decompressors() -> Iterator[Found]:
    """Yield a table and the promise: whether Go's standard library, curl and Python can read our gzip body."""
    lacking = peers.missing("go", "curl")
    with rig.child("server", _MILLION // 10) as ours:
        page = rig.page(ours.port)
        made = {"Python (gzip)": gzips.decompress(page.gzip)}
        if "curl" not in lacking:
            made["curl --compressed"] = _output(["curl", "-s", "--compressed", f"{ours.url}/metrics"])
    if "go" not in lacking:
        with tempfile.TemporaryDirectory() as folder:
            cache = {**os.environ, "GOCACHE": folder, "GOFLAGS": "", "GO111MODULE": "off"}
            made["Go (compress/gzip)"] = _output(["go", "run", str(_GO)], given=page.gzip, environment=cache)
    table = Table(f"Decompressors: {page.series():,} series", ("decompressor", "bytes", "equal to the plain page"))
    table.notes = [_DECOMPRESSORS, *peers.left_out(lacking)]
    equal = {name: Page(text, b"").of_clouds() == page.of_clouds() for name, text in made.items()}
    for name, text in made.items():
        table.rows.append((name, f"{len(text):,}", "yes" if equal[name] else "**no**"))
    yield table
    read = ", ".join(name for name, same in equal.items() if same)
    kept = None if lacking and all(equal.values()) else all(equal.values())
    yield Check("Go's, curl's and Python's decompressors accept the gzip body", f"equal by {read or 'none'}", kept)


def _output(command: list[str], *, given: bytes | None = None, environment: dict[str, str] | None = None) -> bytes:
    done = subprocess.run(  # noqa: S603 - commands of our own
        command, input=given, env=environment, capture_output=True, timeout=_DECOMPRESS_SECONDS, check=False
    )
    if done.returncode:
        raise Failed(f"{command[0]}: {done.stderr.decode(errors='replace')[:200]}")
    return done.stdout
