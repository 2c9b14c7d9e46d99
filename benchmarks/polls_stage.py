"""A fleet and the exporter that polls it, each in a process of its own, for benchmarks that sit beside both."""

from __future__ import annotations

import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.cloud import config
from benchmarks.processes import ROOT, Failed, Ordered, ordered, running, two_cores


class Stage:
    """A fleet that changes, and an exporter that polls it, when they are told to. See `stage`."""

    def __init__(self, cloud_url: str, exporter: Ordered) -> None:
        self._cloud_url = cloud_url
        self._exporter = exporter
        self._cpu = 0.0
        self._ended = time.time()
        """When the latest order did."""

    @property
    def port(self) -> int:
        """Where the exporter is scraped, on the loopback address."""
        return self._exporter.port

    @property
    def pid(self) -> int:
        """The exporter's process."""
        return self._exporter.pid

    def change(self, *, jobs: float = 0.0, usage: bool = False, still: bool = False) -> None:
        """Replace a part of the jobs; give every reading another value, or have it stay as it is (see
        benchmarks.cloud)."""
        url = f"{self._cloud_url}/-/change?jobs={jobs}&usage={usage:d}&still={still:d}"
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own, over http
            answer.read()

    def order(self, line: str) -> float:
        """Give the exporter an order (see benchmarks.driven); CPU seconds that it used since the order before ended.

        Failed where it ends instead.
        """
        told = self._exporter.order(line)
        self._ended = time.time()
        before, self._cpu = self._cpu, float(told["cpu"])
        return self._cpu - before

    def await_second(self) -> None:
        """Wait until it is another second than that in which the latest order ended: durations are whole seconds."""
        time.sleep(max(0.0, int(self._ended) + 1.01 - time.time()))


@contextmanager
def stage(jobs: int, pods: int) -> Iterator[Stage]:
    """Start both, each with a processor core to itself where there are two; they are ended with the block."""
    with stages(jobs, pods, [ROOT]) as (there,):
        yield there


@contextmanager
def stages(jobs: int, pods: int, checkouts: Sequence[Path]) -> Iterator[list[Stage]]:
    """Likewise for one fleet and an exporter of each checkout, which share a core: give orders to one at a time."""
    command = [sys.executable, "-m", "benchmarks.cloud", f"--jobs={jobs}", f"--pods={pods}"]
    own, others = two_cores()
    with running(command, core=others, talks=True) as cloud, tempfile.TemporaryDirectory() as folder:
        assert cloud.stdout is not None
        url = cloud.stdout.readline().strip()
        if not url:
            raise Failed("the made-up cloud did not begin")
        path = Path(folder, "config.yaml")
        path.write_text(config(url), encoding="utf-8")
        with ExitStack() as exporters:
            yield [
                Stage(url, exporters.enter_context(ordered("benchmarks.driven", str(path), core=own, checkout=one)))
                for one in checkouts
            ]
