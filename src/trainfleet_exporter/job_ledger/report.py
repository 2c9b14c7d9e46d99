"""The report on a ledger: who used accelerators, how much was lost or idle, and how long jobs waited.

    lines of the file ──read_ledger──► jobs that ended lately ──rows──► all, by user, by pool, by label ──► CSV or text

An empty cell of the CSV means that no job of the row has the figure; it does not mean zero.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import get_args

import msgspec

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.job_ledger.line import EndedJob
from trainfleet_exporter.model import Cause, Phase

_PHASE_NAMES: Sequence[str] = get_args(Phase)
_CAUSES: Sequence[str] = get_args(Cause)
_LOST = ("preparing", "checking", "recovering", "finishing")
"""Phases in which a job holds its accelerators and trains nothing."""
_NAME_WIDTH = 31


def read_ledger(path: Path, since: datetime) -> tuple[list[EndedJob], list[int]]:
    """Return the jobs (by id and creation) that ended at `since` or later; and the numbers of invalid lines.

    Raises StartError if the file cannot be read.
    """
    jobs: dict[tuple[str, str, datetime | None], EndedJob] = {}
    invalid: list[int] = []
    decoder = msgspec.json.Decoder(EndedJob)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    job = decoder.decode(line)
                except ValueError:
                    invalid.append(number)
                    continue
                if job.end >= since:
                    jobs[job.provider, job.job_id, job.created] = job
    except OSError as error:
        raise StartError(
            f"cannot read the ledger {path}: {error.strerror or error}; "
            "--ledger takes the file that the exporter writes (its flag --ledger, or global.ledger_file)"
        ) from None
    return list(jobs.values()), invalid


@dataclass(slots=True)
class ReportRow:
    """Sums over some jobs. None means that no job has the figure."""

    by: str
    """`all`, `user`, `pool` or `label:NAME`."""
    name: str
    """Of the user, of the pool, or the value of the label; empty for jobs without one."""
    jobs: int = 0
    failed: int = 0
    accelerator_hours: float | None = None
    lost_hours: float | None = None
    """Accelerator-hours of preparing, checking, recovering and finishing."""
    idle_hours: float | None = None
    """Accelerator-hours of running times what the mean utilization lacks to 1."""
    phase_hours: dict[str, float] = field(default_factory=dict)
    """Hours of jobs."""
    faults: Counter[str] | None = None
    waits: list[float] = field(default_factory=list)
    """Seconds in the queue, of each job."""

    def add(self, job: EndedJob) -> None:
        """Count a job."""
        self.jobs += 1
        self.failed += job.status == "failed"
        self.accelerator_hours = _sum(self.accelerator_hours, job.accelerator_hours)
        if job.faults is not None:
            self.faults = self.faults or Counter()
            for cause, count in job.faults.items():
                self.faults[cause if cause in _CAUSES else "other"] += count
        if job.phase_seconds is None:
            return
        seconds = job.phase_seconds
        for phase in seconds.keys() & set(_PHASE_NAMES):
            self.phase_hours[phase] = self.phase_hours.get(phase, 0.0) + seconds[phase] / 3600
        self.waits.append(seconds.get("queued", 0.0))
        if not job.accelerators:
            return
        cards = sum(item.count for item in job.accelerators)
        self.lost_hours = _sum(self.lost_hours, cards * sum(seconds.get(phase, 0.0) for phase in _LOST) / 3600)
        if job.accelerator_use is not None:
            idle = max(0.0, 1 - job.accelerator_use.mean)
            self.idle_hours = _sum(self.idle_hours, cards * seconds.get("running", 0.0) / 3600 * idle)

    @property
    def fault_count(self) -> int | None:
        """Faults of all causes."""
        return None if self.faults is None else self.faults.total()

    @property
    def median_wait(self) -> float | None:
        """Seconds."""
        return median(self.waits) if self.waits else None

    @property
    def longest_wait(self) -> float | None:
        """Seconds."""
        return max(self.waits, default=None)


def report_rows(jobs: Iterable[EndedJob]) -> list[ReportRow]:
    """All jobs, then each user, pool and value of a label; in each of these, most accelerator-hours first."""
    jobs = list(jobs)
    groups: dict[str, Callable[[EndedJob], str]] = {
        "all": lambda job: "",
        "user": lambda job: job.user_name or job.user_id,
        "pool": lambda job: job.pool_id,
    }
    for label in sorted({label for job in jobs for label in job.labels}):
        groups[f"label:{label}"] = lambda job, label=label: job.labels.get(label, "")  # type: ignore[misc]
    found: list[ReportRow] = []
    for by, name_of in groups.items():
        rows: dict[str, ReportRow] = {"": ReportRow("all", "")} if by == "all" else {}
        for job in jobs:
            name = name_of(job)
            rows.setdefault(name, ReportRow(by, name)).add(job)
        found += sorted(rows.values(), key=lambda row: (-(row.accelerator_hours or 0.0), -row.jobs, row.name))
    return found


def as_csv(rows: Iterable[ReportRow]) -> str:
    """A table with a line for each row. Its columns do not depend on the jobs.

    An apostrophe stands before a text that a spreadsheet would run as a formula. Control characters are escaped.
    """
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        cells = _cells(row)
        if writer is None:
            writer = csv.DictWriter(text, list(cells), lineterminator="\n")
            writer.writeheader()
        writer.writerow(cells)
    return text.getvalue()


def as_text(rows: Sequence[ReportRow], since: datetime, until: datetime) -> str:
    """The same for people, in lines of at most 120 characters."""
    total = rows[0]
    lines = [f"{total.jobs} jobs ended from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC."]
    hours = [f"{phase} {total.phase_hours[phase]:,.1f}" for phase in _PHASE_NAMES if phase in total.phase_hours]
    lines.append(f"Hours of jobs by phase: {', '.join(hours) or 'not known'}.")
    faults = total.faults
    counts = [f"{cause} {faults[cause]}" for cause in _CAUSES if faults[cause]] if faults is not None else ["not known"]
    lines.append(f"Faults by cause: {', '.join(counts) or 'none'}.")
    for by in dict.fromkeys(row.by for row in rows):
        head = {"all": "all jobs"}.get(by, by.removeprefix("label:"))
        lines += ["", _line([head, "jobs", "failed", "acc-hours", "lost", "idle", "running", "queued", *_ENDS])]
        lines += [_line(_texts(row)) for row in rows if row.by == by]
    lines += ["", *_LEGEND]
    return "\n".join(lines) + "\n"


_FORMULAS = ("=", "+", "-", "@")
"""Beginnings of texts that spreadsheets run."""
_ENDS = ("median", "longest", "faults")
_LEGEND = (
    "acc-hours: accelerator-hours held; of these, lost: preparing, checking, recovering, finishing; idle: running x",
    "(1 - mean utilization). running, queued: hours of jobs. median, longest: time of a job in the queue. -: unknown.",
)


def _cells(row: ReportRow) -> Mapping[str, object]:
    def number(value: float | None, digits: int = 6) -> object:
        return "" if value is None else round(value, digits)

    return {
        "by": _inert(row.by),
        "name": _inert(row.name),
        "jobs": row.jobs,
        "failed_jobs": row.failed,
        "accelerator_hours": number(row.accelerator_hours),
        "lost_accelerator_hours": number(row.lost_hours),
        "idle_accelerator_hours": number(row.idle_hours),
        **{f"{phase}_hours": number(row.phase_hours.get(phase)) for phase in _PHASE_NAMES},
        **{f"{cause}_faults": "" if row.faults is None else row.faults[cause] for cause in _CAUSES},
        "median_wait_seconds": number(row.median_wait, 3),
        "longest_wait_seconds": number(row.longest_wait, 3),
    }


def _inert(text: str) -> str:
    text = text if text.isprintable() else ascii(text)[1:-1]
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _texts(row: ReportRow) -> Iterator[str]:
    name = row.name if row.name.isprintable() else ascii(row.name)[1:-1]
    yield name or {"all": "", "user": "(no name)", "pool": "(no pool)"}.get(row.by, "(no label)")
    yield f"{row.jobs}"
    yield f"{row.failed}"
    hours = (row.accelerator_hours, row.lost_hours, row.idle_hours)
    for value in (*hours, row.phase_hours.get("running"), row.phase_hours.get("queued")):
        yield "-" if value is None else f"{value:,.1f}" if value < 100_000 else f"{value:,.0f}"
    for seconds in (row.median_wait, row.longest_wait):
        yield "-" if seconds is None else _duration(seconds)
    yield "-" if row.fault_count is None else f"{row.fault_count}"


def _line(texts: Iterable[str]) -> str:
    name, *figures = texts
    shown = name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"
    widths = (5, 6, 10, 9, 9, 9, 9, 8, 8, 6)
    return f"{shown:<{_NAME_WIDTH}}{''.join(f' {text:>{width}}' for text, width in zip(figures, widths, strict=True))}"


def _duration(seconds: float) -> str:
    """Two units: 45s, 12m05s, 3h10m, 2d04h."""
    whole = round(seconds)
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02}{smaller}"
    return f"{whole}s"


def _sum(before: float | None, more: float | None) -> float | None:
    return before if more is None else more + (before or 0.0)
