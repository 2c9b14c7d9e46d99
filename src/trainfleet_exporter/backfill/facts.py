"""What a job's record proves of a day: what it is, what it asked for, when it did what, and its status where known.

Such a series has a sample at each step for as long as the daemon would have shown it; a file of samples has no other
way to say that something was so all the time. What is not proven is not there: absent is not zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from trainfleet_exporter.backfill.series import Namer, Series
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.providers.history import Life, Range, seconds_after

_ALWAYS = ("info", "labels", "created_timestamp_seconds")
_MOMENTS = ("submitted", "started", "finished")
_REQUESTED = ("requested_cpu_cores", "requested_memory_bytes", "requested_nodes", "requested_accelerators")
_STATUS = ("status", "platform_status", "holds_resources")
STATUSES = tuple(f"trainfleet_job_{suffix}" for suffix in _STATUS)
"""The families that spells tell."""


@dataclass(frozen=True, slots=True)
class Steady:
    """A series that has one and the same value at each multiple of `step` within a range."""

    series: Series
    value: str
    within: Range


def steady(life: Life, day: Range, namer: Namer, *, step: int, retention: float) -> Iterator[Steady]:
    """What is so on a day. `retention` is how many seconds a job is shown after its end."""
    shown = day.clip(life.since, day.end if life.until is None else life.until + retention + 1)
    if shown.empty:
        return
    job = life.job
    while_it_asks = shown if life.until is None else shown.clip(shown.start, life.until)
    yield from _facets(job, _ALWAYS, shown, namer, step)
    yield from _facets(job, _REQUESTED, while_it_asks, namer, step)
    for name in _MOMENTS:
        moment = life.ended if name == "finished" else getattr(job, name)
        if moment is not None:
            dated = replace(job, finished=moment) if name == "finished" else job
            yield from _facets(dated, (f"{name}_timestamp_seconds",), shown.clip(moment, shown.end), namer, step)
    for spell in life.spells:
        end = shown.end if spell.end is None else spell.end
        known = Job(
            job_id=job.job_id,
            status=spell.status,
            platform_status=spell.platform_status,
            holds_resources=spell.holds_resources,
        )
        facets = _STATUS if spell.status is not Status.UNKNOWN or spell.platform_status else ()
        yield from _facets(known, facets, shown.clip(spell.start, end), namer, step)


def _facets(job: Job, suffixes: tuple[str, ...], within: Range, namer: Namer, step: int) -> Iterator[Steady]:
    if within.empty or seconds_after(within.start, step) >= within.end:
        return
    wanted = {f"trainfleet_job_{suffix}" for suffix in suffixes}
    for name, series, value in namer.of_objects([job]):
        if name in wanted:
            yield Steady(series, value, within)
