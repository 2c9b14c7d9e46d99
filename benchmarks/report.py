"""The output of benchmarks: tables, checks of promises, figures, and the machine."""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import textwrap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_WIDTH = 120
_VERDICTS = {True: "kept", False: "**not kept**", None: "not measured"}
_TOP = """\
# Benchmarks

`make bench` measures everything on this page in an hour on two cores, without network. Compared figures are of the same
run. On other machines, times differ more than ratios. [scale.md](../scale.md) has the figures that users need.

{machine}
{versions}

## Promises
"""
_BEGIN, _END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
_PACKAGES = (
    *("trainfleet-exporter", "uvicorn", "httptools", "starlette", "msgspec", "aiohttp", "httpx", "prometheus-client"),
    "alibabacloud-pai-dlc20201203",
)
_PROGRAMS = {"nginx": "-v", "prometheus-pushgateway": "--version"}
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_VERSION_SECONDS = 30.0


@dataclass(slots=True)
class Table:
    """One measurement, as printed and as in docs/evidence/benchmarks.md."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """The method and its limits: how servers were compared, and what is missing."""


@dataclass(frozen=True, slots=True)
class Check:
    """One promise: the limit, the measured value, and whether it is within the limit (None: not measured)."""

    promise: str
    measured: str
    kept: bool | None


Found = Table | Check


def markdown(found: Found) -> str:
    """Format a table as a section without its notes, or a check as a row of the table of checks."""
    if isinstance(found, Check):
        return f"| {found.promise} | {found.measured} | {_VERDICTS[found.kept]} |"
    return "\n".join([f"### {found.title}", "", *_grid(found.columns, found.rows)])


def notes(found: Iterable[Found]) -> str:
    """Format the notes of several tables as a list, each once."""
    texts = dict.fromkeys(note for one in found if isinstance(one, Table) for note in one.notes)
    return "\n".join(["", *map(_item, texts)])


def document(sections: Mapping[str, Sequence[Found]]) -> str:
    """Return the whole report: first the promises, then the tables and notes of each section."""
    promised = [markdown(one) for found in sections.values() for one in found if isinstance(one, Check)]
    parts = [_TOP.format(machine=_item(f"Machine: {machine()}."), versions=_item(f"Versions: {versions()}."))]
    parts.append("\n".join([*_grid(("promise", "measured", "result")), *promised]) + "\n")
    for title, found in sections.items():
        parts.append(f"## {title}\n{notes(found)}\n")
        parts += [f"{markdown(one)}\n" for one in found if isinstance(one, Table)]
    return "\n".join(parts)


def write_measured(path: Path, text: str) -> None:
    """Replace the measured part of a document."""
    old = path.read_text(encoding="utf-8")
    before, after = old.partition(_BEGIN)[0], old.partition(_END)[2]
    path.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}", encoding="utf-8")


def _item(text: str) -> str:
    return textwrap.fill(f"- {text}", _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _grid(columns: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> list[str]:
    rule = "|---" * len(columns) + "|"
    return [f"| {' | '.join(columns)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def number(value: float) -> str:
    """Format a number with three significant digits."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def spread(values: Sequence[float]) -> str:
    """Format the median, and the 10th to 90th percentile."""
    low, high = quantile(values, 0.1), quantile(values, 0.9)
    return f"{number(statistics.median(values))} ({number(low)} to {number(high)})"


def milliseconds(seconds: Sequence[float]) -> str:
    """Format the median, and the 10th to 90th percentile, in milliseconds."""
    return spread([one * 1e3 for one in seconds])


def megabytes(size: float) -> str:
    """Format bytes as MB (10^6)."""
    return f"{number(size / 1e6)} MB"


def machine() -> str:
    """Return processor, cores, memory and kernel in one line, without the host's name."""
    model = _first(r"model name\s*:\s*(.+)", "/proc/cpuinfo") or platform.machine()
    memory = int(_first(r"MemTotal:\s*(\d+) kB", "/proc/meminfo") or "0") / (1 << 20)
    kernel = _VERSION.search(platform.release())
    return (
        f"{model} with {os.cpu_count()} cores and {memory:.0f} GiB of memory, "
        f"{platform.system()} {kernel[0] if kernel else platform.release()}"
    )


def versions() -> str:
    """Return versions of Python, packages and the compared programs in one line."""
    found = [f"Python {platform.python_version()}", f"zlib {zlib.ZLIB_RUNTIME_VERSION}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} (missing)")
    found += [f"{program} {_program_version(program, option)}" for program, option in _PROGRAMS.items()]
    return ", ".join(found)


def _program_version(program: str, option: str) -> str:
    if shutil.which(program) is None:
        return "(missing)"
    done = subprocess.run(  # noqa: S603 - programs of the table above
        [program, option], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
    )
    found = _VERSION.search(done.stdout + done.stderr)
    return found[0] if found else "(unknown version)"


def _first(pattern: str, path: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1].strip() if found else None
