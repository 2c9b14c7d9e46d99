"""The job registry: which jobs of a provider are live, which ended, and which endings were counted.

A list of live jobs does not say how a job ended: the job is simply no longer in it. So each poll hands over the live
jobs, and those that it knows to have ended since. The registry says which jobs are in neither (to be looked up by id),
counts each ending once, and keeps ended jobs for their retention.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field

from msgspec.structs import replace

from trainfleet_exporter.model import FINISHED, FinishedCount, Job, JobCount, Status
from trainfleet_exporter.polling import Topic
from trainfleet_exporter.providers.jobs.history import Records

# It is asked of every job of a poll, and members of an enum are slow to look up, and slow to hash.
_SUCCEEDED, _FAILED, _STOPPED, _UNKNOWN = Status.SUCCEEDED, Status.FAILED, Status.STOPPED, Status.UNKNOWN
_BRIEFLY = 0.25
"""The part of a poll's time that it waits for jobs it can do without."""
LONGEST_GAP = 7 * 86400.0
"""Seconds. How far back endings are looked for at most if the query for them always failed."""


@dataclass(slots=True)
class WorkspaceJobs:
    """The jobs of one workspace. Times are Unix seconds."""

    workspace_id: str
    live: dict[str, Job] = field(default_factory=dict)
    """Not ended, or ended and still holding resources."""
    ended: dict[str, tuple[Job, float]] = field(default_factory=dict)
    """Ended and holding nothing, with the time since when."""
    counts: dict[Status, int] = field(default_factory=lambda: dict.fromkeys(sorted(FINISHED), 0))
    unresolved: dict[str, tuple[Job, float]] = field(default_factory=dict)
    """Jobs that left the live ones and could not be looked up, each as it was last, with the time since when."""
    held: frozenset[str] = frozenset()
    """Ids of live jobs that the latest list lacks. Until it is known how they ended, they are shown as they were."""
    read_at: float = 0.0
    """When the live jobs were read last."""
    first_read_at: float | None = None
    """When they were read first: what ran by then was not seen to start."""
    ends_known_until: float | None = None
    """Up to when every ending is known, where the cloud lists jobs by their end; None before the first such list."""
    unknown: dict[str, float] = field(default_factory=dict)
    """Ids of jobs in an unknown state, with the time since when."""
    expired: bool = False
    """Whether the last good answer was kept long enough: its jobs are looked up again, and nothing else is done."""
    counted: dict[str, float] = field(default_factory=dict)
    """Ids of ended jobs that were counted (or had ended before our time), with the time of their end."""
    to_read: dict[str, None] = field(default_factory=dict)
    """Ids of ended jobs whose last history is still to be read."""
    unrecorded: dict[str, Job] = field(default_factory=dict)
    """Jobs that were seen to end, until they hold nothing and `take_ended` returns them."""
    translated: dict[str, tuple[object, Job, Records | None]] = field(default_factory=dict)
    """By id, the row of a live job, and the job and the history that were made of it (JobReader.take)."""
    context: object = None
    """The context with which these rows were translated."""

    def missing(self, found: Mapping[str, Job]) -> list[str]:
        """Ids of jobs that lived at the last poll, or could not be looked up by it, and that this one has not found."""
        return [job_id for known in (self.unresolved, self.live) for job_id in known if job_id not in found]

    def last_known(self, job_id: str) -> Job | None:
        """A job as it was when it was listed last; None if it is not one of the live or missing ones."""
        if job_id in self.unresolved:
            return self.unresolved[job_id][0]
        return self.live.get(job_id)

    def ends_unknown_since(self, now: float) -> float | None:
        """Since when endings may have been missed (Unix seconds, `now` at most); None before the first list of them."""
        if self.ends_known_until is None:
            return None
        return max(min(self.ends_known_until, now), now - LONGEST_GAP)

    def settle(
        self,
        found: Mapping[str, Job],
        *,
        now: float,
        began: float,
        retention: float,
        unresolved: Collection[str] = (),
        pending: Collection[str] = (),
    ) -> None:
        """Take over a complete poll: every live job, and every one that ended since the last poll.

        `began` is when the exporter started: what ended before was not seen to finish, and is not counted.
        Previously live jobs that are in neither are dropped: nothing true can be said of them any more.

        `unresolved` are jobs whose look-up failed. They are not shown. They are missing again at the next poll, and
        after that for `retention` seconds at most.

        `pending` are missing jobs that are looked up next, before another call for the same poll. They are kept as they
        are. One that was pending in the last poll too, and was not settled, is no longer shown.
        """
        live: dict[str, Job] = {}
        may_hold = [] if self.expired else pending  # what expired is not shown again as it was
        self.expired = False
        unknown = [job_id for job_id, job in found.items() if job.status is _UNKNOWN]
        unknown += [job_id for job_id in pending if job_id in self.unknown]
        self.unknown = {job_id: self.unknown.get(job_id, now) for job_id in unknown}
        for job_id, job in found.items():
            if self.unknown and now - self.unknown.get(job_id, now) > retention:
                continue  # an unknown state may be an end: the job is not looked up forever
            is_over = _is_over(job.status)
            if is_over or self.counted:
                self._count(job, began=began, now=now)
                if job_id in self.unrecorded:
                    self.unrecorded[job_id] = self._with_accelerators(job)
            if not is_over or job.holds_resources:
                live[job_id] = job
                self.ended.pop(job_id, None)  # a platform may restart an ended job under its old id
            elif job_id in self.ended:
                self.ended[job_id] = (job, self.ended[job_id][1])
            else:
                was = self.last_known(job_id)
                # A job that was seen to hold resources held them until now, whenever its work ended.
                seen_live = was is not None or job.finished is None
                self.ended[job_id] = (job, now if seen_live else min(job.finished or now, now))
        held = frozenset(job_id for job_id in may_hold if job_id in self.live and job_id not in self.held)
        failed = {job_id: self._left_at(job_id, now) for job_id in unresolved if self._is_missing(job_id, found)}
        failed = {key: left for key, left in failed.items() if key in self.live or now - left[1] < retention}
        waiting = {job_id: self._left_at(job_id, now) for job_id in pending if self._is_missing(job_id, held)}
        live |= {job_id: self.live[job_id] for job_id in held}
        self.unresolved, self.held = failed | waiting, held
        self.live, self.read_at = live, now
        if self.first_read_at is None:
            self.first_read_at = now
        self.ended = {key: kept for key, kept in self.ended.items() if now - kept[1] < retention}
        self._forget_counted(now)
        if self.unrecorded:  # one that still held something and is found nowhere is dropped
            known = live.keys() | self.unresolved.keys()
            self.unrecorded = {
                key: job for key, job in self.unrecorded.items() if not job.holds_resources or key in known
            }

    def take_ended(self) -> list[Job]:
        """Return each job that was seen to end once: when it holds nothing, and its last history has been read."""
        ready = [job for key, job in self.unrecorded.items() if not job.holds_resources and key not in self.to_read]
        for job in ready:
            del self.unrecorded[job.job_id]
        return ready

    def jobs(self) -> Iterable[Job]:
        """Every job that is shown: the live ones, then the ended ones in retention."""
        yield from self.live.values()
        yield from (job for job, _ in self.ended.values())

    def live_counts(self, known: Collection[tuple[Status, str]]) -> list[JobCount]:
        """The live jobs tallied by state. Every `known` pair of words has a count, 0 included; no other ended ones."""
        counts = Counter(dict.fromkeys(known, 0))
        by_word: dict[str, list[Status]] = {}
        for job in self.live.values():
            by_word.setdefault(job.platform_status, []).append(job.status)
        for word, statuses in by_word.items():
            for status in Status:
                here = statuses.count(status)
                if here and ((status, word) in counts or not _is_over(status)):
                    counts[status, word] += here
        return [JobCount(self.workspace_id, status, word, count) for (status, word), count in counts.items()]

    def finished_counts(self) -> list[FinishedCount]:
        """The counters of this workspace, every finished status included."""
        return [FinishedCount(self.workspace_id, status, count) for status, count in self.counts.items()]

    def _count(self, job: Job, *, began: float, now: float) -> None:
        if not _is_over(job.status):
            if job.status is not Status.UNKNOWN:  # an unknown word does not mean that it runs again
                self.counted.pop(job.job_id, None)
                self.unrecorded.pop(job.job_id, None)
            return
        if job.job_id in self.counted:
            return
        was = self.last_known(job.job_id)
        self.counted[job.job_id] = job.finished if job.finished is not None else now
        seen_unfinished = was is not None and was.status not in FINISHED
        if seen_unfinished or (job.finished is not None and job.finished >= began):
            self.counts[job.status] += 1
            self.unrecorded[job.job_id] = job
        elif job.holds_resources:  # its work ended before the exporter's start, and its end is still to come
            self.unrecorded[job.job_id] = job

    def _with_accelerators(self, job: Job) -> Job:
        """An ended job, with the accelerators of when it was live: platforms leave them out afterwards."""
        for before in (job, self.last_known(job.job_id), self.unrecorded.get(job.job_id)):
            if before is not None and before.accelerators:
                return job if before is job else replace(job, accelerators=before.accelerators)
        return job

    def _is_missing(self, job_id: str, found: Container[str]) -> bool:
        return job_id not in found and (job_id in self.unresolved or job_id in self.live)

    def _left_at(self, job_id: str, now: float) -> tuple[Job, float]:
        """A job that could not be looked up, and since when."""
        return self.unresolved[job_id] if job_id in self.unresolved else (self.live[job_id], now)

    def _forget_counted(self, now: float) -> None:
        # The cloud lists an ended job again while the next poll's window reaches back to it, and while it is shown.
        since = self.ends_unknown_since(now)
        horizon = (now if since is None else since) - 3600.0
        self.counted = {
            job_id: ended
            for job_id, ended in self.counted.items()
            if ended >= horizon or job_id in self.live or job_id in self.ended or job_id in self.unresolved
        }


