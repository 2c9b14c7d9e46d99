"""The first scrape after a poll of a million series: the page that the poll makes is ready by then, or is not yet."""

from __future__ import annotations

import re
import statistics
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks import peers, processes
from benchmarks.figures import milliseconds, number, ratios
from benchmarks.processes import Failed, Ordered
from benchmarks.reader import Reader
from benchmarks.report import Check, Found, Table

_SERIES = 1_000_000
_SHORT = 100_000
_ROUNDS = 15
_PATIENCE = 60.0
_LIVE = re.compile(rb"^trainfleet_jobs\{.*\} (\d+)$", re.MULTILINE)
_LOOKED_AT = 1 << 14
_COLUMNS = (
    "changed, encoding",
    "first scrape, ms",
    "scrape of a settled page, ms",
    "nginx, ms",
    "first / nginx",
    "publishing, s",
    "new page sent after, s",
    "new at once",
)
_METHOD = (
    f"{_ROUNDS} polls of each kind. `first scrape` begins when the last part of the poll is published. Plain and gzip "
    "follow each other, in another order after each poll. Then scrapes continue without a pause until a page has all of "
    "the poll (`new page sent after`). After that, ours and nginx's static file are scraped in turn. Until the new page "
    "is ready, a scrape gets the previous one, whole. Ten providers share the series: a tenth is a poll of one of them. "
    "Medians, and from the 10th to the 90th percentile in brackets."
)


@dataclass(slots=True)
class _Measured:
    """One kind of poll in one encoding; seconds."""

    first: list[float] = field(default_factory=list)
    settled: list[float] = field(default_factory=list)
    nginx: list[float] = field(default_factory=list)
    publishing: list[float] = field(default_factory=list)
    shown: list[float] = field(default_factory=list)
    at_once: int = 0


def run(*, short: bool = False) -> Iterator[Found]:
    """A table of polls that change everything and of such that change a tenth, and what was promised."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(processes.ordered("benchmarks.server", str(_SHORT if short else _SERIES)))
        readers = {gzip: stack.enter_context(Reader(ours.port, gzip=gzip)) for gzip in (False, True)}
        nginx: dict[bool, Reader] = {}
        lacking = peers.missing("nginx")
        page = peers.page(ours.port)
        if not lacking:
            server = stack.enter_context(peers.nginx(page, folder))
            nginx = {gzip: stack.enter_context(Reader(server.port, gzip=gzip)) for gzip in (False, True)}
        for reader in [*readers.values(), *nginx.values()] * 2:
            reader.scrape()
        notes = [_METHOD, *(f"{program}: not on this machine, left out." for program in lacking)]
        table = Table(f"First scrape after a poll: {page.series():,} series", _COLUMNS, notes=notes)
        kinds = {(order, gzip): _Measured() for order in ("all", "tenth") for gzip in (False, True)}
        for order in ("all", "tenth"):
            both = {gzip: kinds[order, gzip] for gzip in (False, True)}
            for turn in range(_ROUNDS):
                _poll(ours, order, readers, both, turn)
                ours.order("settle")
                for gzip, measured in both.items():
                    measured.settled.append(readers[gzip].scrape().whole)
                    if gzip in nginx:
                        measured.nginx.append(nginx[gzip].scrape().whole)
    for (order, gzip), measured in kinds.items():
        table.rows.append(_row(f"{order}, {'gzip' if gzip else 'plain'}", measured))
    yield table
    for gzip in (False, True):
        alike = {order: measured for (order, zipped), measured in kinds.items() if zipped is gzip}
        yield _promise(alike, gzip=gzip, series=page.series())


def _poll(ours: Ordered, order: str, readers: Mapping[bool, Reader], both: Mapping[bool, _Measured], turn: int) -> None:
    told = ours.order(order)
    ended = perf_counter()
    is_new = dict.fromkeys(readers, False)
    sequence = (False, True) if turn % 2 else (True, False)
    for gzip in sequence:
        measured = both[gzip]
        measured.publishing.append(told["wall"])
        measured.first.append(readers[gzip].scrape().whole)
        is_new[gzip] = _shown(readers[gzip], told["change"]) == told["published"]
        measured.at_once += is_new[gzip]
        if is_new[gzip]:
            measured.shown.append(perf_counter() - ended)
    while not all(is_new.values()):
        if perf_counter() - ended > _PATIENCE:
            raise Failed("the page of a poll is not sent")
        for gzip in sequence:
            if not is_new[gzip]:
                readers[gzip].scrape()
                is_new[gzip] = _shown(readers[gzip], told["change"]) == told["published"]
                if is_new[gzip]:
                    both[gzip].shown.append(perf_counter() - ended)


def _shown(reader: Reader, change: int) -> int:
    """How many providers' numbers of live jobs are that of this change, on the page that was read last."""
    text = reader.beginning
    if text.startswith(b"\x1f\x8b"):
        text = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(text, _LOOKED_AT)
    return _LIVE.findall(text).count(b"%d" % change)


def _row(title: str, measured: _Measured) -> tuple[str, ...]:
    beside = [first / other for first, other in zip(measured.first, measured.nginx, strict=False)]
    return (
        title,
        milliseconds(measured.first),
        milliseconds(measured.settled),
        milliseconds(measured.nginx) if measured.nginx else "",
        ratios(beside) if beside else "",
        number(statistics.median(measured.publishing)),
        f"{number(statistics.median(measured.shown))} (at most {number(max(measured.shown))})",
        f"{measured.at_once} of {len(measured.first)}",
    )


def _promise(kinds: Mapping[str, _Measured], *, gzip: bool, series: int) -> Check:
    """Of the kind of poll that did worst."""
    promise = f"first {'gzip' if gzip else 'plain'} scrape of {series:,} series after a poll <= 2 x nginx's"
    if gzip:
        promise += ", or within 2 ms of it"
    if not all(measured.nginx for measured in kinds.values()):
        return Check(promise, "nginx is missing", None)
    told, kept = [], True
    for order, measured in kinds.items():
        ratio = statistics.median(first / other for first, other in zip(measured.first, measured.nginx, strict=True))
        more = statistics.median(measured.first) - statistics.median(measured.nginx)
        kept = kept and (ratio <= 2 or (gzip and more <= 0.002))
        told.append(f"{order}: {number(ratio)} x, {number(more * 1e3)} ms more")
    return Check(promise, "; ".join(told), kept)
