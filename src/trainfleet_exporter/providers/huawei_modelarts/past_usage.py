"""Past usage: AOM's range vectors, and the arrays of task metrics for jobs that AOM lacks.

Each step of a range is an instant vector: it is made into readings by what makes the present ones (usage.Readings), so
that wholes, duplicates and what cannot be true are the same.

No array of task metrics says when: how its values are dated is believed, not proven. An array has a mean for each
minute, from the start of its job on; each is dated to the end of its minute. Where a job ran for longer than the three
days that an array holds, and the array is as long as that, it ends where the job ends, or now. What lies beyond the
job's end has no date, and is dropped.
"""

from __future__ import annotations

import logging
import math
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from trainfleet_exporter.errors import CloudError, NotFound, RequestRefused
from trainfleet_exporter.families.usage import MEASURES, SHOWN_AS, Family
from trainfleet_exporter.fleet.past import PastSource, parts_of, source_tracks
from trainfleet_exporter.model import Accelerator, JobUsage, PodUsage
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.history import MINUTE, Life, Past, PastCall, Range, Track, seconds_after
from trainfleet_exporter.providers.huawei_modelarts.client import Api
from trainfleet_exporter.providers.huawei_modelarts.metrics import ACCELERATORS, Plan, Query
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import (
    METRICS,
    RATIO_METRICS,
    Metrics,
    get_task_metrics,
    kind_of,
)
from trainfleet_exporter.providers.huawei_modelarts.usage import (
    Readings,
    RunningJob,
    Sample,
    Series,
    is_refusal,
    is_too_large,
    query_range,
)
from trainfleet_exporter.providers.usage.quantities import convert

AOM = PastSource(name="aom", api="aom", readings=50_000)
TASK_METRICS = PastSource(name="task_metrics", api="modelarts")
MOST_MINUTES = 4320
"""Three days: what the console shows at most, and is believed to be all that an array holds."""
WINDOW = 2.0 * MINUTE
"""Allowed age of a sample at a step. Samples are about a minute apart."""
_MOST_NAMED = 50
"""Jobs up to which a query names them, where others are not wanted: it goes in the URL."""
_ACCELERATORS = "aom accelerators"
"""The mark of a job whose accelerators AOM reports."""
_DIGITS = 12
_Key: TypeAlias = tuple[type, str, Accelerator, tuple[str, ...]]

log = logging.getLogger(__name__)


