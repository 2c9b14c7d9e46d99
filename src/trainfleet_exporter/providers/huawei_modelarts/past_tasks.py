"""Task metrics' arrays to dated readings. No array says when: how they are dated here is believed, not proven.

An array has a mean for each minute, from the start of its job on; each is dated to the end of its minute. Where a job
ran for longer than the three days that an array holds, and the array is as long as that, it ends where the job ends,
or now. What lies beyond the job's end has no date, and is dropped.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

from trainfleet_exporter.model import Accelerator, JobUsage, PodUsage
from trainfleet_exporter.providers.history import MINUTE, Life, Track
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.metric_arrays import RATIOS
from trainfleet_exporter.providers.usage.past import Dated, source_tracks
from trainfleet_exporter.providers.usage.quantities import convert
from trainfleet_exporter.providers.usage.table import Family

SOURCE = "task_metrics"
MOST_MINUTES = 4320
"""Three days: what the console shows at most, and is believed to be all that an array holds."""
_DIGITS = 12


class Arrays:
    """The arrays of all tasks of one job, one task after the other. `now` is when they were asked for (Unix time)."""

    def __init__(self, life: Life, now: float) -> None:
        self.dropped: Counter[str] = Counter()
        self._life = life
        self._now = now
        self._sums: dict[str, dict[int, tuple[float, int]]] = {}
        """By field, the sum of the tasks' readings at each time, and how many they are."""
        self._kind: Accelerator = "gpu"

    def add(self, task: str, answer: payloads.Metrics) -> Iterator[Track]:
        """What one task's answer shows."""
        taken: set[str] = set()
        job_id = self._life.job.job_id
        for item in answer.metrics or ():
            metric, values = (item.metric or "").lower(), item.value
            row = RATIOS.get(metric)
            if row is None or values is None:
                self.dropped["malformed"] += 1
                continue
            field = row.pod.path
            dated = self._dated(values, row.pod)
            if not dated.times:  # a device kind that is not there is all -1: nothing is missing then
                continue
            if field in taken:
                self.dropped["duplicate"] += 1
                continue
            taken.add(field)
            if field == "values.accelerator_utilization":
                self._kind = row.kind
            sums = self._sums.setdefault(field, {})
            for time, value in zip(dated.times, dated.values, strict=True):
                total, count = sums.get(time, (0.0, 0))
                sums[time] = total + value, count + 1
            yield Track(PodUsage, field, (job_id, task), dated.times, dated.values, accelerator=row.kind, source=SOURCE)
        if not taken:
            self.dropped["no_data"] += 1

    def whole(self) -> Iterator[Track]:
        """The job: the mean over its tasks; and that it had readings."""
        job_id = self._life.job.job_id
        for field, sums in self._sums.items():
            times = array("q", sorted(sums))
            values = array("d", [round(sums[time][0] / sums[time][1], _DIGITS) for time in times])
            yield Track(JobUsage, field, (job_id,), times, values, accelerator=self._kind, source=SOURCE)
        moments = {time for sums in self._sums.values() for time in sums}
        yield from source_tracks(job_id, SOURCE, moments, are_dated=False)

    def _dated(self, values: Sequence[str | float | None], family: Family) -> Dated:
        found = Dated()
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
            time = started + MINUTE * (place + 1)
            if time > end:
                self.dropped["undated"] += 1
                continue
            value = convert(number, 0.01, family.quantity)
            if value is None:
                self.dropped["out_of_range"] += 1
            else:
                found.add(time, value)
        return found
