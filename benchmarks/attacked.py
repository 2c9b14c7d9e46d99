"""Scrapes during two attacks: wrong passwords from other addresses, and clients of the same one that do not read."""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import bcrypt

from benchmarks import processes
from benchmarks.figures import number, quantile
from benchmarks.reader import Reader
from benchmarks.report import Check, Found, Table
from trainfleet_exporter.web.connection_limiter import MAX_CONNECTIONS

_SECONDS = 60.0
_SHORT = 5.0
_BETWEEN = 1.0
"""Seconds from the start of a scrape to the start of the next, where it does not take longer."""
_PATIENCE = 10.0
"""Seconds that a scrape may take, as Prometheus has it by default."""
_GUESSERS, _GUESSED_FROM = 64, tuple(f"127.0.0.{last}" for last in range(2, 10))
_COST = 10
_LOGIN_SERIES = 1_000
_LOGIN_LIMIT = 3.0
_READERS, _PAGE_SERIES = 300, 151_000
_OURS = "127.0.0.1"
_COLUMNS = ("scraper", "scrapes", "200", "other", "p50, ms", "p99, ms", "longest, ms", "resident, MiB")


def run(*, short: bool = False) -> Iterator[Found]:
    """Two tables, and what was promised."""
    seconds = _SHORT if short else _SECONDS
    yield from _passwords(seconds)
    yield from _readers(seconds)


class _Scraper:
    """One way to scrape, and how its scrapes went."""

    def __init__(self, name: str, *, keeps: bool, users: int = 0) -> None:
        self.name = name
        self.seconds: list[float] = []
        self.failures: Counter[str] = Counter()
        self.size = 0
        self._keeps = keeps
        self._users = users
        self._reader: Reader | None = None

    def scrape(self, port: int) -> None:
        """Scrape once. A connection that the server closed while it was idle is replaced, as Prometheus does."""
        if self._reader is None:
            self._reader = Reader(port, gzip=False, timeout=_PATIENCE)
        login = ""
        if self._users:
            user = len(self.seconds) % self._users
            login = f"Authorization: Basic {base64.b64encode(f'user{user}:right'.encode()).decode()}\r\n"
        began = perf_counter()
        try:
            self.size = self._reader.scrape(login).size
        except (OSError, processes.Failed) as error:
            self.failures[str(error).partition("\\r")[0]] += 1
            self._reader.close()
        self.seconds.append(perf_counter() - began)
        if not self._keeps:
            self._reader.close()

    def row(self, resident: float) -> tuple[str, ...]:
        failed = self.failures.total()
        shares = [number(quantile(self.seconds, share) * 1e3) for share in (0.5, 0.99, 1.0)]
        count = len(self.seconds)
        return (self.name, str(count), str(count - failed), str(failed), *shares, number(resident))

    def check(self, promise: str, limit: float) -> Check:
        failed, longest = self.failures.total(), max(self.seconds)
        why = "".join(f"; {count} times {text}" for text, count in self.failures.items())
        measured = f"{len(self.seconds) - failed} of {len(self.seconds)}, the longest took {number(longest)} s{why}"
        return Check(promise, measured, not failed and longest <= limit)


def _passwords(seconds: float) -> Iterator[Found]:
    users = int(_SECONDS / _BETWEEN)
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(_COST)).decode()
    scrapers = [
        _Scraper("one user, known after the first login", keeps=True, users=1),
        _Scraper("another user each time, never known", keeps=False, users=users),
    ]
    note = (
        f"{_GUESSERS} connections from {len(_GUESSED_FROM)} addresses send wrong passwords for {number(seconds)} s, "
        f"each as fast as it is answered (bcrypt, cost {_COST}). A scraper of another address has the right password. "
        "The server is restarted for each row, and the attack comes first."
    )
    table = Table("Scrapes during an attack by wrong passwords", _COLUMNS, notes=[note])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "web.yaml"
        lines = [f"  user{user}: {hashed}\n" for user in range(users)]
        path.write_text(f"basic_auth_users:\n{''.join(lines)}", encoding="utf-8")
        attack = _Attack("passwords", _GUESSERS, _GUESSED_FROM, (str(_LOGIN_SERIES), str(MAX_CONNECTIONS), str(path)))
        for scraper in scrapers:
            table.rows += attack.run([scraper], seconds)
    yield table
    for scraper in scrapers:
        promise = f"beside wrong passwords, each scrape is 200 within {_LOGIN_LIMIT:.0f} s: {scraper.name}"
        yield scraper.check(promise, _LOGIN_LIMIT)


def _readers(seconds: float) -> Iterator[Found]:
    scrapers = [_Scraper("on a kept connection", keeps=True), _Scraper("on a new connection each time", keeps=False)]
    rows = _Attack("readers", _READERS, (_OURS,), (str(_PAGE_SERIES),)).run(scrapers, seconds)
    note = (
        f"{_READERS} connections of the scraper's own address ask for the plain page ({number(scrapers[0].size / 1e6)} "
        f"MB) and read nothing of it. Each is replaced after 25 s. {MAX_CONNECTIONS // 2} connections of one address "
        "are allowed."
    )
    yield Table("Scrapes beside clients of the same address that do not read", _COLUMNS, rows=rows, notes=[note])
    for scraper in scrapers:
        yield scraper.check(
            f"beside {_READERS} clients that do not read, each scrape is 200: {scraper.name}", _PATIENCE
        )


@dataclass(frozen=True, slots=True)
class _Attack:
    """Which clients attack (benchmarks.strangers), and the arguments of the server (benchmarks.server)."""

    kind: str
    count: int
    addresses: Sequence[str]
    server: Sequence[str]

    def run(self, scrapers: Sequence[_Scraper], seconds: float) -> list[Sequence[str]]:
        """Scrape during the attack; the rows of the scrapers."""
        with ExitStack() as stack:
            ours = stack.enter_context(processes.ordered("benchmarks.server", *self.server))
            command = ["-m", "benchmarks.strangers", self.kind, str(ours.port), str(self.count), *self.addresses]
            stack.enter_context(processes.running([sys.executable, *command]))
            end = time.monotonic() + seconds
            time.sleep(_BETWEEN)
            resident = 0.0
            while time.monotonic() < end:
                began = time.monotonic()
                for scraper in scrapers:
                    scraper.scrape(ours.port)
                resident = max(resident, processes.resident([ours.pid]))
                time.sleep(max(0.0, _BETWEEN - (time.monotonic() - began)))
        return [scraper.row(resident) for scraper in scrapers]