class AomPast:
    """AOM's ranges: a unit for each reading of all jobs of the project.

    Only `some` of these jobs may be wanted: where they are few, queries name them.
    """

    def __init__(self, past: Past, api: Api, plans: Sequence[Plan], *, some: bool) -> None:
        self._past = past
        self._api = api
        self._plans = plans
        self._some = some
        self._takes_names = True
        """Whether AOM has not refused a query that names its jobs."""

    def calls(self, day: Range, lives: Sequence[Life], marks: dict[str, set[str]]) -> Iterator[PastCall[Track]]:
        """Yield the calls that read a day. They add to `marks`, by job, what AOM has of it."""
        running = {life.job.job_id: life for life in lives if not life.runs(day).empty}
        if not running:
            return
        project = [("", sum(parts_of(life, "device") for life in running.values()), day)]
        for plan in self._plans:
            for asked in AOM.batches(project, MINUTE):
                read = partial(self._read, plan, asked.span, running, marks)
                yield PastCall(plan.key, {AOM.api: len(plan.queries)}, read)

    def lacks(self, life: Life, marks: Collection[str]) -> bool:
        """Return whether a job that has these marks is better served by task metrics (as the daemon's arbitration has
        it)."""
        with_accelerators = any(plan.key == ACCELERATORS for plan in self._plans)
        return AOM.name not in marks or bool(life.cards and with_accelerators and _ACCELERATORS not in marks)

    async def _read(
        self,
        plan: Plan,
        within: Range,
        lives: Mapping[str, Life],
        marks: dict[str, set[str]],
        deadline: float,
    ) -> AsyncIterator[Track]:
        named = self._some and len(lives) <= _MOST_NAMED
        running = {job_id: life for job_id, life in lives.items() if not life.runs(within).empty}
        steps = Steps(plan, running, within)
        if named and not running:
            return
        for query in plan.queries:
            await self._series(query, within, steps, deadline=deadline, job_ids=running if named else ())
        deciding = next((each for each in self._plans if not each.reading.of_cards), self._plans[0])
        for track in await steps.tracks(names_source=plan is deciding):
            yield track
        marks.setdefault("", set())  # AOM was read, even if it has no job
        for job_id in steps.job_ids:
            marks.setdefault(job_id, set()).update([AOM.name, *([_ACCELERATORS] if plan.key == ACCELERATORS else [])])
        # Jobs that are not wanted here have samples, too.
        self._past.dropped.update({reason: count for reason, count in steps.dropped.items() if reason != "unlisted"})

    async def _series(
        self, query: Query, within: Range, steps: Steps, *, deadline: float, job_ids: Collection[str]
    ) -> None:
        """Ask for a range, in parts where an answer is too large; for some jobs alone, or all."""
        start = seconds_after(within.start, MINUTE)
        if start >= within.end:
            return
        names = job_ids if self._takes_names and not query.promql else ()
        text = query.text("device" if query.accelerator else "pod", WINDOW, names)
        try:
            found = await query_range(self._api, text, start=start, end=within.end - 1, step=MINUTE, deadline=deadline)
        except RequestRefused as error:
            if not names or is_refusal(error):
                raise
            # It is not proven that AOM takes expressions in queries. Without them it returns more, and never less.
            if self._takes_names:
                log.warning("AOM rejects queries by job; reading all jobs instead", extra=fields(error=error))
            self._takes_names = False
            await self._series(query, within, steps, deadline=deadline, job_ids=())
            return
        except NotFound as error:
            # That AOM is not served is no answer, and must not be taken for an empty one.
            raise RequestRefused(error.message, operation=error.operation, status=error.status) from None
        except CloudError as error:
            if not is_too_large(error) or within.end - start <= MINUTE:
                raise
            middle = start + max(1, (within.end - start) // (2 * MINUTE)) * MINUTE
            for part in (Range(start, middle), Range(middle, within.end)):
                await self._series(query, part, steps, deadline=deadline, job_ids=job_ids)
            return
        steps.add(query, found)


class Steps:
    """The samples of one plan's queries over a range, by their time."""

    def __init__(self, plan: Plan, lives: Mapping[str, Life], within: Range) -> None:
        self.dropped: Counter[str] = Counter()
        self.job_ids: set[str] = set()
        """Jobs that have a reading."""
        self._plan = plan
        self._within = within
        self._runs = {job_id: life.runs(within) for job_id, life in lives.items()}
        self._names = {job_id: RunningJob(life.job, life.tasks) for job_id, life in lives.items()}
        self._samples: dict[int, list[tuple[Query, Sample]]] = {}

    def add(self, query: Query, series: Iterable[Series | None]) -> None:
        """Add the series of a query's response. None is a row that is not an object."""
        for one in series:
            if one is None or one.values is None:
                self.dropped["malformed"] += 1
                continue
            job_id = one.metric.service_id if one.metric is not None else ""
            if job_id not in self._runs:  # not held: a project may have many more jobs than those that are wanted
                self.dropped["unlisted" if job_id else "malformed"] += len(one.values)
                continue
            for value in one.values:
                if value is None or value.time is None or not math.isfinite(value.time):
                    self.dropped["malformed"] += 1
                elif self._within.start <= int(value.time) < self._within.end:
                    self._samples.setdefault(int(value.time), []).append((query, Sample(one.metric, value)))

    async def tracks(self, *, names_source: bool) -> list[Track]:
        """Return the series to show; with `names_source`, also that AOM was the source of a job's readings."""
        found: dict[_Key, tuple[array[int], array[float]]] = {}
        moments: dict[str, array[int]] = {}
        for at in sorted(self._samples):
            running = {job_id: self._names[job_id] for job_id, runs in self._runs.items() if _is_in(runs, at)}
            readings = Readings(self._plan, running, self._runs.keys())
            for query in self._plan.queries:
                readings.add(query, [sample for of, sample in self._samples[at] if of is query])
            self.dropped.update(readings.dropped)
            for column in readings.columns():
                of = SHOWN_AS[column.family.level], column.family.path, column.accelerator
                for subject, (value, _, _) in column.rows.items():
                    times, values = found.setdefault((*of, subject), (array("q"), array("d")))
                    times.append(at)
                    values.append(value)
            for job_id in readings.job_ids:
                moments.setdefault(job_id, array("q")).append(at)
        self.job_ids.update(moments)
        tracks = [
            Track(of, field, keys, times, values, accelerator=accelerator, source=AOM.name)
            for (of, field, accelerator, keys), (times, values) in found.items()
        ]
        if names_source:
            for job_id, times in moments.items():
                tracks += source_tracks(job_id, AOM.name, times, are_dated=False)
        return tracks


def _is_in(runs: Range, at: int) -> bool:
    return runs.start <= at < runs.end


class TasksPast:
    """Task metrics, for all days together, of the jobs that AOM lacks; without `aom`, of all."""

    def __init__(self, past: Past, api: Api, aom: AomPast | None) -> None:
        self._past = past
        self._api = api
        self._aom = aom

    def calls(
        self, day: Range, lives: Sequence[Life], marks: Mapping[str, Collection[str]]
    ) -> Iterator[PastCall[Track]]:
        """Yield the calls of a day. Before AOM has marked a job, they are those of jobs on public machines, which AOM
        never reports."""
        now = time.time()
        for life in lives:
            held_from = (now if life.ceased is None else life.ceased) - MOST_MINUTES * MINUTE
            if life.runs(day).empty or not life.tasks or day.end < held_from:
                continue
            known = marks.get(life.job.job_id, ())
            surely = self._aom is None or not life.job.pool_id
            if self._aom is None or self._aom.lacks(life, known) if marks else surely:
                what, calls = f"task metrics of job {life.job.job_id}", {TASK_METRICS.api: len(life.tasks)}
                yield PastCall(what, calls, partial(self._read, life))

    async def _read(self, life: Life, deadline: float) -> AsyncIterator[Track]:
        job_id, arrays = life.job.job_id, Arrays(life, time.time())
        missing = 0
        for task in life.tasks:
            try:
                answer = await get_task_metrics(self._api, job_id, task, deadline=deadline)
            except NotFound:
                missing += 1
                continue
            for track in arrays.add(task, answer):
                yield track
            del answer  # before the next call
        if missing == len(life.tasks):
            self._past.gone.add(job_id)
        for track in arrays.whole():
            yield track
        self._past.dropped.update(arrays.dropped)


class Arrays:
    """The arrays of all tasks of one job, one task after the other. `now` is when they were asked for (Unix time)."""

    def __init__(self, life: Life, now: float) -> None:
        self.dropped: Counter[str] = Counter()
        self._life = life
        self._now = now
        self._sums: dict[str, dict[int, tuple[float, int]]] = {}
        """By field, the sum of the tasks' readings at each time, and how many they are."""
        self._kind: Accelerator = "gpu"

    def add(self, task: str, answer: Metrics) -> Iterator[Track]:
        """Add the readings of one task's response."""
        taken: set[str] = set()
        job_id = self._life.job.job_id
        for item in answer.metrics or ():
            metric, values = (item.metric or "").lower(), item.value
            if metric not in METRICS or METRICS[metric][0] not in RATIO_METRICS.values() or values is None:
                self.dropped["malformed"] += 1
                continue
            family, kind = MEASURES[METRICS[metric][0]].of("pod"), kind_of(metric)
            field = family.path
            dated = self._dated(values, family)
            if not dated:  # a device kind that is not there is all -1: nothing is missing then
                continue
            if field in taken:
                self.dropped["duplicate"] += 1
                continue
            taken.add(field)
            if field == "values.accelerator_utilization":
                self._kind = kind
            sums = self._sums.setdefault(field, {})
            for at, value in dated.items():
                total, count = sums.get(at, (0.0, 0))
                sums[at] = total + value, count + 1
            yield Track(
                PodUsage,
                field,
                (job_id, task),
                array("q", dated),
                array("d", dated.values()),
                accelerator=kind,
                source=TASK_METRICS.name,
            )
        if not taken:
            self.dropped["no_data"] += 1

    def whole(self) -> Iterator[Track]:
        """The job: the mean over its tasks; and that it had readings."""
        job_id = self._life.job.job_id
        for field, sums in self._sums.items():
            times = array("q", sorted(sums))
            values = array("d", [round(sums[at][0] / sums[at][1], _DIGITS) for at in times])
            yield Track(JobUsage, field, (job_id,), times, values, accelerator=self._kind, source=TASK_METRICS.name)
        moments = {at for sums in self._sums.values() for at in sums}
        yield from source_tracks(job_id, TASK_METRICS.name, moments, are_dated=False)

    def _dated(self, values: Sequence[str | float | None], family: Family) -> Mapping[int, float]:
        found: dict[int, float] = {}
        life = self._life
        started = int(life.job.started or 0)
        end = int(self._now if life.ceased is None else life.ceased)
        minutes = (end - started) // MINUTE
        first = minutes - len(values) if len(values) >= MOST_MINUTES and minutes > len(values) else 0
        for place, raw in enumerate(values, start=first):
            try:
                number = float("" if raw is None else raw)
            except ValueError:
                self.dropped["malformed"] += 1
                continue
            if number == -1:
                continue
            at = started + MINUTE * (place + 1)
            if at > end:
                self.dropped["undated"] += 1
                continue
            value = convert(number, 0.01, family.quantity)
            if value is None:
                self.dropped["out_of_range"] += 1
            else:
                found[at] = value
        return found
