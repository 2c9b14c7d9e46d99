"""The effect of other clients on scrapes: many at once, clients that do not read, slow and idle ones, wrong passwords.

`python -m benchmarks.clients passwords|readers PORT COUNT ADDRESS...` is the attack: COUNT connections, spread evenly
over the addresses, until it is stopped. `passwords` send requests with wrong passwords, one after the other. `readers`
request the plain page and read nothing. After 25 seconds, new connections replace them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import select
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count, cycle
from pathlib import Path
from time import perf_counter

import bcrypt

from benchmarks import peers, rig
from benchmarks.report import Check, Found, Table, megabytes, milliseconds, number, percentiles
from benchmarks.rig import Child, Failed, Page, Scraper
from trainfleet_exporter.web.listeners import MAX_CONNECTIONS
from trainfleet_exporter.web.server import HEAD_SECONDS

_MILLION = 1_000_000
_OURS = "127.0.0.1"
_MANY, _DEAF = 10, 5
_ROUNDS = 7
_CHANGES_BEFORE = 2
_MANY_COLUMNS = ("server, encoding", "one, ms", f"each of {_MANY}, ms", "longest, ms", "resident, MiB", "peak, MiB")
_MANY_METHOD = (
    f"{_ROUNDS} rounds of one scrape alone and of {_MANY} at the same time, on kept connections. Ours and nginx take "
    "turns. The readers are threads of one process on the same machine as the server."
)
_MANY_CELLS = (
    "Cells show medians (10th to 90th percentile). `resident` is the memory before the rounds, and `peak` the largest "
    "value in them."
)
_DEAF_METHOD = (
    f"{_DEAF} connections request the plain page and read nothing of it, with small buffers. The whole page changes "
    "between two connections. The row with 0 slow readers has the same changes."
)
_SLOW, _IDLE = 500, 50
_SHORT = 10
"""Short runs have this fraction of clients and series."""
_CONNECTIONS = 2000
"""Limit of connections: every slow client stays until its timeout, and none replaces another."""
_SLOW_ROUNDS = 5
_SCRAPES = 100
"""Scrapes of each kind in each round: from the connection of the clients until after the server closed them."""
_PAUSE = 0.05
_DELAY_LIMIT = 0.1
"""Seconds that a scrape may take longer next to slow clients."""
_HEAD = b"GET /metrics HTTP/1.1\r\nHost: slow\r\nUser-Agent: " + b"x" * 1000 + b"\r\n\r\n"
_TICKS = 50
"""In each second, each slow client sends its byte in one of so many turns."""
_ALONE = "none"
_CASES: Mapping[str, Sequence[str]] = {
    _ALONE: (),
    "slow and idle ones of other addresses": ("127.0.0.2", "127.0.0.3", "127.0.0.4"),
    "slow and idle ones of the same address": (_OURS,),
}
"""The addresses of other clients."""
_SLOW_COLUMNS = ("other clients", "connection", "scrapes", "p50, ms", "p90, ms", "p99, ms", "longest, ms")
_SLOW_METHOD = (
    f"{_SLOW_ROUNDS} rounds. Each has {_SCRAPES} plain scrapes alone and {_SCRAPES} next to slow and idle clients. "
    f"{_SLOW} clients send a byte a second and {_IDLE} send nothing. They have three other addresses or that of the "
    "scraper. The limit of connections allows all of them. `kept` is one connection for all scrapes, as in "
    "Prometheus. `new` is one connection for each scrape."
)
_ATTACK_SECONDS, _SHORT_ATTACK_SECONDS = 60.0, 5.0
_SCRAPE_EVERY = 1.0
_SCRAPE_TIMEOUT = 10.0
"""Seconds; the default of Prometheus."""
_GUESSERS, _GUESSED_FROM = 64, tuple(f"127.0.0.{last}" for last in range(2, 10))
_COST = 10
"""Of bcrypt."""
_LOGIN_SERIES = 1_000
_LOGIN_LIMIT = 3.0
_READERS, _PAGE_SERIES = 300, 151_000
_READER_STAYS = 25.0
_ATTACK_COLUMNS = ("scraper", "scrapes", "200", "other", "p50, ms", "p99, ms", "longest, ms", "resident, MiB")


def many(*, short: bool) -> Iterator[Found]:
    """Yield tables of times and memory with ten scrapers at once, and with five that do not read."""
    with ExitStack() as stack:
        ours = stack.enter_context(rig.child("server", _MILLION // _SHORT if short else _MILLION))
        page = rig.page(ours.port)
        servers = [peers.ours(ours)]
        lacking = peers.missing(peers.NGINX)
        if not lacking:
            servers.append(stack.enter_context(peers.nginx(page)))
        table = Table(f"{_MANY} scrapers at the same time: {page.series():,} series", _MANY_COLUMNS)
        table.notes = [_MANY_METHOD, _MANY_CELLS, *peers.left_out(lacking)]
        for gzip in (False, True):
            table.rows += _many_at_once(servers, gzip=gzip)
        yield table
        yield _deaf(ours, page)


def _many_at_once(servers: list[peers.Server], *, gzip: bool) -> Iterator[tuple[str, ...]]:
    alone: dict[str, list[float]] = {server.name: [] for server in servers}
    together: dict[str, list[float]] = {server.name: [] for server in servers}
    before = {server.name: rig.resident(server.pids) for server in servers}
    peaks = dict.fromkeys(alone, 0.0)
    with ExitStack() as stack:
        scrapers = {
            server.name: [stack.enter_context(Scraper(server.port, gzip=gzip)) for _ in range(_MANY)]
            for server in servers
        }
        pool = stack.enter_context(ThreadPoolExecutor(_MANY))
        start = threading.Barrier(_MANY)

        def scrape(scraper: Scraper) -> float:
            start.wait()
            return scraper.scrape().whole

        for found in scrapers.values():
            for scraper in found:
                scraper.scrape()
        for _ in range(_ROUNDS):
            for server in servers:
                alone[server.name].append(scrapers[server.name][0].scrape().whole)
                rig.forget_peak(server.pids)
                together[server.name] += pool.map(scrape, scrapers[server.name])
                peaks[server.name] = max(peaks[server.name], rig.peak(server.pids))
    for server in servers:
        yield (
            f"{server.name}, {'gzip' if gzip else 'plain'}",
            milliseconds(alone[server.name]),
            milliseconds(together[server.name]),
            number(max(together[server.name]) * 1e3),
            number(before[server.name]),
            number(peaks[server.name]),
        )


def _deaf(ours: Child, page: Page) -> Table:
    columns = ("slow readers", "resident before, MiB", "peak, MiB", "one that reads, ms")
    table = Table(f"{_DEAF} scrapers that do not read: {page.series():,} series", columns, notes=[_DEAF_METHOD])
    peaks = []
    for _ in range(_CHANGES_BEFORE):  # the first changes allocate memory that all later ones use again
        _change(ours)
    for clients in (0, _DEAF):
        before = rig.resident([ours.pid])
        rig.forget_peak([ours.pid])
        seconds = []
        with ExitStack() as stack, Scraper(ours.port, gzip=False) as scraper:
            for number_of in range(_DEAF):
                if number_of < clients:
                    stack.enter_context(_asked(ours.port))
                seconds.append(scraper.scrape().whole)
                _change(ours)
            peaks.append(rig.peak([ours.pid]))
        table.rows.append((str(clients), number(before), number(peaks[-1]), milliseconds(seconds)))
    more = (peaks[1] - peaks[0]) * (1 << 20)
    table.notes.append(
        f"The connections cost {megabytes(more)} at the peak. {_DEAF} complete pages would take "
        f"{megabytes(_DEAF * len(page.plain))}."
    )
    return table


def _change(ours: Child) -> None:
    ours.command("all")
    ours.command("settle")


def _asked(port: int) -> socket.socket:
    """Return a connection that has requested the page, and reads only as much as the kernel buffers."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((_OURS, port))
    sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: slow\r\n\r\n")
    return sock


