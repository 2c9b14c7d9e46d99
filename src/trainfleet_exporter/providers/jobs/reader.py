"""One poll of one workspace's jobs: read the live ones, publish, then find out how others ended."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from msgspec.structs import replace

from trainfleet_exporter.errors import CloudError, RequestRefused
from trainfleet_exporter.model import FINISHED, Job, Status
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.jobs.history import Records
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.registry import LONGEST_GAP
from trainfleet_exporter.providers.jobs.shared import Shared
from trainfleet_exporter.transport.json_fields import UNUSABLE

SharedT = TypeVar("SharedT", bound=Shared)
Row = TypeVar("Row")
_FOR_ENDS = 0.8
"""The part of the remaining time that may go into finding out how jobs ended; the rest is for showing it."""
_LAST_AT_ONCE = 20
"""Ended jobs of a workspace whose last history is read in one poll; more of them wait for the next."""
_OVERLAP = 600.0
"""Seconds that each list of finished jobs reaches back behind the last one: an ending may be listed late."""


class JobReader(ABC, Generic[SharedT, Row]):
    """The jobs of one workspace in one poll. A cloud derives from it and adds its calls and its translation."""

    live_states: ClassVar[Sequence[tuple[Status, str]]] = ()
    """Status and platform status of live jobs. Each pair has a count from the start, 0 included.

    They include the words of ended jobs that hold resources, if no finished total counts these jobs.
    """
    lists_ended: ClassVar[bool] = False
    """Whether the cloud can list jobs by the time of their end (`read_ended`). Otherwise ids are looked up."""

    def __init__(self, shared: SharedT, part: Part) -> None:
        self.shared = shared
        self.part = part
        self.workspace_id = part.key
        self.jobs = shared.jobs.workspace(part.key)
        self.ends = f"ended jobs of {part.key}"
        """The part that fails if the status of ended jobs is unknown."""
        self.found: dict[str, Job] = {}
        """By id, each by the latest answer about it."""
        self._records: dict[str, Records] = {}
        """Their histories, where the answers have them."""
        self._pending: list[str] = []
        """Jobs that were live before this poll, and are in no list of live ones."""
        self._unresolved: list[str] = []
        """Those of them whose look-up failed."""

    @abstractmethod
    async def read_live(self) -> None:
        """List the live jobs, and `take` them."""

    async def read_ended(self, start: float, end: float, deadline: float) -> None:
        """List the jobs that ended between two Unix times, and `take` them."""

    @abstractmethod
    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[Row]:
        """Read jobs by id. Jobs that no longer exist are left out. Raises CloudError."""

    @abstractmethod
    def translate(self, row: Row) -> Job | None:
        """A row as a job; None without an id."""

    def records(self, row: Row) -> Records | None:
        """The history in a row; None if it has none."""
        return None

    def has_history_of(self, row: Row, before: Row) -> bool:
        """Return whether the history in a row is that of an earlier row of the same job."""
        return False

    def wants_last(self, job: Job) -> bool:
        """Return whether to read the history of a job that has just ended (`read_last`), because rows do not have
        it."""
        return False

    async def read_last(self, job_ids: Sequence[str], deadline: float) -> None:
        """Read the histories of jobs that have ended."""

    def look_up_size(self, count: int) -> int:
        """Return how many ids one call of `look_up` takes, if `count` ids must be looked up."""
        return 1

    def context(self) -> object:
        """Return the inputs of `translate` besides the row. If they change, all rows are translated again."""
        return None

    def timed(self, row: Row) -> Any:
        """The struct in a row whose field `duration` counts on while nothing else changes; None if there is none."""
        return None

    def duration(self, row: Row) -> float | None:
        """The duration that a row reports, in seconds."""
        return None

    def details(self, job: Job) -> Iterable[object]:
        """The objects to publish with a live job."""
        return ()

    def of_workspace(self) -> Iterable[object]:
        """The objects to publish with the workspace, where no collector lists workspaces."""
        return ()

    def history_of(self, job_id: str) -> Records | None:
        """The history in the row of a job of this poll; None if it has none."""
        return self._records.get(job_id)

    def settled(self) -> None:
        """Note that the registry has taken over `found`."""

    async def take(self, listing: Listing[Row], wanted: Callable[[Job], bool] | None = None) -> None:
        """Add jobs to `found`, or only those that are `wanted`."""
        self.part.dropped("malformed", listing.malformed)
        if (context := self.context()) != self.jobs.context:
            self.jobs.context, self.jobs.translated = context, {}
        for job_id, row in listing.rows.items():
            job, records = self._known_job(job_id, row) or self._new_job(job_id, row)
            if job is None or (wanted is not None and not wanted(job)):
                continue
            if job.workspace_id == self.workspace_id and self._is_free(job.job_id):
                self.found[job.job_id] = job
                if records is not None:
                    self._records[job.job_id] = records
            else:
                self.part.dropped("duplicate")  # another workspace's part shows it

    async def poll_live(self) -> bool:
        """Publish the live jobs. Returns whether `poll_ends` has anything to do."""
        await self.read_live()
        self._pending = self.jobs.missing(self.found)
        await self._publish(time.time(), pending=self._pending)
        return self.lists_ended or bool(self._pending)

    async def poll_ends(self) -> None:
        """Find out how jobs ended, and publish again if that is new.

        A call that fails is a failure next to the part: the live jobs stay published.
        """
        loop, now = asyncio.get_running_loop(), time.time()
        deadline = loop.time() + _FOR_ENDS * (self.part.deadline - loop.time())
        live = dict(self.found)
        is_complete = self.lists_ended and await self._read_ended(now, deadline)
        await self._look_up([job_id for job_id in self._pending if job_id not in self.found], deadline)
        if last := self._take_ended():
            await self.read_last(last, deadline)
        self._drop_taken()
        if is_complete:
            self.jobs.ends_known_until = now
        ended = self.jobs.ended
        changed = [job for job_id, job in self.found.items() if (was := live.get(job_id)) is not job and was != job]
        if self._pending or last or any(job.job_id not in ended or ended[job.job_id][0] != job for job in changed):
            await self._publish(now)
        self._record_ended(now)

    async def _publish(self, now: float, *, pending: Collection[str] = ()) -> None:
        registry, shared = self.shared.jobs, self.shared
        self._drop_taken()
        self.jobs.settle(
            self.found,
            now=now,
            began=shared.began,
            retention=shared.retention,
            unresolved=self._unresolved,
            pending=pending,
        )
        self._settled()
        registry.changed()
        histories, since = shared.histories, self.jobs.first_read_at or now
        shown: list[object] = []
        for job in list(self.jobs.jobs()):
            if (records := self._records.get(job.job_id)) is not None:
                histories.note(job.job_id, records)
            histories.count(job, since=since)
            if registry.wanted(job):
                shown.append(job)
                shown += histories.objects(job, now)
                if job.job_id in self.jobs.live:
                    shown += self.details(job)
        counts = [*self.of_workspace(), *self.jobs.live_counts(self.live_states), *self.jobs.finished_counts()]
        await self.part.publish([*counts, *shown])

    def _record_ended(self, now: float) -> None:
        """Report the jobs that have ended, each once."""
        shared, histories = self.shared, self.shared.histories
        for job in self.jobs.take_ended():
            if (records := self._records.get(job.job_id)) is not None:
                histories.note(job.job_id, records)
            histories.count(job, since=self.jobs.first_read_at or now)
            if shared.jobs.wanted(job):
                shared.record_end(histories.end(job, now))

    def _known_job(self, job_id: str, row: Row) -> tuple[Job, Records | None] | None:
        """The job and history of a row that differs from the last one in nothing but the duration, as most rows do.

        Translating them again would cost a third of such a poll.
        """
        row_before, job, records = self.jobs.translated.get(job_id, (None, None, None))
        now = self.timed(row)
        if row_before is None or job is None or now is None:
            return None
        before = self.timed(cast("Row", row_before))
        if before is None:
            return None
        duration, now.duration = now.duration, before.duration
        is_same = row == row_before
        now.duration = duration
        return (replace(job, duration=self.duration(row)), records) if is_same else None

    def _new_job(self, job_id: str, row: Row) -> tuple[Job | None, Records | None]:
        lost = UNUSABLE.get()
        lost_before = 0 if lost is None else lost.total()
        job = self.translate(row)
        row_before, _, records = self.jobs.translated.pop(job_id, (None, None, None))
        if job is None or records is None or not self.has_history_of(row, cast("Row", row_before)):
            records = None if job is None else self.records(row)
        if job is not None and (lost is None or lost.total() == lost_before):  # else losses count each time
            self.jobs.translated[job_id] = row, job, records
        return job, records

    def _take_ended(self) -> list[str]:
        """The ended jobs whose last history is read in this poll: so many that others are not held up."""
        waiting = self.jobs.to_read
        waiting |= dict.fromkeys(
            job.job_id for job in self.found.values() if self._has_just_ended(job) and self.wants_last(job)
        )
        taken = list(waiting)[:_LAST_AT_ONCE]
        for job_id in taken:
            del waiting[job_id]
        return taken

    def _has_just_ended(self, job: Job) -> bool:
        """Return whether a job ended since the last poll, and since the exporter's start."""
        if job.status not in FINISHED or job.holds_resources or job.job_id in self.jobs.ended:
            return False
        return job.finished is None or job.finished >= self.shared.began

    def _settled(self) -> None:
        self.settled()
        known = self.jobs.translated
        self.jobs.translated = {job_id: known[job_id] for job_id in self.jobs.live if job_id in known}

    async def _read_ended(self, now: float, deadline: float) -> bool:
        """Return whether the jobs that ended since the last such list could be read."""
        known = self.jobs.ends_unknown_since(now)
        # Before the first such list: for as long as jobs are shown, but for counts only from the start on.
        first = min(now - self.shared.retention, max(self.shared.began, now - LONGEST_GAP))
        start = min(first, now - _OVERLAP) if known is None else known - _OVERLAP
        try:
            await self.read_ended(start, now, deadline)
        except RequestRefused as error:  # the service may not know this query; ids can be looked up
            self.part.lacks(self.ends, error)
            return False
        except CloudError as error:
            self.part.failed(self.ends, error)
            return False
        return True

    async def _look_up(self, job_ids: Sequence[str], deadline: float) -> None:
        size = self.look_up_size(len(job_ids))
        for start in range(0, len(job_ids), size):
            asked = job_ids[start : start + size]
            try:
                listing = await self.look_up(asked, deadline)
            except CloudError as error:
                self.part.failed(self.ends, error)
                self._unresolved += asked
                continue
            rows = {key: row for key, row in listing.rows.items() if key in asked}
            await self.take(Listing(rows, listing.malformed))
            del listing, rows  # before the next call

    def _drop_taken(self) -> None:
        """Drop jobs that another workspace has taken. No await may follow until the registry has `found`."""
        for job_id in self.shared.jobs.taken(self.found.keys(), self.workspace_id):
            del self.found[job_id]
            self.part.dropped("duplicate")

    def _is_free(self, job_id: str) -> bool:
        if job_id in self.jobs.live and not self.jobs.expired:
            return True
        return self.shared.jobs.owner(job_id) in (None, self.workspace_id)
