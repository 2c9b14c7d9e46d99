"""Live jobs and the ends of jobs (DLC ListJobs): a sweep of every live status in each workspace.

Cost a poll and workspace: one call for each of the ten live statuses and each further 100 jobs in it, one for what
finished since the last poll, and a few for the jobs that are in neither. Live jobs of all workspaces are shown before
the calls for finished ones, and whatever becomes of these.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from trainfleet_exporter.errors import CloudError, NotFound, RequestRefused
from trainfleet_exporter.model import FINISHED, Job, Status
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.alibaba_pai import payloads, translate
from trainfleet_exporter.providers.alibaba_pai.api import PAGE_SIZE
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import EVER, Shared
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.registry import WorkspaceJobs
from trainfleet_exporter.providers.sweeps import ReadEnds, deadline_for_ends, ends_of, jobs_elsewhere_sweep, jobs_sweep
from trainfleet_exporter.quantities import iso_time
from trainfleet_exporter.transport import Priority

_OVERLAP = 600.0
"""How far each look for finished jobs reaches back behind the last one: an ending may be listed late."""
_BY_ID_ONE_BY_ONE = 10
"""Up to so many missing jobs are asked for by GetJob, which is exact; more of them in lists by id."""
_BY_ID_AT_ONCE = 50
_TESTED = 1_000
"""Jobs that are put to the config's filter between two yields to the event loop: about half a millisecond."""

# Every pair of words that a live job can show, so that each has a series from the start, 0 included.
_KNOWN_PAIRS = (
    *((translate.job_status(word), word) for word in ("Created", "Dequeued", *translate.LIVE_STATUSES)),
    (Status.RESTARTING, "Running"),
)


_TOLD_OF = ("Queuing", "Running", "Restarting", "Stopping")
"""What jobs are that use something or wait in a queue."""


def jobs(shared: Shared, *, interval: float, retention: float, began: float, at_once: int) -> Sweep:
    """The collector. `retention` is how long a finished job is shown; `began` the Unix time of the start."""

    async def read(part: Part) -> ReadEnds:
        page = shared.book.workspace(part.key)
        sweep = _WorkspaceSweep(shared, part, page)
        pending = await sweep.read()
        page.settle(sweep.found, now=time.time(), began=began, retention=retention, pending=pending)
        await show(part, page)

        async def read_ends() -> None:
            now = time.time()
            is_new = await sweep.read_ends(pending, since=now - max(retention, _OVERLAP))
            if sweep.knows_ends:
                page.ends_known_until = now
            if is_new:
                page.settle(sweep.found, now=now, began=began, retention=retention, unresolved=sweep.unresolved)
                await show(part, page)

        return read_ends

    async def show(part: Part, page: WorkspaceJobs) -> None:
        shared.book.changed()
        shown: list[Job] = []
        for place, job in enumerate(list(page.jobs()), start=1):
            if not place % _TESTED:
                await asyncio.sleep(0)
            if shared.book.wanted(job):
                shown.append(job)
        counts: list[object] = []
        if shared.division.own([part.key]):
            counts = [*page.live_counts(_KNOWN_PAIRS), *page.finished_counts()]
        await part.publish([*counts, *shown])

    return jobs_sweep(shared, interval=interval, at_once=at_once, read=read)


def jobs_elsewhere(shared: Shared, *, interval: float, at_once: int) -> Sweep:
    """The collector of what CloudMonitor and queues tell of: live jobs in workspaces that other shards show.

    Cost a poll and workspace: one call for each status of `_TOLD_OF`, and each further 100 jobs in it.
    """

    async def read(part: Part) -> None:
        page = shared.book.workspace(part.key)
        found = await _WorkspaceSweep(shared, part, page).read_live(_TOLD_OF)
        page.enter(found)
        shared.book.changed()
        await part.publish([])

    return jobs_elsewhere_sweep(shared, interval=interval, at_once=at_once, read=read)


