"""Ten scrapers at once, and five that do not read, of a million series: how long each takes, and what memory."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks import peers, processes
from benchmarks.figures import milliseconds, number
from benchmarks.peers import Server
from benchmarks.processes import Ordered
from benchmarks.reader import Reader
from benchmarks.report import Found, Table

_SERIES = 1_000_000
_SHORT = 100_000
_SCRAPERS = 10
_SLOW = 5
_ROUNDS = 7
_CHANGES_BEFORE = 2
_COLUMNS = ("server, encoding", "one, ms", f"each of {_SCRAPERS}, ms", "longest, ms", "resident, MiB", "peak, MiB")
_METHOD = (
    f"{_ROUNDS} rounds of one scrape alone and of {_SCRAPERS} at the same time, on kept connections. Ours and nginx take "
    "turns. The readers are threads of one process, which shares the machine with the server. Medians, and from the 10th "
    "to the 90th percentile in brackets. `resident` is before the rounds, `peak` the most within them."
)
_SLOW_METHOD = (
    f"{_SLOW} connections ask for the plain page and read nothing of it, with small buffers. Everything on the page "
    "changes between them. The other row has the same changes without them."
)


def run(*, short: bool = False) -> Iterator[Found]:
    """Two tables."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(processes.ordered("benchmarks.server", str(_SHORT if short else _SERIES)))
        page = peers.page(ours.port)
        servers = [Server("trainfleet-exporter", ours.port, [ours.pid])]
        lacking = peers.missing("nginx")
        if not lacking:
            servers.append(stack.enter_context(peers.nginx(page, folder)))
        table = Table(f"{_SCRAPERS} scrapers at once: {page.series():,} series", _COLUMNS)
        table.notes = [_METHOD, *(f"{program}: not on this machine, left out." for program in lacking)]
        for gzip in (False, True):
            table.rows += _crowds(servers, gzip=gzip)
        yield table
        yield _slow(ours, page)


def _crowds(servers: list[Server], *, gzip: bool) -> Iterator[tuple[str, ...]]:
    alone: dict[str, list[float]] = {server.name: [] for server in servers}
    crowded: dict[str, list[float]] = {server.name: [] for server in servers}
    before = {server.name: processes.resident(server.pids) for server in servers}
    peaks = dict.fromkeys(alone, 0.0)
    with ExitStack() as stack:
        readers = {
            server.name: [stack.enter_context(Reader(server.port, gzip=gzip)) for _ in range(_SCRAPERS)]
            for server in servers
        }
        pool = stack.enter_context(ThreadPoolExecutor(_SCRAPERS))
        start = threading.Barrier(_SCRAPERS)

        def scrape(reader: Reader) -> float:
            start.wait()
            return reader.scrape().whole

        for found in readers.values():
            for reader in found:
                reader.scrape()
        for _ in range(_ROUNDS):
            for server in servers:
                alone[server.name].append(readers[server.name][0].scrape().whole)
                processes.forget_peak(server.pids)
                crowded[server.name] += pool.map(scrape, readers[server.name])
                peaks[server.name] = max(peaks[server.name], processes.peak(server.pids))
    for server in servers:
        yield (
            f"{server.name}, {'gzip' if gzip else 'plain'}",
            milliseconds(alone[server.name]),
            milliseconds(crowded[server.name]),
            number(max(crowded[server.name]) * 1e3),
            number(before[server.name]),
            number(peaks[server.name]),
        )


def _slow(ours: Ordered, page: peers.Page) -> Table:
    columns = ("slow readers", "resident before, MiB", "peak, MiB", "one that reads, ms")
    table = Table(f"{_SLOW} scrapers that do not read: {page.series():,} series", columns, notes=[_SLOW_METHOD])
    peaks = []
    for _ in range(_CHANGES_BEFORE):  # memory of the first changes grows by what every later one uses again
        ours.order("all")
        ours.order("settle")
    for slow in (0, _SLOW):
        ours.order("settle")
        before = processes.resident([ours.pid])
        processes.forget_peak([ours.pid])
        seconds = []
        with ExitStack() as stack, Reader(ours.port, gzip=False) as reader:
            for _ in range(_SLOW):
                if slow:
                    stack.enter_context(_asked(ours.port))
                seconds.append(reader.scrape().whole)
                ours.order("all")
                ours.order("settle")
            peaks.append(processes.peak([ours.pid]))
        table.rows.append((str(slow), number(before), number(peaks[-1]), milliseconds(seconds)))
    more = (peaks[1] - peaks[0]) * (1 << 20)
    table.notes.append(
        f"They cost {number(more / 1e6)} MB at the peak. {_SLOW} whole pages would be "
        f"{number(_SLOW * len(page.plain) / 1e6)} MB."
    )
    return table


def _asked(port: int) -> socket.socket:
    """A connection that asked for the page, and takes no more of it than the kernel does by itself."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: slow\r\n\r\n")
    return sock
