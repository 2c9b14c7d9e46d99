"""Common parts of all benchmarks: child processes and their use of resources, an exporter with its cloud, and a
scraper.

Of the exporter, it imports only the config, because its code may be that of another checkout.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.cloud import config
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.providers.registry import installed_platforms

ROOT = Path(__file__).parent.parent
"""This checkout."""
_STARTED = perf_counter()
_TICKS = os.sysconf("SC_CLK_TCK")
_END_SECONDS = 10.0
"""Seconds for a process to end before it is killed."""
_ANSWER_SECONDS = 120.0
_READ = 1 << 18
_OWN_METRICS = b"# HELP trainfleet_provider_up "
"""The start of the exporter's own metrics on a page."""


def progress(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"{(perf_counter() - _STARTED) / 60:5.1f} min: {text}", flush=True)


class Failed(Exception):
    """A process that a benchmark needs has ended, or sent an invalid response."""


@contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path | None = None,
    core: int | None = None,
    pipes: bool = False,
    checkout: Path = ROOT,
) -> Iterator[subprocess.Popen[str]]:
    """Run a process until the end of the block. Its output goes to `log`; with `pipes`, input and output are ours.

    `core` is the only CPU core that it may use. It runs the code of `checkout`.
    """
    with ExitStack() as stack:
        stream = stack.enter_context(log.open("ab")) if log is not None else None
        pipe = subprocess.PIPE if pipes else None
        environ = _environ(checkout / "src", checkout)
        process = stack.enter_context(
            subprocess.Popen(  # noqa: S603 - commands of our own
                command, cwd=checkout, env=environ, stdin=pipe, stdout=pipe or stream, stderr=stream, text=True
            )
        )
        try:
            if core is not None:
                os.sched_setaffinity(process.pid, {core})
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def run(module: str, arguments: Sequence[str], checkout: Path) -> int:
    """Run a module of these benchmarks with the exporter of another checkout; return its exit code."""
    environ = {**_environ(checkout.resolve() / "src", ROOT), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=environ, check=False).returncode  # noqa: S603 - our own


