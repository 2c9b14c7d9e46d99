"""From a training job's row to its life: what it was, and which status its record proves when. Pure.

The record proves when it ran (running_records, or start_time and duration) and how it ended, and nothing of the time
before: a job may have been created or pending then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from trainfleet_exporter.model import FINISHED, Job, Status
from trainfleet_exporter.providers.history import Life, Spell, lasting
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate
from trainfleet_exporter.providers.values import unix_time


def life(row: payloads.Job, *, shown_tags: Collection[str]) -> Life | None:
    """The life of a job by its row; None without an id."""
    # An ended job does not show what it asked for; a running one does.
    state = row.status or payloads.JobStatus()
    now, then = translate.job(row), translate.job(replace(row, status=replace(state, phase="Running")))
    if now is None or then is None:
        return None
    job = lasting(then, shown_tags)
    end = _end(state, now)
    gone = now.status in FINISHED
    # A job that has ended nobody knows when is believed to have lived as long as something is known of it.
    known = [moment for moment in (now.created, now.started) if moment is not None]
    until = (end if end is not None else max(known, default=0.0)) if gone else None
    runs = list(_runs(state, now.started, end if gone else None))
    # A run of a job that has ended nobody knows when is not known to have lasted for any time.
    found = [
        Spell(start, stop, Status.RUNNING, "Running", True) for start, stop in runs if stop is not None or not gone
    ]
    if gone and end is not None:
        found.append(Spell(end, None, now.status, now.platform_status, now.holds_resources))
    tasks = translate.tasks(row).names
    return Life(
        job=job,
        until=until,
        ended=end if gone else None,
        ceased=until,
        spells=tuple(spell for spell in found if spell.end is None or spell.end > spell.start),
        tasks=tasks,
        pods=len(tasks) or int(job.nodes or 1),
        cards=int(sum(item.count for item in job.accelerators)),
    )


def _end(state: payloads.JobStatus, job: Job) -> float | None:
    """When the last run ended; None where nothing tells."""
    end = translate.last_end(state.running_records)
    if end is not None:
        return end
    return None if job.started is None or job.duration is None else job.started + job.duration


def _runs(state: payloads.JobStatus, started: float | None, end: float | None) -> Iterator[tuple[float, float | None]]:
    """When it ran, run after run."""
    found = [
        (start, unix_time(record.end_at))
        for record in state.running_records or ()
        if record is not None and (start := unix_time(record.start_at)) is not None
    ]
    if not found:
        if started is not None:
            yield started, end
        return
    found.sort(key=lambda each: each[0])
    for place, (start, stop) in enumerate(found):
        following = found[place + 1][0] if place + 1 < len(found) else end
        yield start, stop if stop is not None else following
