"""How much a pod uses: a pure function of the pod and the time, believable to look at.

A training pod warms up, works near a level of its own with some noise, pauses its accelerators for a checkpoint every
ten minutes or so, and may hang: then the accelerators idle while their memory stays full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from zlib import crc32

from trainfleet_simulator.world.jobs import Job, Pod

Level = Callable[[float, float, bool, bool], float]
"""Calculates a value from: what sets one job apart from another (0 to 1), how warm the pod is (0 to 1), whether it is
idle, and whether it saves a checkpoint."""


def _network(level: float, warm: float, idle: bool, saving: bool) -> float:
    return 0.01 if idle else warm * (2 if saving else 15 + 400 * level)


_LEVELS: Mapping[str, Level] = {
    "CpuCoreUsage": lambda level, warm, idle, saving: 1.2 if idle else 12 + 60 * level,
    "GpuCoreUsage": lambda level, warm, idle, saving: 0.0 if idle else warm * (8 if saving else 58 + 41 * level),
    "GpuMemoryUsage": lambda level, warm, idle, saving: warm * (40 + 55 * level),
    "MemoryUsage": lambda level, warm, idle, saving: 8 + warm * (20 + 60 * level),
    "NetworkInputRate": _network,
    "NetworkOutputRate": _network,
    "DiskReadRate": lambda level, warm, idle, saving: 0.0 if idle or saving else 20 + 180 * level,
    "DiskWriteRate": lambda level, warm, idle, saving: 0.0 if idle else 350 + 300 * level if saving else 0.4,
}
METRIC_TYPES = tuple(_LEVELS)
_WARM_UP = 45
_CHECKPOINT_EVERY = 600
_CHECKPOINT_LASTS = 25
MOST_MINUTES = 4320  # of a series of a task: three days, as in ModelArts' console


def reading(metric: str, job: Job, pod: Pod, at: int) -> float | None:
    """Percent (0 to 100) for usages, MB/s for rates; None if the pod has no such thing or did not run then."""
    if pod.started is None or at < pod.started or (pod.finished is not None and at > pod.finished):
        return None
    if metric.startswith("Gpu") and not pod.role.cards:
        return None
    ended = job.work_ended
    idle = (job.hangs_at is not None and at >= job.hangs_at) or (ended is not None and at > ended)
    if job.still:
        return round(_LEVELS[metric](_draw(pod.pod_id, metric), 1.0, idle, False), 2)
    warm = min((at - pod.started) / _WARM_UP, 1.0)
    since_checkpoint = (at - pod.started + _draw(job.job_id, "phase") * _CHECKPOINT_EVERY) % _CHECKPOINT_EVERY
    saving = warm == 1 and since_checkpoint < _CHECKPOINT_LASTS
    value = _LEVELS[metric](_draw(job.job_id, metric), warm, idle, saving)
    noise = (_noise(pod.uid + metric, at) - 0.5) * 0.12 * value
    top = 100.0 if metric.endswith("Usage") else 10_000.0
    return round(min(max(value + noise, 0.0), top), 2)


def task_reading(metric: str, job: Job, place: int, at: int) -> tuple[float, Pod] | None:
    """The reading of a job's pod at `place`, in whichever incarnation it ran then, and that incarnation."""
    pod = job.pods[place]
    for one in pod.incarnations if pod.history else (pod,):
        value = reading(metric, job, one, at)
        if value is not None:
            return value, one
    return None


def minute_reading(job: Job, place: int, metric: str, minute: int) -> tuple[float, Pod] | None:
    """Return the task's reading in one minute of its job, counted from 0, and the incarnation of its pod then."""
    assert job.running is not None
    return task_reading(metric, job, place, job.running + 60 * minute + 30)


def series(job: Job, place: int, metric: str, now: int) -> list[float | None]:
    """Return readings of the task at `place`, oldest first, up to the last whole minute; None if there was none.

    They cover at most three days, and have at least one reading when the job runs. The job remembers them, because each
    call requests the whole series again.
    """
    assert job.running is not None
    ended = job.work_ended
    minutes = ((now if ended is None else ended) - job.running) // 60
    if not minutes:
        return [None]
    first, values = job.series.setdefault((place, metric), (max(minutes - MOST_MINUTES, 0), []))
    for minute in range(first + len(values), minutes):
        found = minute_reading(job, place, metric, minute)
        values.append(None if found is None else found[0])
    return values[-MOST_MINUTES:]


def _draw(*what: str) -> float:
    """A fixed number of 0 to 1 for a name."""
    return crc32("/".join(what).encode()) / 0xFFFFFFFF


def _noise(name: str, at: int) -> float:
    """Smooth noise of 0 to 1 that wanders from minute to minute."""
    minute, within = divmod(at, 60)
    before, after = _draw(name, str(minute)), _draw(name, str(minute + 1))
    return before + (after - before) * within / 60
