"""Undated metric arrays of v2 tasks, v1 pods and cards, as readings of a job's sheet; and the collector for tasks.

v2: one array of one-minute averages for each of six metrics, from the task's start on, percent, -1 for "no sample".
v1: arrays of text, `interval` minutes apart, network bytes and disk kilobytes a second (the latter unproven).
No array says when its last value was taken; it is believed to be now if it is among the last few.

Cost a cycle: one call for each task of each running job, of at most `max_jobs` jobs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import MEASURES, Family
from trainfleet_exporter.fleet.collectors import EachJob
from trainfleet_exporter.model import Accelerator, Job, Status
from trainfleet_exporter.polling import Part, Poll
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.usage.arbitration import SourceArbitration
from trainfleet_exporter.providers.usage.sheet import Sheet
from trainfleet_exporter.providers.usage.staleness import count
from trainfleet_exporter.providers.values import amount

_RECENT = 5
"""Minutes back in which the last sample still counts as current."""
RATIO_METRICS = {
    "cpuUsage": "cpu_utilization_ratio",
    "memUsage": "memory_utilization_ratio",
    "gpuUtil": "accelerator_utilization_ratio",
    "npuUtil": "accelerator_utilization_ratio",
    "gpuMemUsage": "accelerator_memory_utilization_ratio",
    "npuMemUsage": "accelerator_memory_utilization_ratio",
}
"""The families of each metric, by their suffix (table.MEASURES)."""
RATE_METRICS = {
    "recvBytesRate": ("network_receive_bytes_per_second", 1.0),
    "sendBytesRate": ("network_transmit_bytes_per_second", 1.0),
    "diskReadRate": ("disk_read_bytes_per_second", 1024.0),
    "diskWriteRate": ("disk_write_bytes_per_second", 1024.0),
}
"""Only v1 has them. It begins all of these names with a capital: they are compared without regard to case."""
SOURCE = "task_metrics"


class Row(NamedTuple):
    """A metric and the families that it feeds."""

    pod: Family
    device: Family | None
    factor: float
    kind: Accelerator


def _row(metric: str, suffix: str, factor: float) -> Row:
    measure = MEASURES[suffix]
    return Row(measure.of("pod"), measure.at("device"), factor, "npu" if metric.startswith("npu") else "gpu")


RATIOS: Mapping[str, Row] = {metric.lower(): _row(metric, suffix, 0.01) for metric, suffix in RATIO_METRICS.items()}
"""By metric in small letters."""
_ROWS: Mapping[str, Row] = {
    **RATIOS,
    **{metric.lower(): _row(metric, suffix, unit) for metric, (suffix, unit) in RATE_METRICS.items()},
}
_CARD_METRICS = "|".join(metric for metric, row in RATIOS.items() if row.device is not None)
_CARD = re.compile(rf"({_CARD_METRICS})[^0-9]*([0-9]{{1,6}})?", re.ASCII)


def add_pod(sheet: Sheet, pod_id: str, answer: payloads.Metrics) -> bool:
    """Take over what one task or pod uses now; whether there is anything."""
    recent, found = _recent(answer), False
    for item in answer.metrics or ():
        row = _ROWS.get((item.metric or "").lower())
        raw = _latest(row, item.value, recent, sheet.dropped)
        if row is not None and raw is not None and sheet.put(row.pod, (pod_id,), raw, row.factor, kind=row.kind):
            found = True
    sheet.dropped["no_data"] += not found
    return found


def add_cards(sheet: Sheet, pod_id: str, answer: payloads.Metrics) -> None:
    """Take over what each card of a pod does (`statistic_type=each`).

    What distinguishes cards is documented nowhere: by a number in the metric's name, or by its place among equal names.
    """
    places: Counter[str] = Counter()
    recent = _recent(answer)
    for item in answer.metrics or ():
        match = _CARD.fullmatch((item.metric or "").lower())
        if match is None:
            continue
        row = _ROWS[match[1]]
        device = match[2] if match[2] is not None else str(places[match[1]])
        places[match[1]] += 1
        raw = _latest(row, item.value, recent, sheet.dropped)
        if raw is not None and row.device is not None:
            sheet.put(row.device, (pod_id, device, row.kind), raw, row.factor)


def _recent(answer: payloads.Metrics) -> int:
    """Return how many of the last values are recent. v1 has the minutes between them."""
    return max(1, int(_RECENT // max(amount(answer.interval) or 1, 1)))


def _latest(
    row: Row | None, values: Sequence[str | float | None] | None, recent: int, dropped: Counter[str]
) -> float | None:
    """The value that one metric has now; None if it has none."""
    if row is None or values is None:
        dropped["malformed"] += 1
        return None
    # A device kind that is not there is all -1: nothing is missing then.
    return _newest(values[-recent:])


def _newest(values: Iterable[str | float | None]) -> float | None:
    """The newest of some samples that is one (-1 is none); None if there is none among them."""
    newest: float | None = None
    for raw in values:
        try:
            value = -1.0 if raw is None else float(raw)
        except ValueError:
            continue
        newest = newest if value == -1 else value
    return newest


class TaskMetricsCollector(EachJob):
    """The running jobs: the last value of any other is from its end.

    `arbitration` leaves out the jobs that AOM serves.
    """

    def __init__(
        self, shared: ModelArtsShared, interval: float, *, max_jobs: int, arbitration: SourceArbitration | None = None
    ) -> None:
        super().__init__(
            SOURCE,
            shared,
            interval,
            self._read_tasks,
            max_jobs=max_jobs,
            need=lambda job: -(job.created or 0.0),
            data="usage from task metrics",
            wanted=self._serves,
        )
        self._shared = shared
        self._arbitration = arbitration

    async def begin(self, poll: Poll) -> None:
        """Wait for the jobs, and for AOM."""
        await super().begin(poll)
        if self._arbitration is not None:
            await self._arbitration.polled.wait()

    def _serves(self, job: Job) -> bool:
        """Return whether the job runs, and AOM does not serve it."""
        return job.status is Status.RUNNING and (self._arbitration is None or self._arbitration.left(job))

    def objects(self) -> Sequence[str]:
        """The ids of the jobs to ask for."""
        found = super().objects()
        if self._arbitration is not None:
            self._arbitration.left_out = self.beyond
        return found

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever the jobs changed, or AOM took some over."""
        super().watch(callback)
        if self._arbitration is not None:
            self._arbitration.watch(callback)

    def calls(self, object_id: str) -> int:
        """One for each task."""
        return len(self._shared.tasks_of(object_id))

    async def _read_tasks(self, part: Part) -> None:
        """Read all tasks of one job."""
        sheet = Sheet(part.key)
        missing: NotFound | None = None
        for task in self._shared.tasks_of(part.key):
            try:
                answer = await self._shared.client.task_metrics(part.key, task, deadline=part.deadline)
            except NotFound as error:
                missing = error  # the task or the whole job was deleted in the meantime
                continue
            add_pod(sheet, task, answer)
            del answer  # before the next call
            count(part, sheet.dropped)
        if missing is not None and not sheet:
            await part.not_found(missing)
        else:
            await part.publish(sheet.of_job(SOURCE))
        if self._arbitration is not None:
            self._arbitration.answered(part.key, with_usage=bool(sheet))
