"""Scrapes beside 500 clients that send a byte a second and 50 that send nothing: what they delay, and that they end."""

from __future__ import annotations

import select
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from threading import Event, Thread

from benchmarks import peers, processes
from benchmarks.figures import number, quantile
from benchmarks.reader import Reader
from benchmarks.report import Check, Found, Table
from trainfleet_exporter.web.connection import HEAD_SECONDS

_SERIES = 100_000
_SLOW, _IDLE = 500, 50
_SHORT = 10
"""The share of them that come where all is to be shorter: one of so many."""
_CONNECTIONS = 2000
"""That may be, so that all of them stay until their time is over, and none makes room for another."""
_ROUNDS = 5
_SCRAPES = 100
"""Of each kind in each round: as long as the clients stay, and while they are shown out."""
_PAUSE = 0.05
_LIMIT = 0.1
"""Seconds that a scrape beside them may take longer."""
_HEAD = b"GET /metrics HTTP/1.1\r\nHost: slow\r\nUser-Agent: " + b"x" * 1000 + b"\r\n\r\n"
_TICKS = 50
"""A second: so many times one of so many slow clients sends its byte."""
_STRANGERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
_OURS = "127.0.0.1"
_COLUMNS = ("other clients", "connection", "scrapes", "p50, ms", "p90, ms", "p99, ms", "longest, ms")
_METHOD = (
    f"{_ROUNDS} rounds, in each {_SCRAPES} plain scrapes of each kind alone, and as many beside {_SLOW} clients that "
    f"send a byte a second and {_IDLE} that send nothing: of three other addresses, and of the one that scrapes come "
    "from; so many are allowed that all of them stay. On a connection that is kept, as Prometheus does, and on a new "
    "one for each scrape."
)


@dataclass(frozen=True, slots=True)
class _Case:
    """Who comes besides: from which addresses, and what that is called."""

    name: str
    addresses: Sequence[str]


_CASES = (
    _Case("none", ()),
    _Case("slow and idle, other addresses", _STRANGERS),
    _Case("slow and idle, same address", (_OURS,)),
)


def run(*, short: bool = False) -> Iterator[Found]:
    """A table of percentiles, and what was promised."""
    share = _SHORT if short else 1
    rounds = 1 if short else _ROUNDS
    seconds: dict[tuple[str, bool], list[float]] = {
        (case.name, keeps): [] for case in _CASES for keeps in (True, False)
    }
    ends: list[float] = []
    with processes.ordered("benchmarks.server", str(_SERIES // share), str(_CONNECTIONS)) as ours:
        page = peers.page(ours.port)
        for _ in range(rounds):
            for case in _CASES:
                with _visited(ours.port, case.addresses, share) as visit:
                    _scrape(ours.port, case.name, seconds)
                    if case.addresses:
                        ends.append(visit.wait_until_gone())
    table = Table(f"Scrapes beside slow and idle clients: {page.series():,} series", _COLUMNS)
    table.notes = [_METHOD, f"The last of the slow clients was gone {number(max(ends))} s after it came, at most."]
    for (name, keeps), found in seconds.items():
        shares = [number(quantile(found, part) * 1e3) for part in (0.5, 0.9, 0.99, 1.0)]
        table.rows.append((name, "kept" if keeps else "new", str(len(found)), *shares))
    yield table
    yield _promise(seconds)
    yield Check(
        f"each of {_SLOW} slow and {_IDLE} idle connections ends",
        f"after {number(max(ends))} s, the latest",
        max(ends) <= HEAD_SECONDS + 5,
    )


def _promise(seconds: dict[tuple[str, bool], list[float]]) -> Check:
    delays = []
    for keeps in (True, False):
        alone = statistics.median(seconds[_CASES[0].name, keeps])
        delays += [max(seconds[case.name, keeps]) - alone for case in _CASES[1:]]
    longest = max(max(seconds[_CASES[0].name, keeps]) for keeps in (True, False))
    return Check(
        f"a scrape beside {_SLOW} slow and {_IDLE} idle connections is delayed by at most {_LIMIT * 1e3:.0f} ms",
        f"the slowest took {number(max(delays) * 1e3)} ms longer than the median alone (the slowest alone took "
        f"{number(longest * 1e3)} ms in all)",
        max(delays) <= _LIMIT,
    )


def _scrape(port: int, name: str, seconds: dict[tuple[str, bool], list[float]]) -> None:
    with Reader(port, gzip=False) as kept, Reader(port, gzip=False) as new:
        kept.scrape()
        for _ in range(_SCRAPES):
            for keeps, reader in ((True, kept), (False, new)):
                time.sleep(_PAUSE)
                seconds[name, keeps].append(reader.scrape().whole)
            new.close()


class _Visit:
    """Clients that have connected, some of which drip their request until they are shown out."""

    def __init__(self, port: int, addresses: Sequence[str], share: int) -> None:
        self._began = time.monotonic()
        origins = cycle(addresses)
        count = (_SLOW + _IDLE) // share if addresses else 0
        self._all = [_connected(port, next(origins)) for _ in range(count)]
        self._slow = self._all[: _SLOW // share]
        self._over = Event()
        self._thread = Thread(target=self._drip, daemon=True)
        self._thread.start()

    def _drip(self) -> None:
        byte = 0
        while byte < len(_HEAD):
            for turn in range(_TICKS):
                if self._over.wait(1 / _TICKS):
                    return
                for sock in self._slow[turn::_TICKS]:
                    try:
                        sock.send(_HEAD[byte : byte + 1])
                    except OSError:  # shown out
                        continue
            byte += 1

    def wait_until_gone(self) -> float:
        """Until every one of them has been shown out; the seconds since the first came."""
        for sock in self._all:
            poll = select.poll()  # knows numbers above 1,023
            poll.register(sock, select.POLLIN)
            while True:
                if not poll.poll(60_000):
                    raise processes.Failed("a slow client is still there after a minute")
                try:
                    if not sock.recv(4096):
                        break
                except OSError:
                    break
        return time.monotonic() - self._began

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for sock in self._all:
            sock.close()


@contextmanager
def _visited(port: int, addresses: Sequence[str], share: int) -> Iterator[_Visit]:
    visit = _Visit(port, addresses, share)
    try:
        yield visit
    finally:
        visit.close()


def _connected(port: int, origin: str) -> socket.socket:
    sock = socket.socket()
    sock.bind((origin, 0))
    sock.connect(("127.0.0.1", port))
    return sock
