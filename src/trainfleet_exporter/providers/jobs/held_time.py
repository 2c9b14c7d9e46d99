"""For the status page: for how long jobs held accelerators, and ran on them, in the last 24 hours.

As in the recording rules, a job counts by its accelerators, and by what its phases have grown since they were last
read. What happened before a job was first read is not counted. If the total time of a job shrinks, its history was
trimmed or a new job has its name: the counted time stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set

from trainfleet_exporter.model import HeldTime, Job, PhaseTime
from trainfleet_exporter.providers.judging import ServerClock

_HOUR = 3600.0
_HOURS = 24


class HeldTimes:
    """Accelerator-seconds of one provider's jobs, by hour of the cloud's clock."""

    def __init__(self, clock: ServerClock) -> None:
        self._clock = clock
        self._hours: dict[int, list[float]] = {}
        """By hour, the held accelerator time and its running part."""
        self._seen: dict[str, tuple[float, float, float]] = {}
        """By job, the seconds of all phases, of those that hold its accelerators, and of running, as of the latest
        reading."""

    def add(self, job: Job, phases: Iterable[PhaseTime], now: float) -> None:
        """Count what a job's phases have grown. The time in which it held nothing must be in the phase `queued`."""
        if not job.accelerators:
            return
        spent = {found.phase: found.seconds for found in phases}
        waited, running = spent.get("queued", 0.0), spent.get("running", 0.0)
        held = math.fsum(spent.values()) - waited
        seen, now_seen = self._seen.get(job.job_id), (waited + held, held, running)
        self._seen[job.job_id] = now_seen
        if seen is None or seen == now_seen:
            return
        least = 0.0 if now_seen[0] < seen[0] else -math.inf  # a late report may move time between phases
        count = math.fsum([each.count for each in job.accelerators])
        hour = self._hours.setdefault(int(now // _HOUR), [0.0, 0.0])
        hour[0] += count * max(held - seen[1], least)
        hour[1] += count * max(running - seen[2], least)

    def keep_only(self, job_ids: Set[str], now: float) -> None:
        """Forget other jobs, and hours that are over for a day."""
        if not self._seen.keys() <= job_ids:
            self._seen = {key: seen for key, seen in self._seen.items() if key in job_ids}
        first = int(now // _HOUR) - _HOURS + 1
        self._hours = {hour: counted for hour, counted in self._hours.items() if hour >= first}

    def total(self, now: float) -> HeldTime | None:
        """The counted time; None if nothing was held."""
        held = sum([held for held, _ in self._hours.values()])
        running = sum([running for _, running in self._hours.values()])
        since = max(self._clock.began, (now // _HOUR - _HOURS + 1) * _HOUR)
        return HeldTime(since, held, min(max(running, 0.0), held)) if held > 0 else None
