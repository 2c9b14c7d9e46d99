"""Processes that benchmarks start and look at: orders to them, their CPU time and memory as the kernel counts them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parent.parent
"""This checkout."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE = 10.0
"""Seconds that a process has to end in before it is killed."""


class Failed(Exception):
    """A process that a benchmark needs ended, or never began to answer."""


@contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path | None = None,
    core: int | None = None,
    talks: bool = False,
    checkout: Path = ROOT,
) -> Iterator[subprocess.Popen[str]]:
    """A process, until the end of the block. What it says goes to `log`, or with `talks` through pipes to us.

    `core` is the only processor core that it may use. It runs the code of `checkout`.
    """
    environ = _environ(checkout / "src", checkout)
    stream = log.open("ab") if log is not None else None
    pipe = subprocess.PIPE if talks else None
    try:
        with subprocess.Popen(  # noqa: S603 - commands of our own
            command, cwd=checkout, env=environ, stdin=pipe, stdout=pipe or stream, stderr=stream, text=True
        ) as process:
            try:
                if core is not None:
                    os.sched_setaffinity(process.pid, {core})
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
    finally:
        if stream is not None:
            stream.close()


def become(module: str, arguments: Sequence[str], checkout: Path) -> NoReturn:
    """Replace this process by a module of this checkout's benchmarks that runs the exporter of another checkout."""
    environ = {**_environ(checkout.resolve() / "src", ROOT), "PYTHONHASHSEED": "0"}
    os.execve(sys.executable, [sys.executable, "-m", module, *arguments], environ)  # noqa: S606 - our own


def _environ(*paths: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


class Ordered:
    """A process that answers each line of orders by a line of JSON, and began with one that says its `url`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.url: str = self._answer()["url"]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def order(self, text: str) -> dict[str, Any]:
        """Give an order and wait until it is done. Raises Failed where the process ended instead."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{text}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"a process ended before it was told to {text}") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{' '.join(map(str, self.process.args))}: ended")  # type: ignore[arg-type]  # a list of ours
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def ordered(module: str, *arguments: str, core: int | None = None, checkout: Path = ROOT) -> Iterator[Ordered]:
    """A module of ours, as `checkout` has it, run as a process that takes orders."""
    command = [sys.executable, "-m", module, *arguments]
    with running(command, core=core, talks=True, checkout=checkout) as process:
        yield Ordered(process)


@contextmanager
def cloud(jobs: int, *, core: int | None = None, idle: bool = False) -> Iterator[str]:
    """The URL of a made-up cloud (benchmarks.cloud) with so many jobs.

    One that is `idle` runs only while nobody else wants its core.
    """
    command = [sys.executable, "-m", "benchmarks.cloud", "--jobs", str(jobs)]
    with running(command, core=core, talks=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise Failed("the made-up cloud did not begin")
        if idle:
            os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        yield url


def two_cores() -> tuple[int | None, int | None]:
    """A processor core for what is measured and one for what it talks to; None where there is only one for all."""
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0], cores[1]) if len(cores) > 1 else (None, None)


def with_children(pid: int) -> list[int]:
    """A process and those that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *map(int, children)]


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU time that the processes have used, in user and kernel mode, in the kernel's steps (most often 10 ms)."""
    total = 0
    for pid in pids:
        # The name of a program may hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def resident(pids: Sequence[int]) -> float:
    """Resident memory of the processes now, in MiB."""
    return sum(_status(pid, "VmRSS") for pid in pids)


def peak(pids: Sequence[int]) -> float:
    """The most that was resident since the processes began, or since `forget_peak`, in MiB."""
    return sum(_status(pid, "VmHWM") for pid in pids)


def forget_peak(pids: Sequence[int]) -> None:
    """Let the peak of resident memory begin anew."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _status(pid: int, key: str) -> float:
    found = re.search(rf"{key}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) / 1024
