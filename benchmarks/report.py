"""The output of benchmarks: sections with tables and goals, in docs/evidence/benchmarks.md, and how figures are
written."""

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "evidence" / "benchmarks.md"
_WIDTH = 120
_HEAD = """\
# Benchmarks

`make bench` writes this page in at most 25 minutes on two cores, without network. Compared figures are of the same run.
On other machines, times differ more than ratios. [scale.md](../scale.md) has the figures that users need.

{machine}
{versions}
"""
_SECTION = re.compile(r"^## (.+)\n(?s:.*?)(?=^## |\Z)", re.MULTILINE)
_BEGIN, _END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
_PACKAGES = ("trainfleet-exporter", "uvicorn", "msgspec", "aiohttp", "prometheus-client")
_PROGRAMS = {"nginx": "-v", "prometheus-pushgateway": "--version"}
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


@dataclass(slots=True)
class Table:
    """Measured figures."""

    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)


@dataclass(slots=True)
class Section:
    """A part of the page: how it was measured, and tables by title."""

    title: str
    method: Sequence[str]
    tables: dict[str, Table] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the section as Markdown, without its heading."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield _item(f"Measured on {datetime.now(UTC):%Y-%m-%d}.")
        yield from map(_item, self.method)
        for title, table in self.tables.items():
            yield from ("", f"### {title}", "", *_grid(table.columns, table.rows))


def write(section: Section) -> None:
    """Replace one section of the page, or append it."""
    sections = {found[1]: found[0].rstrip("\n") for found in _SECTION.finditer(DOCUMENT.read_text(encoding="utf-8"))}
    sections[section.title] = f"## {section.title}\n\n{section}".rstrip("\n")
    head = _HEAD.format(machine=_item(f"Machine: {machine()}."), versions=_item(f"Versions: {versions()}."))
    DOCUMENT.write_text("\n".join([head, *(f"{text}\n" for text in sections.values())]), encoding="utf-8")


def write_measured(path: Path, text: str) -> None:
    """Replace the measured part of a document."""
    old = path.read_text(encoding="utf-8")
    before, after = old.partition(_BEGIN)[0], old.partition(_END)[2]
    path.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}", encoding="utf-8")


def _item(text: str) -> str:
    return textwrap.fill(f"- {text}", _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = "|---" * len(columns) + "|"
    return [f"| {' | '.join(columns)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def number(value: float) -> str:
    """Format a number with three significant digits, and nan as a dash."""
    if value == 0 or math.isnan(value):
        return "–" if value else "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def median_and_range(values: Sequence[float]) -> str:
    """Format the median, the least and the most."""
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


def machine() -> str:
    """Return processor, cores and kernel in one line, without the host's name."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    kernel = platform.release().partition("-")[0]
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores, {platform.system()} {kernel}"


def versions() -> str:
    """Return versions of Python, packages and the compared programs in one line."""
    found = [f"Python {platform.python_version()}", f"zlib {zlib.ZLIB_RUNTIME_VERSION}"]
    found += [f"{package} {version(package)}" for package in _PACKAGES]
    for program, option in _PROGRAMS.items():
        if shutil.which(program):
            done = subprocess.run([program, option], capture_output=True, text=True, check=False)  # noqa: S603 - above
            found += [f"{program} {each}" for each in _VERSION.findall(done.stdout + done.stderr)[:1]]
    return ", ".join(found)