class _WorkspaceSweep:
    """One workspace's live jobs and those that ended, each by the latest answer about it."""

    def __init__(self, shared: Shared, part: Part, page: WorkspaceJobs) -> None:
        self._shared = shared
        self._part = part
        self._page = page
        self.found: dict[str, Job] = {}
        """All live jobs by id; after `read_ends` those that ended too, as far as these could be read."""
        self.knows_ends = False
        """Whether the list of finished jobs could be read."""
        self.unresolved: list[str] = []
        """The jobs that are not live any more, and whose look-up failed."""

    async def read(self) -> list[str]:
        """Read the live jobs; the ids of those that were live, and whose ends are to be asked for."""
        await self.read_live(translate.LIVE_STATUSES)
        pending = self._shared.division.to_look_up(self._page, self.found)
        self._leave_taken()
        return pending

    async def read_ends(self, pending: Collection[str], *, since: float) -> bool:
        """Find out how jobs ended; whether anything is new. `since` is from when on endings are looked for at the first
        poll (Unix seconds)."""
        deadline = deadline_for_ends(self._part)
        live = dict(self.found)
        await self._read_finished(since, deadline)
        await self._look_up([job_id for job_id in pending if job_id not in self.found], deadline)
        self._leave_taken()
        ended = self._page.ended
        new = [job for job_id, job in self.found.items() if (was := live.get(job_id)) is not job and was != job]
        return bool(pending) or any(job.job_id not in ended or ended[job.job_id][0] != job for job in new)

    def _leave_taken(self) -> None:
        """Leave out what another workspace's sweep has taken meanwhile; nothing is waited for before the page is
        settled."""
        for job_id in self._shared.book.taken(self.found.keys(), self._page.workspace_id):
            del self.found[job_id]
            self._part.dropped("duplicate")

    async def _read_finished(self, since: float, deadline: float) -> None:
        """The jobs that finished since the last list of them."""
        now = time.time()
        known = self._page.ends_unknown_since(now)
        start = since if known is None else known - _OVERLAP
        finished = {"TimeRangeField": "GmtFinishTime", "StartTime": iso_time(start), "EndTime": iso_time(now)}
        try:
            listing = await self._list(finished, deadline, breaker=" finished")
        except RequestRefused as error:  # the time range may not be served: the ids of missing jobs are
            self._part.lacks(ends_of(self._part), error)
            return
        except CloudError as error:
            self._part.failed(ends_of(self._part), error)
            return
        await self._take(listing, only_finished=True)
        self.knows_ends = True

    async def read_live(self, statuses: Sequence[str]) -> dict[str, Job]:
        """The live jobs by id that are of these statuses."""
        for status in statuses:
            listing = await self._list({"Status": status, "StartTime": EVER}, self._part.deadline)
            await self._take(listing, asked_status=status)
            del listing  # before the next call
        return self.found

    async def _list(self, query: dict[str, str], deadline: float, *, breaker: str = "") -> Listing[payloads.Job]:
        query = {"WorkspaceId": self._page.workspace_id, **query}
        return await self._shared.api.list_jobs(query, deadline=deadline, breaker=breaker)

    async def _take(
        self, listing: Listing[payloads.Job], *, asked_status: str = "", only_finished: bool = False
    ) -> None:
        self._part.dropped("malformed", listing.malformed)
        if any(map(translate.needs_ecs_specs, listing.rows.values())):
            await self._shared.ecs_specs.have(self._part)
        here, book = self._page.workspace_id, self._shared.book
        models, machines = self._shared.pool_models, self._shared.ecs_specs.known
        for place, row in enumerate(listing.rows.values(), start=1):
            if place % PAGE_SIZE == 0:
                await asyncio.sleep(0)
            job = translate.job(
                row, asked_status=asked_status, workspace_id=here, pool_models=models, ecs_specs=machines
            )
            if job is None:
                continue
            if only_finished and job.status not in FINISHED:
                continue  # where the time range is taken for that of creation, the list holds others as well
            is_ours = job.job_id in self._page.live and not self._page.expired
            if job.workspace_id != here or not (is_ours or book.owner(job.job_id) in (None, here)):
                self._part.dropped("duplicate")  # another workspace's part shows it
                continue
            self.found[job.job_id] = job

    async def _look_up(self, missing: list[str], deadline: float) -> None:
        """Ask by id for jobs that were live and are in no list. Those that are found nowhere are left out."""
        if len(missing) <= _BY_ID_ONE_BY_ONE:
            for job_id in missing:
                try:
                    row = await self._shared.api.get_job(
                        job_id, payloads.Job, deadline=deadline, priority=Priority.SWEEP
                    )
                except NotFound:
                    continue
                except CloudError as error:
                    self._unresolved([job_id], error)
                    continue
                was = self._page.last_known(job_id)
                if was is not None and row.username is None:
                    row = replace(row, username=was.user_name)  # only lists name the user
                await self._take(Listing({job_id: row}))
            return
        for start in range(0, len(missing), _BY_ID_AT_ONCE):
            asked = missing[start : start + _BY_ID_AT_ONCE]
            try:
                listing = await self._list({"JobIds": ",".join(asked), "StartTime": EVER}, deadline)
            except CloudError as error:
                self._unresolved(asked, error)
                continue
            found = {key: row for key, row in listing.rows.items() if key in asked}
            await self._take(Listing(found, listing.malformed))

    def _unresolved(self, job_ids: list[str], error: CloudError) -> None:
        """Note jobs whose look-up failed."""
        self._part.failed(ends_of(self._part), error)
        self.unresolved += job_ids
