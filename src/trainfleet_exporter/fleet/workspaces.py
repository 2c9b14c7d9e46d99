"""The workspaces of a provider and the jobs in them: each workspace is a part, and a job is shown once.

workspaces ──► live jobs of each ──publish──► other collectors begin ──► ends, look-ups ──publish again if new──►
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.errors import CloudError, NotFound
from trainfleet_exporter.fleet.histories import JobHistories
from trainfleet_exporter.fleet.jobs import Found, JobTracker, job_filter
from trainfleet_exporter.fleet.lists import Listing, with_unread
from trainfleet_exporter.model import Job, Status, Workspace
from trainfleet_exporter.polling import FairQueue, Part, Poll, Topic
from trainfleet_exporter.providers.registry import BuildContext

Row = TypeVar("Row")
_LIST = "workspaces"
"""The part of the list of workspaces. A configured workspace that it lacks is a part of its own, which fails."""
_HISTORIES = "histories"
"""The part with counts over all workspaces: faults of nodes, and waits by pool."""
_UNLISTED = "the cloud does not list this workspace; check its id in the config, and the membership of the identity"
_BRIEFLY = 0.25
"""The part of a poll's time that it waits for jobs that it can do without."""
_FOR_LIVE, _FOR_ENDS, _FOR_LISTS = 0.8, 0.8, 0.7
"""The part of a poll's time in which live jobs are listed; of the rest, that for how jobs ended; of that, for lists."""


@dataclass(slots=True)
class WorkspaceRead:
    """What one poll knows of one workspace so far."""

    part: Part
    tracker: JobTracker
    now: float
    """Unix seconds."""
    found: Found = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    """Jobs that lived at the last poll and are not listed as live."""
    lost: list[str] = field(default_factory=list)
    """Those of them whose look-up failed."""
    until: float = 0.0
    """Loop time by which ends must be known; the rest of the poll's time is for showing them."""
    lists_until: float = 0.0
    """Loop time by which the lists of ends must be read; the rest until then is for look-ups."""
    known_until: float | None = None
    """Unix time up to which all ends have been listed, if that is so, also by a list that broke off."""

    @property
    def ends(self) -> str:
        """The part that fails if the status of ended jobs is unknown."""
        return f"ended jobs of {self.part.key}"

    async def look_up(self, read: Callable[[Sequence[str]], Awaitable[None]], *, at_once: int = 1) -> None:
        """Read the missing jobs by their ids. NotFound for a single one: it does not exist any more."""
        missing = [job_id for job_id in self.pending if job_id not in self.found]
        for start in range(0, len(missing), at_once):
            asked = missing[start : start + at_once]
            try:
                await read(asked)
            except CloudError as error:
                if at_once > 1 or not isinstance(error, NotFound):
                    self.part.failed(self.ends, error)
                    self.lost += asked
        unknown = [key for key in missing if key not in self.found or self.found[key][0].status is Status.UNKNOWN]
        for job_id in self.tracker.unknown_for_long(unknown, self.now):
            self.found.pop(job_id, None)


