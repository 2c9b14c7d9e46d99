"""One-minute readings of tasks from the start of their job, as the usage calls of both API versions return them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from trainfleet_simulator.world.jobs import Job, Pod
from trainfleet_simulator.world.usage import task_reading

T = TypeVar("T")
MOST_MINUTES = 4320  # three days, as in the console's chart


def minute_reading(job: Job, place: int, metric: str, minute: int) -> tuple[float, Pod] | None:
    """Return the task's reading in one minute of its job, counted from 0, and the incarnation of its pod at that
    time."""
    assert job.running is not None
    return task_reading(metric, job, place, job.running + 60 * minute + 30)


@dataclass(slots=True)
class _Series:
    first: int
    values: list[float | None] = field(default_factory=list)
    written: dict[str, list[object]] = field(default_factory=dict)
    """The same values as text, if they were requested before."""


class TaskSeries:
    """Computes and caches series, because each call requests the whole series again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Series] = {}

    def values(self, job: Job, place: int, metric: str, now: int) -> list[float | None]:
        """Return readings of the task at `place`, oldest first, up to the last whole minute; None if there was none.

        They cover at most three days, and have at least one reading when the job runs. `metric` is the world's name.
        """
        series = self._up_to(job, place, metric, now)
        return [None] if series is None else series.values[-MOST_MINUTES:]

    def written(
        self, job: Job, place: int, metric: str, now: int, *, name: str, write: Callable[[float | None], T]
    ) -> list[T]:
        """Return the same, formatted by `write`, which is called once for each reading. `name` identifies `write`."""
        series = self._up_to(job, place, metric, now)
        if series is None:
            return [write(None)]
        written: list[T] = series.written.setdefault(name, [])  # type: ignore[assignment]  # of one name, all are alike
        written.extend(map(write, series.values[len(written) :]))
        return written[-MOST_MINUTES:]

    def _up_to(self, job: Job, place: int, metric: str, now: int) -> _Series | None:
        """Return the readings up to now; None within the first minute."""
        assert job.running is not None
        ended = job.work_ended
        minutes = ((now if ended is None else ended) - job.running) // 60
        if not minutes:
            return None
        pod = job.pods[place]
        series = self._known.setdefault((pod.pod_id, metric), _Series(max(minutes - MOST_MINUTES, 0)))
        for minute in range(series.first + len(series.values), minutes):
            found = minute_reading(job, place, metric, minute)
            series.values.append(None if found is None else found[0])
        return series
