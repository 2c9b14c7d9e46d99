"""One-minute readings of tasks from their job's start, as the usage calls of both API versions tell them."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainfleet_exporter.simulator.world.jobs import Job
from trainfleet_exporter.simulator.world.usage import reading

MOST_MINUTES = 4320  # three days, as the console's chart


@dataclass(slots=True)
class _Series:
    first: int
    values: list[float | None] = field(default_factory=list)


class TaskSeries:
    """Remembers what was worked out, because each call asks for all of it again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Series] = {}

    def values(self, job: Job, place: int, metric: str, now: int) -> list[float | None]:
        """Readings of the task at `place`, oldest first, the last of the last whole minute; None where there was none.

        At most three days of them; at least one, once the job runs. `metric` is in the world's words.
        """
        assert job.running is not None
        ended = job.work_ended
        minutes = ((now if ended is None else ended) - job.running) // 60
        if not minutes:
            return [None]
        pod = job.pods[place]
        series = self._known.setdefault((pod.pod_id, metric), _Series(max(minutes - MOST_MINUTES, 0)))
        incarnations = [*pod.history, pod]
        for minute in range(series.first + len(series.values), minutes):
            at = job.running + 60 * minute + 30
            found = (reading(metric, job, one, at) for one in incarnations)
            series.values.append(next((value for value in found if value is not None), None))
        return series.values[-MOST_MINUTES:]