class Workspaces:
    """The workspaces and their jobs.

    `states` are the status and platform status of live jobs; each has a count from the start, 0 included. `only` is the
    workspace of a cloud that has no others.
    """

    def __init__(
        self,
        config: ProviderConfig,
        context: BuildContext,
        states: Collection[tuple[Status, str]],
        only: Workspace | None = None,
    ) -> None:
        self.listed: Topic[frozenset[str]] = Topic("jobs", frozenset())
        """The workspaces whose live jobs the latest poll could list."""
        self.histories = JobHistories(context.clock)
        self.live: Mapping[str, Job] = {}
        """The live jobs that have series: those that the config does not leave out."""
        self.wanted = job_filter(config.jobs)
        """Returns whether a job has series."""
        self.clock = context.clock
        """The time of the cloud."""
        self.max_data_age = context.settings.max_data_age
        self.at_once = config.limits.concurrency
        """How many calls of one collector may be in flight."""
        self._configured = None if config.workspaces == "all" else tuple(dict.fromkeys(config.workspaces))
        self.ids: Topic[tuple[str, ...]] = Topic("workspaces", self._configured or ())
        """The workspaces to poll: of the configured ones, those that the latest complete list has."""
        self.watchers: list[Callable[[], None]] = []
        """Called whenever the live jobs have changed."""
        self._record_end, self._states = context.record_end, states
        self._retention = context.settings.finished_job_retention
        self._known: dict[str, Workspace] = {}
        """By id, the workspaces of the latest list. A configured one stays if a malformed row may be about it."""
        self._trackers: dict[str, JobTracker] = {}
        self._turns, self._together = FairQueue(), self.at_once
        """The second: how many workspaces are read together."""
        self._only = () if only is None else (only,)
        if only is not None:
            self.ids.publish((only.workspace_id,))

    def live_jobs(self) -> Collection[Job]:
        """Return the live jobs that have series. Raises NotReady if the latest poll of jobs read none."""
        if not self.listed.is_known:
            raise self.listed.not_ready()
        return self.live.values()

    async def read_list(
        self, poll: Poll, read: Callable[[float], Awaitable[Listing[Row]]], translate: Callable[[Row], Workspace | None]
    ) -> None:
        """Show the listed workspaces. Those of the config are polled even if the list cannot be read.

        `read` takes a deadline (loop time). `translate` returns None for a workspace that is not to be polled.
        """
        with self.ids.polling():
            async with poll.part(_LIST) as part:
                listing = await read(poll.deadline)
                part.dropped("malformed", listing.malformed)
                rows = [translate(row) for row in listing.rows.values()]
                found, ids = {each.workspace_id: each for each in rows if each is not None}, self.ids.value
                if self._configured is None:
                    ids = with_unread(found, ids, malformed=listing.malformed, named=listing.rows)
                elif not listing.malformed:  # else that row may be the missing one
                    ids = tuple(key for key in self._configured if key in listing.rows)
                    unlisted = [key for key in self._configured if key not in ids]
                    poll.keep_only([_LIST, *unlisted])
                    for workspace_id in unlisted:
                        poll.failed(workspace_id, NotFound(_UNLISTED))
                self.ids.publish(ids)
                self._known = {**self._known, **found} if listing.malformed else found
                await part.publish([self._known[key] for key in ids if key in self._known])

    async def poll_jobs(
        self,
        poll: Poll,
        read_live: Callable[[WorkspaceRead], Awaitable[None]],
        read_ends: Callable[[WorkspaceRead], Awaitable[None]],
        details: Callable[[Job], Iterable[object]] = lambda job: (),
    ) -> None:
        """Publish the live jobs of all workspaces, then find out how others ended, so that no live job waits for it.

        `read_live` and `read_ends` add to `found`. `details` returns what is shown with a live job.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + _FOR_LIVE * (poll.deadline - clock())
        reads: dict[str, WorkspaceRead] = {}

        async def live(part: Part) -> None:
            tracker = JobTracker(part.key, self.clock, retention=self._retention)
            read = WorkspaceRead(part, self._trackers.setdefault(part.key, tracker), self.clock.now())
            await read_live(read)
            read.now, read.known_until, read.pending = self.clock.now(), None, read.tracker.missing(read.found)
            await self._publish(read, details, pending=read.pending)
            reads[read.ends] = read

        async def ends(part: Part) -> None:
            read, until = reads[part.key], clock() + _FOR_ENDS * (part.deadline - clock())
            listed, read.until, read.now = dict(read.found), until, self.clock.now()
            read.lists_until = clock() + _FOR_LISTS * (until - clock())
            await read_ends(read)
            if read.pending or any(listed.get(key) != each for key, each in read.found.items()):
                await self._publish(read, details)
            read.tracker.looked_up = read.tracker.looked_up if read.lost else read.now
            if read.known_until is not None:  # after the ends since the last such list are counted
                read.tracker.ends_until = max(read.known_until, read.tracker.ends_until or 0.0)
            for job in read.tracker.take_ended():
                self._note(read, job)
                if self.wanted(job):
                    self._record_end(self.histories.end(job, read.now))

        with self.listed.polling():
            ids = await self.ids.get()
            poll.keep_only([*ids, _HISTORIES])
            for key in self._trackers.keys() - set(ids):  # it may come back, and what it counted stays
                self.expired(key)
            # Workspaces that are read together all come near their end when the time is over, and then all fail.
            done = await self._turns.read_each(poll, ids, live, at_once=self._together, until=until)
            is_in_vain = not done and self._together > 1 and clock() > until - 1
            self._together = 1 if is_in_vain else self.at_once
            all_done = len(done) == len(ids)
            self.listed.publish(frozenset(done), known=bool(done) or all_done, whole=all_done and not poll.lost)
        trackers = {key: read.tracker for key, read in reads.items()}
        longest_unread_first = sorted(reads, key=lambda key: (trackers[key].ends_until or 0.0, trackers[key].looked_up))
        await poll.read_each(longest_unread_first, ends, at_once=self.at_once)
        now = self.clock.now()
        known = {key for each in self._trackers.values() for key in each.known_ids()}
        self.histories.keep_only(known, now)
        if done and (counted := self.histories.fleet()):
            async with poll.part(_HISTORIES) as part:
                await part.publish(counted)

    def expired(self, key: str) -> None:
        """Forget a workspace's live jobs, and so their pods and usage: its polls have failed for too long."""
        if key in self._trackers:
            self._trackers[key].expired = True
            self._changed()

    async def wait_briefly(self, deadline: float, of: Topic[Any] | None = None) -> None:
        """Wait for the jobs (or another list) if something can be shown without them: even for their first poll at most
        a quarter of the time until `deadline` (loop time)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BRIEFLY * (deadline - asyncio.get_running_loop().time())):
                await (of or self.listed).wait(deadline, needed=False)

    def is_known(self, job_id: str) -> bool:
        """Return whether a workspace has this job, live or just ended, also if the config leaves it out."""
        return any(job_id in each.live or job_id in each.ended for each in self._trackers.values() if not each.expired)

    async def _publish(
        self, read: WorkspaceRead, details: Callable[[Job], Iterable[object]], *, pending: Sequence[str] = ()
    ) -> None:
        self._drop_taken(read)
        found = {job_id: job for job_id, (job, _) in read.found.items()}
        read.tracker.update(found, read.now, lost=read.lost, pending=pending)
        self._changed()
        shown = [*self._only, *read.tracker.counts(self._states)]
        for job in read.tracker.jobs():
            self._note(read, job)
            if self.wanted(job):
                shown += [job, *self.histories.objects(job, read.now, is_seen=job.job_id in read.found)]
                if job.job_id in read.tracker.live:
                    shown += details(job)
        await read.part.publish(shown)

    def _note(self, read: WorkspaceRead, job: Job) -> None:
        _, records = read.found.get(job.job_id, (job, None))
        self.histories.count(job, records, since=read.tracker.first_read or read.now)

    def _drop_taken(self, read: WorkspaceRead) -> None:
        """Drop jobs of another workspace, and those that another one shows. No await may follow until an update."""
        others = [each for each in self._trackers.values() if each is not read.tracker and not each.expired]
        taken = [read.found.keys() & known.keys() for each in others for known in (each.live, each.ended)]
        wrong = {key for key, (job, _) in read.found.items() if job.workspace_id != read.part.key}.union(*taken)
        read.found = {key: each for key, each in read.found.items() if key not in wrong} if wrong else read.found
        read.part.dropped("duplicate", len(wrong))

    def _changed(self) -> None:
        trackers = [each for each in self._trackers.values() if not each.expired]
        self.live = {key: job for each in trackers for key, job in each.live.items() if self.wanted(job)}
        for callback in self.watchers:
            callback()
