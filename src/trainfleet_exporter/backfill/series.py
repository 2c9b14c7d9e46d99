"""From the model to series, with the names and labels of /metrics, so that Prometheus sees one series.

The record of a job proves its kind, its request, its times, and its status at known times (`records`). Such a series
has a sample at each step for as long as the daemon would show it. Values without a proof have no sample. A status that
has ended gets one sample 0, because files cannot mark a series as stale: Prometheus would show its last 1 for five more
minutes.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from trainfleet_exporter.config import Global
from trainfleet_exporter.exposition import Renderer, RenderSettings
from trainfleet_exporter.exposition.text import escape_label
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.model import Job, JobTime, Status
from trainfleet_exporter.providers.past import Life, Range, Track, seconds_after

PLACES: Mapping[str, int] = {family.name: place for place, family in enumerate(FAMILIES)}
"""By family: its place in the public table, which is the order in the files."""
_ALWAYS = ("info", "labels", "created_timestamp_seconds")
_MOMENTS = ("submitted", "started", "finished")
_REQUESTED = ("requested_cpu_cores", "requested_memory_bytes", "requested_nodes", "requested_accelerators")
_HELD = "trainfleet_job_holds_resources"
_STATUS = ("trainfleet_job_status", "trainfleet_job_platform_status")


class Series(NamedTuple):
    """One series: the place of its family in the table, and its labels as text of the file."""

    family: int
    labels: str


Steady = tuple[Series, float, Range]
"""A series with one constant value at the start of a range, and at each step within it."""


class Namer:
    """Names the series of one provider. `more` are labels that Prometheus would have added to the target."""

    def __init__(self, provider: str, settings: Global, more: Mapping[str, str]) -> None:
        metrics = settings.metrics
        self._provider = provider
        self._renderer = Renderer(RenderSettings(deny=tuple(metrics.deny), job_labels=tuple(metrics.job_labels)))
        self._first = "".join(f'{name}="{escape_label(value)}",' for name, value in sorted(more.items()))

    def of_track(self, track: Track) -> Series | None:
        """Return the series of some readings; None if it is not exposed, or if an id is too long for a label."""
        return next((series for _, series, _ in self.of_objects([track.shown])), None)

    def of_objects(self, objects: Sequence[object]) -> Iterator[tuple[str, Series, float]]:
        """Yield every sample of objects of the model: family name, series and value."""
        for name, texts in self._renderer.render(self._provider, objects).lines.items():
            # A label contains a newline only as an escape, and a value has no space. Other line separators do not
            # matter.
            for line in b"".join(texts).decode().removesuffix("\n").split("\n"):
                labels, _, value = line[len(name) + 1 :].rpartition("} ")
                yield name, Series(PLACES[name], self._first + labels), float(value)


def records(
    life: Life, day: Range, namer: Namer, *, step: int, retention: float, is_last: bool
) -> Iterator[tuple[Series, array[int], array[float]]]:
    """Yield the samples of a day that the record of a job proves, each series once.

    `step` is the time between two samples in seconds. `retention` is how many seconds a job is shown after its end.
    `is_last`: the scrapes of a daemon may follow the day.
    """
    found: dict[Series, dict[int, float]] = {}
    for series, value, within in _steady(life, day, namer, retention, recent=day.end - step if is_last else None):
        samples = found.setdefault(series, {})
        for moment in (within.start, *range(seconds_after(within.start + 1, step), within.end, step)):
            samples.setdefault(moment, value)
    for series, samples in found.items():
        times = sorted(samples)
        yield series, array("q", times), array("d", [samples[time] for time in times])


def _steady(life: Life, day: Range, namer: Namer, retention: float, *, recent: int | None) -> Iterator[Steady]:
    shown = day.clip(life.since, day.end if life.until is None else life.until + retention + 1)
    if shown.empty:
        return
    job = replace(life.job, finished=life.ended)
    asking = shown if life.until is None else shown.clip(shown.start, life.until)
    windows = dict.fromkeys(_ALWAYS, shown) | dict.fromkeys(_REQUESTED, asking)
    for name in _MOMENTS:
        windows[f"{name}_timestamp_seconds"] = shown.clip(getattr(job, name) or math.inf, shown.end)
    windows["phase_seconds"] = windows["finished_timestamp_seconds"]
    for name, series, value in namer.of_objects([job, JobTime(job.job_id, life.phases)]):
        within = windows.get(name.removeprefix("trainfleet_job_"))
        if within is not None and not within.empty:
            yield series, value, within
    yield from _statuses(life, shown, namer, recent=recent)


def _statuses(life: Life, shown: Range, namer: Namer, *, recent: int | None) -> Iterator[Steady]:
    """Return each status from its second on, and 0 at the second of its end.

    Scrapes may follow `shown`, and their poll may be older than a status that began after `recent`. Such a status gets
    its 0 in the last second. Without it, the status would add to the one in the scrapes. A job that began after
    `recent` has no other status.
    """
    if life.since > (recent or 0):
        recent = None
    begun: set[tuple[Series, int]] = set()
    for spell in reversed(life.spells):
        if spell.status is Status.UNKNOWN and not spell.platform_status:
            continue
        start = math.ceil(spell.start)
        end = None if spell.end is None else math.ceil(spell.end)
        if start >= shown.end or (end is not None and (end <= start or end < shown.start)):
            continue
        if recent is not None and start > recent and (end is None or end >= shown.end):
            end = shown.end - 1
        within = shown.clip(start, shown.end if end is None else end)
        known = Job(
            job_id=life.job.job_id,
            status=spell.status,
            platform_status=spell.platform_status,
            holds_resources=spell.holds_resources,
        )
        for name, series, value in namer.of_objects([known]):
            if name in (_HELD, *_STATUS) and not within.empty:
                yield series, value, within
            if name in _STATUS:
                if end is not None and end < shown.end and (series, end) not in begun:
                    yield series, 0.0, Range(end, end + 1)
                begun.add((series, start))
