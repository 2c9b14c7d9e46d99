"""The jobs of a workspace: which live, which ended, and which endings were counted.

    found ──► live ──► missing ──look-up──► ended ──retention──► gone
                          └──failed──► lost: looked up again

A list of live jobs does not say how a job ended: the job is simply no longer in it. A job is (id, created): an id that
is used again is a new job, and nothing of the earlier one is shown with it. Times are Unix seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from trainfleet_exporter.config import JobFilter, JobsScope
from trainfleet_exporter.config.kinds import compile_pattern
from trainfleet_exporter.fleet.histories import Records
from trainfleet_exporter.model import FINISHED, FinishedCount, Job, JobCount, Status
from trainfleet_exporter.providers.judging import ServerClock

OVERLAP = 600.0
"""Seconds that each list of ended jobs reaches back behind the last one: an end may be listed late."""
LONGEST_GAP = 7 * 86400.0
"""Seconds. How far back ends are looked for at most if the list of them always failed."""

Found = dict[str, tuple[Job, Records | None]]
"""Jobs by id, each with its history if the answer has one."""


class JobTracker:
    """Which jobs of a workspace live and which ended. Each poll hands over all that it found.

    What ended before the exporter's start is not counted. `retention` is how long ended jobs are shown (seconds).
    """

    def __init__(self, workspace_id: str, clock: ServerClock, *, retention: float) -> None:
        self.workspace_id = workspace_id
        self.live: dict[str, Job] = {}
        """Not ended, or ended and still holding resources."""
        self.ended: dict[str, tuple[Job, float]] = {}
        """Ended and holding nothing, with the time since when."""
        self.lost: dict[str, tuple[Job, float]] = {}
        """Jobs in no list whose look-up failed, each as it was last, with the time since when. They are not shown."""
        self.expired = False
        """Whether polls have failed for so long that nothing is shown any more."""
        self.first_read: float | None = None
        """When jobs were read first: what ran by then was not seen to start."""
        self.ends_until: float | None = None
        """Up to when every end is known; None before the first list of them."""
        self.looked_up = 0.0
        """When all missing jobs were looked up last."""
        self._clock, self._retention = clock, retention
        self._kept: Collection[str] = ()
        """Pending jobs that the latest update left as they were."""
        self._counted: dict[str, tuple[float, float | None]] = {}
        """Ended jobs that were counted, or ended before the exporter's start: when each ended, and was created."""
        self._unknown: dict[str, float] = {}
        """Missing jobs that are unknown, or in an unknown state, and since when."""
        self._ending: dict[str, Job] = {}
        """Jobs that were seen to end, until they hold nothing and `take_ended` returns them."""
        self._counts = Counter(dict.fromkeys(sorted(FINISHED), 0))

    def missing(self, found: Collection[str]) -> list[str]:
        """Return the ids of jobs that lived at the last poll, or are lost, and that are in no list: to be looked up."""
        return [job_id for known in (self.lost, self.live) for job_id in known if job_id not in found]

    def has_just_ended(self, job: Job) -> bool:
        """Return whether a job ended since the last poll, and since the exporter's start."""
        is_over = job.status in FINISHED and not job.holds_resources and job.job_id not in self.ended
        return is_over and (job.finished is None or job.finished >= self._clock.began)

    def unknown_for_long(self, unknown: Iterable[str], now: float) -> list[str]:
        """Return which missing jobs have been unknown, or in an unknown state, for the retention: it may be an end."""
        self._unknown = {key: self._unknown.get(key, now) for key in unknown}
        return [key for key, since in self._unknown.items() if now - since > self._retention]

    def jobs(self) -> list[Job]:
        """Return all jobs that are shown: the live ones, then the ended ones."""
        return [*self.live.values(), *(job for job, _ in self.ended.values())]

    def ends_since(self, now: float) -> float:
        """Return the time from which ends must be listed."""
        if self.ends_until is None:
            return min(now - self._retention, max(self._clock.began, now - LONGEST_GAP), now - OVERLAP)
        return max(min(self.ends_until, now), now - LONGEST_GAP) - OVERLAP

    def update(
        self, found: Mapping[str, Job], now: float, *, lost: Collection[str] = (), pending: Collection[str] = ()
    ) -> None:
        """Take over a complete poll: all live jobs, and those that ended. Others that lived are dropped.

        `lost` are missing jobs whose look-up failed. `pending` are those that are looked up next: they are shown as
        they were, but not in two polls.
        """
        live: dict[str, Job] = {}
        for job_id, job in found.items():
            earlier = self.last_known(job_id) or self.ended.get(job_id, (None,))[0] or self._ending.get(job_id)
            created = earlier.created if earlier else self._counted.get(job_id, (0.0, None))[1]
            if created != job.created and None not in (created, job.created):
                for of_id in (self.live, self.ended, self.lost, self._counted, self._ending):
                    of_id.pop(job_id, None)
            if job.status in FINISHED:
                self._count(job, now)
            if job.status not in FINISHED or job.holds_resources:
                live[job_id] = job
                self.ended.pop(job_id, None)  # a platform may restart an ended job under its old id
            else:
                # A job that was seen to hold resources held them until now, whenever its work ended.
                before = self.last_known(job_id)
                seen_live = before is not None and before.status is not Status.UNKNOWN
                since = now if seen_live else min(job.finished or self._counted[job_id][0], now)
                requests_nothing = replace(job, cpu_cores=None, memory_bytes=None, nodes=None, accelerators=())
                self.ended[job_id] = requests_nothing, self.ended.get(job_id, (job, since))[1]
        shown = {} if self.expired else self.live
        kept = {key: shown[key] for key in pending if key in shown and key not in self._kept}
        unknown = [key for key in (*lost, *pending) if key not in kept and key not in found]
        missed = {key: self.lost.get(key) or (self.live[key], now) for key in unknown if self.last_known(key)}
        self.lost = {key: each for key, each in missed.items() if key in self.live or now - each[1] < self._retention}
        self.live = live | kept
        self.ended = {key: each for key, each in self.ended.items() if now - each[1] < self._retention}
        self._kept, self.expired = kept, False
        self.first_read = now if self.first_read is None else self.first_read
        known = self.live.keys() | self.ended.keys() | self.lost.keys()
        horizon = self.ends_since(now) - 3600.0
        self._counted = {key: each for key, each in self._counted.items() if each[0] >= horizon or key in known}
        self._ending = {key: job for key, job in self._ending.items() if not job.holds_resources or key in known}

    def take_ended(self) -> list[Job]:
        """Return each job that was seen to end, once, when it holds nothing any more."""
        ready = [job for job in self._ending.values() if not job.holds_resources]
        for job in ready:
            del self._ending[job.job_id]
        return ready

    def counts(self, states: Collection[tuple[Status, str]]) -> list[object]:
        """Return the live jobs by state, 0 included for `states`, and the counters of ends.

        The total of ended jobs counts a job that has ended under any other word, such as one with a warm pool.
        """
        live = Counter(dict.fromkeys(states, 0))
        for job in self.live.values():
            state = job.status, job.platform_status
            if state in live or job.status not in FINISHED:
                live[state] += 1
        counted = [JobCount(self.workspace_id, status, word, count) for (status, word), count in live.items()]
        return [*counted, *(FinishedCount(self.workspace_id, key, count) for key, count in self._counts.items())]

    def known_ids(self) -> set[str]:
        """Return the ids of all jobs of which something is known."""
        return {*self.live, *self.ended, *self.lost, *self._ending}

    def last_known(self, job_id: str) -> Job | None:
        return self.live.get(job_id) or self.lost.get(job_id, (None,))[0]

    def _count(self, job: Job, now: float) -> None:
        key, before = job.job_id, self.last_known(job.job_id)
        ran = before is not None and before.status not in FINISHED | {Status.UNKNOWN}
        last = max(job.finished or 0.0, job.started or 0.0)  # not after the counted end: a list was not up to date
        if key not in self._counted or (ran and last > self._counted[key][0]):
            self._counted[key] = now if job.finished is None else job.finished, job.created
            # What ended before the listed time was listed earlier, and has changed since in another way.
            ended_now = (job.finished or job.created or 0.0) >= max(self._clock.began, self.ends_since(now))
            is_new = ended_now or (before is not None and before.status not in FINISHED)
            self._counts[job.status] += is_new
            if is_new or job.holds_resources:
                self._ending[key] = job
        if key in self._ending:  # with the accelerators of when it was live: platforms leave them out afterwards
            held = (before.accelerators if before else ()) or job.accelerators or self._ending[key].accelerators
            self._ending[key] = replace(job, accelerators=held)


def job_filter(scope: JobsScope) -> Callable[[Job], bool]:
    """A test for jobs: in `include` every key that is given must match, in `exclude` one is enough. A key matches when
    one entry of its list does; names are regular expressions that match as a whole."""
    include, exclude = list(_criteria(scope.include)), list(_criteria(scope.exclude))
    if not include and not exclude:
        return lambda job: True
    return lambda job: all(matches(job) for matches in include) and not any(matches(job) for matches in exclude)


def _criteria(given: JobFilter) -> Iterator[Callable[[Job], bool]]:
    if given.name:
        patterns = [compile_pattern(name) for name in given.name]
        yield lambda job: any(matches(job.name) for matches in patterns)
    for key in ("user_id", "job_type", "pool_id"):
        if allowed := frozenset(getattr(given, key)):
            yield lambda job, key=key, allowed=allowed: getattr(job, key) in allowed  # type: ignore[misc]
