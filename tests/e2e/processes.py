"""Whole processes: the exporter as its user starts it, and a simulated cloud in a thread of the test."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal

from trainfleet_conformance.page import check
from trainfleet_simulator import Simulator

COMMAND = [sys.executable, "-m", "trainfleet_exporter"]
PATIENCE = 180.0
"""How long to wait for what takes seconds on a quiet machine, or some intervals of polls."""


def eventually(check: Callable[[], Any], *, what: str) -> Any:
    """The first truthy answer of `check`, asked again and again (real time: other processes do not step)."""
    end = time.monotonic() + PATIENCE
    while (asked := time.monotonic()) < end:
        with contextlib.suppress(httpx.TransportError):
            found = check()
            if found:
                return found
        time.sleep(max(0.02, time.monotonic() - asked))  # leave the processors to those that are waited for
    raise AssertionError(f"waited {PATIENCE:.0f} s in vain for {what}")


@contextlib.contextmanager
def running_cloud(**options: Any) -> Iterator[tuple[Simulator, str]]:
    """A served simulator and its address."""
    simulator = Simulator(**options)
    with running_clouds([simulator]) as addresses:
        yield simulator, addresses[0]


@contextlib.contextmanager
def running_clouds(simulators: Sequence[Simulator]) -> Iterator[list[str]]:
    """The addresses of simulators that are served, all of them in one thread."""
    with start_blocking_portal() as portal, contextlib.ExitStack() as stack:
        served = (portal.wrap_async_context_manager(each.serve("127.0.0.1", 0)) for each in simulators)
        yield [stack.enter_context(each) for each in served]


class ExporterProcess:
    """A running exporter: where it listens, what it logged. `command` runs it, with changes to its environment."""

    def __init__(
        self,
        arguments: list[str],
        log: Path,
        *,
        command: Sequence[str] = COMMAND,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*command, *arguments, "--web.listen-address=127.0.0.1:0"],
                stderr=stream,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONWARNINGS": "error", **(environ or {})},
            )
        self.url = f"http://{eventually(self._address, what='the exporter to listen')}"
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=60)

    def _address(self) -> str | None:
        assert self.process.poll() is None, self.log
        match = re.search(r"msg=started .*address=(\S+)", self.log)
        return match[1] if match else None

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def wait_until_ready(self) -> None:
        eventually(lambda: self.client.get("/-/ready").status_code == 200, what="every first poll")

    def metrics(self, **headers: str) -> httpx.Response:
        """Scrape. Raises ValueError if the page is invalid."""
        answer = self.client.get("/metrics", headers={"accept": "*/*", **headers})
        if answer.status_code == 200:
            check(answer.text)
        return answer

    def samples(self, name: str) -> dict[str, float]:
        """Samples of one name: label text to value."""
        rows = (line.rpartition(" ") for line in self.metrics().text.splitlines() if line.startswith(name + "{"))
        return {labels.removeprefix(name): float(value) for labels, _, value in rows}

    def end(self, *, signal: int, within: float = 5.0) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(signal)
        return self.process.wait(within)

    def close(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextlib.contextmanager
def running_exporter(
    arguments: list[str], log: Path, *, command: Sequence[str] = COMMAND, environ: Mapping[str, str] | None = None
) -> Iterator[ExporterProcess]:
    """The exporter as a process of its own, listening on a free loopback port."""
    exporter = ExporterProcess(arguments, log, command=command, environ=environ)
    try:
        yield exporter
    finally:
        exporter.close()


@contextlib.contextmanager
def running_server(command: Sequence[str | Path], port: int, log: Path) -> Iterator[httpx.Client]:
    """A client for a server such as Prometheus, once it is ready."""
    with log.open("ab") as stream, subprocess.Popen(command, stderr=stream, stdout=stream) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
                eventually(lambda: client.get("/-/ready").status_code == 200, what=str(command[0]))
                yield client
        finally:
            process.terminate()
