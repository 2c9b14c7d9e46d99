"""One-minute readings of tasks from the start of their job, as the usage calls of both API versions return them."""

from __future__ import annotations

from trainfleet_simulator.world.jobs import Job, Pod
from trainfleet_simulator.world.usage import task_reading

MOST_MINUTES = 4320  # three days, as in the console's chart


def minute_reading(job: Job, place: int, metric: str, minute: int) -> tuple[float, Pod] | None:
    """Return the task's reading in one minute of its job, counted from 0, and the incarnation of its pod then."""
    assert job.running is not None
    return task_reading(metric, job, place, job.running + 60 * minute + 30)


class TaskSeries:
    """Computes and caches series, because each call requests the whole series again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, list[float | None]]] = {}
        """The first minute and the readings of a pod's metric."""

    def values(self, job: Job, place: int, metric: str, now: int) -> list[float | None]:
        """Return readings of the task at `place`, oldest first, up to the last whole minute; None if there was none.

        They cover at most three days, and have at least one reading when the job runs. `metric` is the world's name.
        """
        assert job.running is not None
        ended = job.work_ended
        minutes = ((now if ended is None else ended) - job.running) // 60
        if not minutes:
            return [None]
        key = job.pods[place].pod_id, metric
        first, values = self._known.setdefault(key, (max(minutes - MOST_MINUTES, 0), []))
        for minute in range(first + len(values), minutes):
            found = minute_reading(job, place, metric, minute)
            values.append(None if found is None else found[0])
        return values[-MOST_MINUTES:]