def slow(*, short: bool) -> Iterator[Found]:
    """Yield a table of scrapes next to slow and idle clients, how long these stay, and the promises."""
    share, rounds = (_SHORT, 1) if short else (1, _SLOW_ROUNDS)
    seconds: dict[tuple[str, bool], list[float]] = {(case, keeps): [] for case in _CASES for keeps in (True, False)}
    ends: list[float] = []
    with rig.child("server", _MILLION // 10 // share, _CONNECTIONS) as ours:
        page = rig.page(ours.port)
        for _ in range(rounds):
            for case, addresses in _CASES.items():
                with closing(_SlowClients(ours.port, addresses, share)) as clients:
                    _scrape(ours.port, case, seconds)
                    if addresses:
                        ends.append(clients.wait_until_disconnected())
    table = Table(f"Scrapes next to slow and idle clients: {page.series():,} series", _SLOW_COLUMNS)
    table.notes = [_SLOW_METHOD, f"The server closed the last slow connection after {number(max(ends))} s."]
    for (case, keeps), found in seconds.items():
        cells = percentiles(found, 0.5, 0.9, 0.99, 1.0)
        table.rows.append((case, "kept" if keeps else "new", str(len(found)), *cells))
    yield table
    delays = [
        max(found) - statistics.median(seconds[_ALONE, keeps])
        for (case, keeps), found in seconds.items()
        if case != _ALONE
    ]
    longest = max(max(seconds[_ALONE, keeps]) for keeps in (True, False))
    yield Check(
        f"a scrape next to {_SLOW} slow and {_IDLE} idle connections is delayed by at most {_DELAY_LIMIT * 1e3:.0f} ms",
        f"the slowest took {number(max(delays) * 1e3)} ms longer than the median without them (the slowest without "
        f"them took {number(longest * 1e3)} ms)",
        max(delays) <= _DELAY_LIMIT,
    )
    yield Check(
        f"each of {_SLOW} slow and {_IDLE} idle connections ends",
        f"after at most {number(max(ends))} s",
        max(ends) <= HEAD_SECONDS + 5,
    )


def _scrape(port: int, case: str, seconds: Mapping[tuple[str, bool], list[float]]) -> None:
    with Scraper(port, gzip=False) as kept, Scraper(port, gzip=False) as new:
        kept.scrape()
        for _ in range(_SCRAPES):
            for keeps, scraper in ((True, kept), (False, new)):
                time.sleep(_PAUSE)
                seconds[case, keeps].append(scraper.scrape().whole)
            new.close()


class _SlowClients:
    """Connected clients. Most of them send a byte of their request a second until the server disconnects them."""

    def __init__(self, port: int, addresses: Sequence[str], share: int) -> None:
        self._began = time.monotonic()
        origins = cycle(addresses)
        number_of = (_SLOW + _IDLE) // share if addresses else 0
        self._all = [
            socket.create_connection((_OURS, port), source_address=(next(origins), 0)) for _ in range(number_of)
        ]
        self._slow = self._all[: _SLOW // share]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_slowly, daemon=True)
        self._thread.start()

    def _send_slowly(self) -> None:
        for byte in range(len(_HEAD)):
            for turn in range(_TICKS):
                if self._over.wait(1 / _TICKS):
                    return
                for sock in self._slow[turn::_TICKS]:
                    try:
                        sock.send(_HEAD[byte : byte + 1])
                    except OSError:  # disconnected
                        continue

    def wait_until_disconnected(self) -> float:
        """Wait until the server has closed every connection; return the seconds since the first connected."""
        for sock in self._all:
            poll = select.poll()  # select.select accepts no file descriptors above 1,023
            poll.register(sock, select.POLLIN)
            while True:
                if not poll.poll(60_000):
                    raise Failed("a slow client is still there after a minute")
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


def attacks(*, short: bool) -> Iterator[Found]:
    """Yield tables and promises of scrapes during two attacks, by wrong passwords and by clients that do not read."""
    seconds = _SHORT_ATTACK_SECONDS if short else _ATTACK_SECONDS
    yield from _wrong_passwords(seconds)
    yield from _clients_that_do_not_read(seconds)


class _Probe:
    """One way to scrape, and the results of its scrapes."""

    def __init__(self, name: str, *, keeps: bool, users: int = 0) -> None:
        self.name = name
        self.seconds: list[float] = []
        self.failures: Counter[str] = Counter()
        self.size = 0
        self._keeps = keeps
        self._users = users
        self._scraper: Scraper | None = None

    def scrape(self, port: int) -> None:
        """Scrape once. If the server had closed the idle connection, connect again, as Prometheus does."""
        if self._scraper is None:
            self._scraper = Scraper(port, gzip=False, timeout=_SCRAPE_TIMEOUT)
        login = ""
        if self._users:
            user = len(self.seconds) % self._users
            login = f"Authorization: Basic {base64.b64encode(f'user{user}:right'.encode()).decode()}\r\n"
        began = perf_counter()
        try:
            self.size = self._scraper.scrape(login).size
        except (OSError, Failed) as error:
            self.failures[str(error).partition("\\r")[0]] += 1
            self._scraper.close()
        self.seconds.append(perf_counter() - began)
        if not self._keeps:
            self._scraper.close()

    def row(self, resident: float) -> tuple[str, ...]:
        failed, total = self.failures.total(), len(self.seconds)
        cells = percentiles(self.seconds, 0.5, 0.99, 1.0)
        return (self.name, str(total), str(total - failed), str(failed), *cells, number(resident))

    def check(self, promise: str, limit: float) -> Check:
        failed, longest = self.failures.total(), max(self.seconds)
        why = "".join(f"; {times} times {text}" for text, times in self.failures.items())
        measured = f"{len(self.seconds) - failed} of {len(self.seconds)}, the longest took {number(longest)} s{why}"
        return Check(promise, measured, not failed and longest <= limit)


def _wrong_passwords(seconds: float) -> Iterator[Found]:
    users = int(_ATTACK_SECONDS / _SCRAPE_EVERY)
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(_COST)).decode()
    probes = [
        _Probe("one user, known after the first login", keeps=True, users=1),
        _Probe("another user each time, never known", keeps=False, users=users),
    ]
    note = (
        f"{_GUESSERS} connections from {len(_GUESSED_FROM)} addresses send wrong passwords for {number(seconds)} s. "
        f"Each sends the next one after the response (bcrypt, cost {_COST}). A scraper with another address has the "
        "right password. For each row, the server starts again, and the attack begins before the first scrape."
    )
    table = Table("Scrapes during an attack by wrong passwords", _ATTACK_COLUMNS, notes=[note])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "web.yaml"
        lines = [f"  user{user}: {hashed}\n" for user in range(users)]
        path.write_text(f"basic_auth_users:\n{''.join(lines)}", encoding="utf-8")
        for probe in probes:
            attack = ("passwords", _GUESSERS, _GUESSED_FROM)
            table.rows += _attacked(attack, (_LOGIN_SERIES, MAX_CONNECTIONS, path), [probe], seconds)
    yield table
    for probe in probes:
        promise = f"next to wrong passwords, each scrape is 200 within {_LOGIN_LIMIT:.0f} s: {probe.name}"
        yield probe.check(promise, _LOGIN_LIMIT)


def _clients_that_do_not_read(seconds: float) -> Iterator[Found]:
    probes = [_Probe("on a kept connection", keeps=True), _Probe("on a new connection each time", keeps=False)]
    rows = _attacked(("readers", _READERS, (_OURS,)), (_PAGE_SERIES,), probes, seconds)
    note = (
        f"{_READERS} connections from the scraper's address request the plain page ({megabytes(probes[0].size)}) "
        f"and read nothing of it. After {_READER_STAYS:.0f} s, a new connection replaces each of them. The limit is "
        f"{MAX_CONNECTIONS // 2} connections from one address."
    )
    yield Table("Scrapes next to clients of the same address that do not read", _ATTACK_COLUMNS, rows, [note])
    for probe in probes:
        promise = f"next to {_READERS} clients that do not read, each scrape is 200: {probe.name}"
        yield probe.check(promise, _SCRAPE_TIMEOUT)


def _attacked(
    attack: tuple[str, int, Sequence[str]], server: Sequence[object], probes: Sequence[_Probe], seconds: float
) -> list[Sequence[str]]:
    """Scrape during an attack (kind, connections, addresses) on a server with these arguments; return the rows of the
    probes."""
    kind, connections, addresses = attack
    with ExitStack() as stack:
        ours = stack.enter_context(rig.child("server", *server))
        stack.enter_context(rig.child("clients", kind, ours.port, connections, *addresses))
        end = time.monotonic() + seconds
        time.sleep(_SCRAPE_EVERY)
        resident = 0.0
        while time.monotonic() < end:
            began = time.monotonic()
            for probe in probes:
                probe.scrape(ours.port)
            resident = max(resident, rig.resident([ours.pid]))
            time.sleep(max(0.0, _SCRAPE_EVERY - (time.monotonic() - began)))
    return [probe.row(resident) for probe in probes]


_ASK = "GET /metrics HTTP/1.1\r\nHost: attacker\r\n"
_numbers = count()


async def _guess(port: int, address: str) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(_OURS, port, local_addr=(address, 0))
        except OSError:
            await asyncio.sleep(_PAUSE)
            continue
        try:
            while True:
                login = base64.b64encode(f"user0:wrong{next(_numbers)}".encode()).decode()
                writer.write(f"{_ASK}Authorization: Basic {login}\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(_PAUSE)
        finally:
            writer.close()


async def _read_nothing(port: int, address: str) -> None:
    loop = asyncio.get_running_loop()
    while True:
        until = loop.time() + _READER_STAYS
        with socket.socket() as sock:
            sock.setblocking(False)
            sock.bind((address, 0))
            try:
                await loop.sock_connect(sock, (_OURS, port))
                await loop.sock_sendall(sock, f"{_ASK}\r\n".encode())
            except OSError:  # disconnected: it connects again when its time is over
                pass
            await asyncio.sleep(until - loop.time())


async def _attack(kind: str, port: int, connections: int, addresses: Sequence[str]) -> None:
    client = {"passwords": _guess, "readers": _read_nothing}[kind]
    print(json.dumps({"url": f"http://{_OURS}:{port}"}), flush=True)  # the attack begins
    async with asyncio.TaskGroup() as group:
        for place in range(connections):
            group.create_task(client(port, addresses[place % len(addresses)]))


if __name__ == "__main__":
    asyncio.run(_attack(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
