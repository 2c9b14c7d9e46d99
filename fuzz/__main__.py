"""`python -m fuzz [TARGET ...] [--seconds 600]`: fuzz each target for so many seconds and print a table.

A new input is added to the target's archive in `fuzz/corpus` if it reaches code that no kept input reaches. If an input
breaks something, it stays in `fuzz/found` and the exit code is 1. The next run feeds it first, and moves it to the
archive once the bug is fixed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.archive import read_inputs, write_inputs
from fuzz.targets import TARGETS

_HERE = Path(__file__).parent
_SLOWEST = 10
"""Seconds after which an input counts as a hang."""
_LARGEST = 8192
"""Bytes of an input."""
_MEMORY = 2048
"""MiB of memory above which an input counts as a failure."""
_PROGRESS = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+)")
_DONE = re.compile(r"Done (\d+) runs")


def main() -> int:
    """Fuzz the targets, print a table and keep new inputs."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "targets", metavar="TARGET", nargs="*", help=f"targets to fuzz: {', '.join(TARGETS)}; default: all"
    )
    parser.add_argument("--seconds", type=int, default=600, help="seconds for each target; default: 600")
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"unknown target: {', '.join(unknown)}; allowed: {', '.join(TARGETS)}")
    print("| target | executions | a second | coverage (edges) | features | broken by |\n|---|---|---|---|---|---|")
    is_broken = False
    for name in options.targets or TARGETS:
        row, found = _fuzz(name, options.seconds)
        is_broken |= bool(found)
        print(f"| {name} | {' | '.join(row)} | {', '.join(found) or 'nothing'} |", flush=True)
    return int(is_broken)


def _fuzz(name: str, seconds: int) -> tuple[tuple[str, ...], list[str]]:
    broken = _HERE / "found"
    broken.mkdir(exist_ok=True)
    before = set(broken.glob(f"{name}-*"))
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            f"-max_total_time={seconds}",
            f"-timeout={_SLOWEST}",
            f"-rss_limit_mb={_MEMORY}",
            f"-max_len={_LARGEST}",
            f"-artifact_prefix={broken}/{name}-",
            "-print_final_stats=1",
        ]
        launcher = _launcher(name, Path(folder))
        corpus, new = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
        for kept, data in read_inputs(name).items():
            (corpus / kept).write_bytes(data)
        for path in before:
            shutil.copy(path, corpus)
        began = time.monotonic()
        said = _run(launcher, [*arguments, str(new), str(corpus)])
        elapsed = time.monotonic() - began
        ended = _DONE.search(said) is not None and set(broken.glob(f"{name}-*")) == before
        if ended:
            _run(launcher, ["-merge=1", f"-max_len={_LARGEST}", str(corpus), str(new)])  # keeps the smallest new inputs
            write_inputs(name, (path.read_bytes() for path in corpus.iterdir()))
            for path in before:
                path.unlink()
    last, edges, features = (_PROGRESS.findall(said) or [("0", "0", "0")])[-1]
    runs = int((_DONE.findall(said) or [last])[0])
    found = sorted(path.name for path in broken.glob(f"{name}-*"))
    if not found and not ended:
        print(said[-3000:], file=sys.stderr)
        found = ["an unexpected end"]
    return (f"{runs:,}", f"{runs / elapsed:,.0f}", edges, features), found


def _launcher(name: str, folder: Path) -> Path:
    """Write a program that runs the target: to merge, libFuzzer starts itself again by its own name."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nFUZZ_SELF="$0" exec {shlex.quote(sys.executable)} -m fuzz.run {name} "$@"\n')
    path.chmod(0o700)
    return path


def _run(launcher: Path, arguments: list[str]) -> str:
    done = subprocess.run(
        [launcher, *arguments],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
