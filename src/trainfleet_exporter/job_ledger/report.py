"""The report on a ledger: who used accelerators, how much was lost or idle, and how long jobs waited.

    lines of the file ──_read_ledger──► jobs that ended ──_rows──► all, by user, by pool, by label ──► CSV or text

An empty cell of the CSV means that no job of the row has the figure; it does not mean zero.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import get_args

import msgspec

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.job_ledger.line import EndedJob
from trainfleet_exporter.job_ledger.prices import Prices, read_prices
from trainfleet_exporter.model import Cause, Phase
from trainfleet_exporter.process.files import PIPE_SECONDS, in_time

_PHASES: Sequence[str] = get_args(Phase)
_CAUSES: Sequence[str] = get_args(Cause)
_LOST = tuple(phase for phase in _PHASES if phase not in ("queued", "running"))
"""Phases in which a job trains nothing and may hold its accelerators: of lines without `lost_seconds`."""
_SUMS = (
    *("jobs", "failed_jobs", "accelerator_hours", "lost_accelerator_hours", "idle_accelerator_hours"),
    *(f"{phase}_hours" for phase in _PHASES),
    *(f"{cause}_faults" for cause in _CAUSES),
)
"""Columns of the CSV that are sums over jobs."""
_COSTS = ("cost", "unpriced_accelerator_hours")
_FORMULAS = ("=", "+", "-", "@")
"""Beginnings of texts that spreadsheets run."""
_COLUMNS = (
    *(("jobs", 5, "jobs"), ("failed", 6, "failed_jobs"), ("acc-hours", 10, "accelerator_hours")),
    *(("lost", 9, "lost_accelerator_hours"), ("idle", 9, "idle_accelerator_hours")),
    *(("running", 9, "running_hours"), ("queued", 9, "queued_hours")),
    *(("median", 8, "median_wait_seconds"), ("longest", 8, "longest_wait_seconds"), ("faults", 6, "faults")),
)
"""Columns of the text: head, width and figure."""
_LINE = 120
_LEGEND = (
    "acc-hours: accelerator-hours held; of these, lost: in all phases but running; idle: running x",
    "(1 - mean utilization). running, queued: hours of jobs. median, longest: time of a job in the queue. -: unknown.",
)


def report(ledger: Path, *, days: int, is_csv: bool, prices_file: Path | None) -> tuple[str, str]:
    """Report on the jobs that ended in the last days. Return the report, and a warning about invalid lines or "".

    Raises StartError if a file cannot be read, and ConfigError for invalid prices.
    """
    prices = None if prices_file is None else read_prices(prices_file)
    until = datetime.now(UTC)
    since = until - timedelta(days=days)
    jobs, invalid = _read_ledger(ledger, since)
    rows = _rows(jobs, prices)
    shown = ", ".join(map(str, invalid[:20])) + (", …" if len(invalid) > 20 else "")
    warning = f"{ledger}: skipped {len(invalid)} invalid line(s): {shown}" if invalid else ""
    return _as_csv(rows, prices) if is_csv else _as_text(rows, since, until, prices), warning


def _read_ledger(path: Path, since: datetime) -> tuple[list[EndedJob], list[int]]:
    """Return the jobs (by id and creation) that ended at `since` or later; and the numbers of invalid lines."""
    jobs: dict[tuple[str, str, datetime | None], EndedJob] = {}
    invalid: list[int] = []
    decoder = msgspec.json.Decoder(EndedJob)
    try:
        with in_time(path, lambda: path.open("rb"), PIPE_SECONDS) as file:  # a named pipe may have no writer
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    job = decoder.decode(line)
                except (ValueError, RecursionError):
                    invalid.append(number)
                    continue
                jobs.pop(key := (job.provider, job.job_id, job.created), None)
                if job.end >= since:
                    jobs[key] = job
    except OSError as error:
        raise StartError(
            f"cannot read the ledger {path}: {error.strerror or error}; "
            "--ledger takes the file that the exporter writes (its flag --ledger, or global.ledger_file)"
        ) from None
    return list(jobs.values()), invalid


@dataclass(slots=True)
class _Row:
    """Sums over some jobs."""

    by: str
    """`all`, `user`, `pool` or `label:NAME`."""
    name: str
    """Of the user, of the pool, or the value of the label; empty for jobs without one."""
    sums: dict[str, float] = field(default_factory=lambda: {"jobs": 0, "failed_jobs": 0})
    """By the names of `_SUMS` and `_COSTS`. A name is missing if no job has the figure."""
    waits: list[float] = field(default_factory=list)
    """Seconds in the queue, of each job."""

    def add(self, job: EndedJob, prices: Prices | None) -> None:
        for name, value in _figures(job, prices):
            self.sums[name] = self.sums.get(name, 0) + value
        if job.phase_seconds is not None:
            self.waits.append(job.phase_seconds.get("queued", 0.0))

    def figures(self) -> dict[str, float]:
        """Return the sums, the waits, and the `faults` of all causes. A figure is missing if no job has it."""
        faults = [count for name, count in self.sums.items() if name.endswith("_faults")]
        known = self.waits
        waits = {"median_wait_seconds": median(known), "longest_wait_seconds": max(known)} if known else {}
        return {**self.sums, **waits, **({"faults": sum(faults)} if faults else {})}


def _figures(job: EndedJob, prices: Prices | None) -> Iterator[tuple[str, float]]:
    """Yield what a job adds to each sum. Nothing for what is not known of it."""
    yield "jobs", 1
    yield "failed_jobs", job.status == "failed"
    if job.accelerator_hours is not None:
        yield "accelerator_hours", job.accelerator_hours
    for cause in _CAUSES if job.faults is not None else ():
        yield f"{cause}_faults", 0
    for cause, count in (job.faults or {}).items():
        yield f"{cause if cause in _CAUSES else 'other'}_faults", count
    if prices is not None:
        yield from _costs(job, prices)
    seconds = job.phase_seconds
    if seconds is None:
        return
    for phase in _PHASES:
        if phase in seconds:
            yield f"{phase}_hours", seconds[phase] / 3600
    if job.accelerators:
        cards = sum(item.count for item in job.accelerators)
        lost = sum(seconds.get(phase, 0.0) for phase in _LOST) if job.lost_seconds is None else job.lost_seconds
        yield "lost_accelerator_hours", cards * lost / 3600
        if job.accelerator_use is not None:
            idle = max(0.0, 1 - job.accelerator_use.mean)
            yield "idle_accelerator_hours", cards * seconds.get("running", 0.0) / 3600 * idle


def _costs(job: EndedJob, prices: Prices) -> Iterator[tuple[str, float]]:
    for item in job.accelerators if job.held_seconds is not None else ():
        hours, price = item.count * (job.held_seconds or 0.0) / 3600, prices.by_model.get(item.model)
        if price is not None or not hours:
            yield "cost", hours * (price or 0.0)
        yield "unpriced_accelerator_hours", hours if price is None else 0.0


def _rows(jobs: Iterable[EndedJob], prices: Prices | None) -> list[_Row]:
    """All jobs, then each user, pool and value of a label; in each of these, most accelerator-hours first."""
    jobs = list(jobs)
    groups: dict[str, Callable[[EndedJob], str]] = {
        "all": lambda job: "",
        "user": lambda job: job.user_name or job.user_id,
        "pool": lambda job: job.pool_id,
    }
    for label in sorted({label for job in jobs for label in job.labels}):
        groups[f"label:{label}"] = lambda job, label=label: job.labels.get(label, "")  # type: ignore[misc]
    found: list[_Row] = []
    for by, name_of in groups.items():
        rows: dict[str, _Row] = {"": _Row("all", "")} if by == "all" else {}
        for job in jobs:
            name = name_of(job)
            rows.setdefault(name, _Row(by, name)).add(job, prices)
        found += sorted(
            rows.values(), key=lambda row: (-row.sums.get("accelerator_hours", 0), -row.sums["jobs"], row.name)
        )
    return found


def _as_csv(rows: Iterable[_Row], prices: Prices | None) -> str:
    """A table with a line for each row. Its columns do not depend on the jobs.

    An apostrophe stands before a text that a spreadsheet would run as a formula. Control characters are escaped.
    """
    text = io.StringIO()
    columns = [*_SUMS, "median_wait_seconds", "longest_wait_seconds"]
    columns += [] if prices is None else _COSTS
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["by", "name", *columns, *(() if prices is None else ["currency"])])
    for row in rows:
        figures = row.figures()
        cells = [round(figures[name], 6) if name in figures else "" for name in columns]
        currency = [] if prices is None else [_inert(prices.currency)]
        writer.writerow([_inert(row.by), _inert(row.name), *cells, *currency])
    return text.getvalue()


def _as_text(rows: Sequence[_Row], since: datetime, until: datetime, prices: Prices | None) -> str:
    """The same for people, in lines of at most 120 characters."""
    total = rows[0].figures()
    lines = [f"{total['jobs']} jobs ended from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC."]
    hours = [f"{phase} {total[name]:,.1f}" for phase in _PHASES if (name := f"{phase}_hours") in total]
    lines.append(f"Hours of jobs by phase: {', '.join(hours) or 'not known'}.")
    faults = [f"{cause} {total[name]}" for cause in _CAUSES if total.get(name := f"{cause}_faults")]
    lines.append(f"Faults by cause: {', '.join(faults) or ('none' if 'faults' in total else 'not known')}.")
    columns = [*_COLUMNS]
    if prices is not None:
        columns.append(("cost", 12, "cost"))
        unpriced = total.get("unpriced_accelerator_hours")
        more = f" Without a price: {unpriced:,.1f} accelerator-hours." if unpriced else ""
        lines.append(f"Cost: prices in {_printed(prices.currency) or 'no stated currency'}.{more}")
    heads, widths, names = zip(*columns, strict=True)

    def line(name: str, texts: Iterable[str]) -> str:
        width = _LINE - sum(widths) - len(widths)
        shown = name if len(name) <= width else f"{name[: width - 1]}…"
        return f"{shown:<{width}}{''.join(f' {text:>{size}}' for text, size in zip(texts, widths, strict=True))}"

    for by in dict.fromkeys(row.by for row in rows):
        lines += ["", line({"all": "all jobs"}.get(by, _printed(by.removeprefix("label:"))), heads)]
        empty = {"all": "", "user": "(no name)", "pool": "(no pool)"}.get(by, "(no label)")
        for row in rows:
            if row.by == by:
                figures = row.figures()
                lines.append(line(_printed(row.name) or empty, [_cell(name, figures.get(name)) for name in names]))
    return "\n".join([*lines, "", *_LEGEND]) + "\n"


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("_seconds"):
        return _duration(value)
    if name in ("jobs", "failed_jobs", "faults"):
        return f"{value}"
    return f"{value:,.1f}" if value < 100_000 else f"{value:,.0f}"


def _inert(text: str) -> str:
    text = _printed(text)
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _printed(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _duration(seconds: float) -> str:
    """Two units: 45s, 12m05s, 3h10m, 2d04h."""
    whole = round(seconds)
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02}{smaller}"
    return f"{whole}s"