def _environ(*paths: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


class Child:
    """A process that prints its `facts` (JSON with its `url`), and responds to each line of input with JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid
        self.facts = self._answer()
        self.url: str = self.facts["url"]
        self.port = int(self.url.rpartition(":")[2])

    def command(self, text: str) -> dict[str, Any]:
        """Send a command and wait until it is done. Raises Failed if the process ends instead."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{text}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"a process ended before the command {text}") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self._process.args!r}: ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def child(module: str, *arguments: object, core: int | None = None, checkout: Path = ROOT) -> Iterator[Child]:
    """Run a module of these benchmarks from `checkout` as a separate process."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    with running(command, core=core, pipes=True, checkout=checkout) as process:
        yield Child(process)


class DrivenExporter:
    """An exporter (benchmarks.driven) and the cloud that it polls (benchmarks.cloud), each a process."""

    def __init__(self, cloud: Child, exporter: Child) -> None:
        self.cloud = cloud
        self.port = exporter.port
        self.pid = exporter.pid
        self._exporter = exporter
        self._cpu = 0.0
        self._ended = time.time()

    def change(self, *, jobs: float = 0.0, usage: bool = False, still: bool = False) -> None:
        """Replace this share of the jobs; with `usage`, change every reading (see benchmarks.cloud)."""
        get(f"{self.cloud.url}/-/change?jobs={jobs}&usage={usage:d}&still={still:d}")

    def command(self, text: str) -> float:
        """Send a command; return the CPU seconds that the exporter used since the end of the previous one."""
        answer = self._exporter.command(text)
        self._ended = time.time()
        before, self._cpu = self._cpu, float(answer["cpu"])
        return self._cpu - before

    def await_second(self) -> None:
        """Wait until the second of the latest command is over, because durations are whole seconds."""
        time.sleep(max(0.0, int(self._ended) + 1.01 - time.time()))


@contextmanager
def exporters(jobs: int, pods: int, checkouts: Sequence[Path] = (ROOT,)) -> Iterator[list[DrivenExporter]]:
    """Run one cloud and an exporter of each checkout. The exporters share a core: use one at a time."""
    own, others = two_cores()
    with ExitStack() as stack:
        cloud = stack.enter_context(child("cloud", jobs, pods, core=others))
        path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "config.yaml")
        path.write_text(config(cloud.url), encoding="utf-8")
        yield [
            DrivenExporter(cloud, stack.enter_context(child("driven", path, core=own, checkout=one)))
            for one in checkouts
        ]


def load(text: str) -> Config:
    """Load the exporter's config, as from a file."""
    platforms = {name: platform.config for name, platform in installed_platforms().items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(text, encoding="utf-8")
        return load_config(path, environ={}, platforms=platforms)


def two_cores() -> tuple[int | None, int | None]:
    """Return a CPU core for the measured process and one for the other; None if there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0], cores[1]) if len(cores) > 1 else (None, None)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, user and system, in the kernel's steps (usually 10 ms)."""
    # The name of a program may contain spaces and brackets.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident(pids: Sequence[int]) -> float:
    """Return the resident memory of the processes in MiB."""
    pages = (int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for pid in pids)
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def get(url: str, data: bytes | None = None, *, timeout: float = _ANSWER_SECONDS, method: str | None = None) -> bytes:
    """Return the body of a response. The request is a POST if there is `data`, and no other `method`."""
    request = urllib.request.Request(url, data, method=method)  # noqa: S310 - our own, over http
    with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310 - our own, over http
        body: bytes = answer.read()
        return body


@dataclass(frozen=True, slots=True)
class Page:
    """One response of ours, plain and gzip."""

    plain: bytes
    gzip: bytes

    def of_clouds(self) -> bytes:
        """Return the plain page without the exporter's own metrics, which differ in each scrape."""
        return self.plain[: self.plain.index(_OWN_METRICS)]

    def series(self) -> int:
        """Count the samples."""
        return self.plain.count(b"\n") - self.plain.count(b"\n# ") - self.plain.startswith(b"# ")


def page(port: int) -> Page:
    """Return the current page of our server."""
    with Scraper(port, gzip=False) as plain, Scraper(port, gzip=True) as gzip:
        return Page(plain.read(), gzip.read())


class Scraper:
    """Scrapes one server over a connection, which it keeps if the server does. It inflates and decodes nothing.

    If the server closed the connection, the time of a scrape includes a new connection.
    """

    def __init__(self, port: int, *, gzip: bool) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
        self._headers = {"Accept-Encoding": "gzip" if gzip else "identity"}
        self._buffer = memoryview(bytearray(_READ))

    def __enter__(self) -> Scraper:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self) -> bytes:
        """Return the body of one scrape as it was sent. Raises Failed if it is not a 200."""
        return self._ask().read()

    def scrape(self) -> float:
        """Send one request and read the whole response; return the seconds until its last byte.

        Raises Failed if it is not a 200 or ends early.
        """
        began = perf_counter()
        answer = self._ask()
        while answer.readinto(self._buffer):
            self._acknowledge_at_once()
        if answer.length:
            raise Failed(f"port {self._connection.port}: {answer.length} bytes are missing")
        return perf_counter() - began

    def _ask(self) -> http.client.HTTPResponse:
        """Send the request; return the response, of which only the head is read."""
        try:
            answer = self._answer()
        except ConnectionError:  # the server had closed the connection, because it was idle too long
            self._connection.close()
            answer = self._answer()
        if answer.status != http.client.OK:
            raise Failed(f"port {self._connection.port}: {answer.status}")
        return answer

    def _answer(self) -> http.client.HTTPResponse:
        self._acknowledge_at_once()
        self._connection.request("GET", "/metrics", headers=self._headers)
        return self._connection.getresponse()

    def _acknowledge_at_once(self) -> None:
        """Set TCP_QUICKACK, which Linux resets after a while.

        Without it, the kernel may delay an acknowledgement by 40 ms, and an idle sender waits for it. One in a hundred
        scrapes of any server would show that.
        """
        if self._connection.sock is not None:
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