def _is_over(status: Status) -> bool:
    """Return whether it is one of FINISHED."""
    return status is _SUCCEEDED or status is _FAILED or status is _STOPPED


class JobRegistry:
    """The jobs of one provider by workspace, and which of them have series: those that the configured filter lets pass.

    `wanted` is that filter.
    """

    def __init__(self, wanted: Callable[[Job], bool]) -> None:
        self.here: Topic[frozenset[str]] = Topic("jobs", frozenset())
        """Published by the collector of jobs: the workspaces whose jobs its latest poll could read."""
        self.wanted = wanted
        """Return whether a job has series."""
        self._workspaces: dict[str, WorkspaceJobs] = {}
        self._live: dict[str, Job] = {}
        self._watchers: list[Callable[[], None]] = []

    def workspace(self, workspace_id: str) -> WorkspaceJobs:
        """The jobs of one workspace."""
        if workspace_id not in self._workspaces:
            self._workspaces[workspace_id] = WorkspaceJobs(workspace_id)
        return self._workspaces[workspace_id]

    def expire(self, workspace_id: str) -> None:
        """Forget a workspace's live jobs: its polls have failed for too long."""
        self.workspace(workspace_id).expired = True
        self.changed()

    def keep_only(self, workspace_ids: Iterable[str]) -> None:
        """Forget all other workspaces."""
        kept = set(workspace_ids)
        if self._workspaces.keys() <= kept:
            return
        self._workspaces = {key: jobs for key, jobs in self._workspaces.items() if key in kept}
        self.changed()

    def owner(self, job_id: str) -> str | None:
        """The workspace that lists a live job; a job is never shown twice."""
        for key, jobs in self._workspaces.items():
            if job_id in jobs.live and not jobs.expired:
                return key
        return None

    def taken(self, job_ids: Set[str], workspace_id: str) -> set[str]:
        """Which of these jobs another workspace lists."""
        others = [jobs for key, jobs in self._workspaces.items() if key != workspace_id and not jobs.expired]
        return {job_id for jobs in others for job_id in jobs.live.keys() & job_ids}

    def known_ids(self) -> set[str]:
        """The ids of all jobs: live, ended and in retention, not to be looked up now, or not recorded yet."""
        found: set[str] = set()
        for jobs in self._workspaces.values():
            found.update(jobs.live, jobs.ended, jobs.unresolved, jobs.unrecorded)
        return found

    def live(self) -> Mapping[str, Job]:
        """The live jobs that have series, by id."""
        return self._live

    def live_jobs(self) -> Collection[Job]:
        """The live jobs that have series. Raises NotReady if the latest poll of jobs read none. A single workspace that
        fails does not matter."""
        if not self.here.is_known:
            raise self.here.not_ready()
        return self._live.values()

    async def wait(self, deadline: float, *, needed: bool = True) -> None:
        """Wait for the first poll of jobs, or for the one after a bad one (Topic.wait)."""
        await self.here.wait(deadline, needed=needed)

    async def wait_briefly(self, deadline: float) -> None:
        """Wait for the jobs if something can be shown without them: even for their first poll at most a quarter of the
        time until `deadline` (loop time)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BRIEFLY * (deadline - asyncio.get_running_loop().time())):
                await self.wait(deadline, needed=False)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever the live jobs changed."""
        self._watchers.append(callback)

    def changed(self) -> None:
        """Take note that jobs of workspaces changed, and call the watchers."""
        workspaces = [jobs for jobs in self._workspaces.values() if not jobs.expired]
        self._live = {job_id: job for jobs in workspaces for job_id, job in jobs.live.items() if self.wanted(job)}
        for callback in self._watchers:
            callback()
