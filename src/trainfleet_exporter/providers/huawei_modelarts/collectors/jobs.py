"""Live jobs and the ends of jobs (v2 training-job-searches): one call for each 50 live jobs of a workspace.

How a job ended is asked by its id when it is no longer among the live ones: a search has no filter for the time of
an end. A job that began and ended between two polls is therefore seen in the counts of finished jobs only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.registry import WorkspaceJobs
from trainfleet_exporter.providers.sweeps import ReadEnds, deadline_for_ends, ends_of, jobs_elsewhere_sweep, jobs_sweep

_BY_ID_AT_ONCE = 10
"""How many values one filter takes."""
_AT_A_TIME = 100
"""Jobs that are translated, or made ready to show, in one turn of the loop: a millisecond's work."""
_KNOWN_PAIRS = tuple((translate.PHASE_STATUS[phase], phase) for phase in translate.LIVE_PHASES)


def jobs(shared: Shared, *, interval: float, retention: float, began: float, at_once: int) -> Sweep:
    """The collector. `retention` is how long a finished job is shown; `began` the Unix time of the start."""

    async def read(part: Part) -> ReadEnds | None:
        page = shared.book.workspace(part.key)
        sweep = _WorkspaceSweep(shared, part, page)
        now = time.time()
        await sweep.read_live()
        pending = shared.division.to_look_up(page, sweep.found)
        await settle(sweep, now, pending)

        async def read_ends() -> None:
            now = time.time()
            await sweep.read_ends(pending)
            await settle(sweep, now)

        return read_ends if pending else None

    async def settle(sweep: _WorkspaceSweep, now: float, pending: Collection[str] = ()) -> None:
        part, page = sweep.part, sweep.page
        sweep.leave_out_taken()
        page.settle(
            sweep.found, now=now, began=began, retention=retention, unresolved=sweep.unresolved, pending=pending
        )
        sweep.settle_tasks(pending)
        shared.book.changed()
        tasks = shared.tasks.get(part.key, {})
        shown: list[object] = []
        for number, job in enumerate(list(page.jobs()), start=1):
            if shared.book.wanted(job):
                shown.append(job)
                if job.job_id in page.live and job.job_id in tasks:
                    shown += translate.details(job.job_id, tasks[job.job_id])
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        if shared.division.own([part.key]):
            shown = [*page.live_counts(_KNOWN_PAIRS), *page.finished_counts(), *shown]
        await part.publish(shown)

    return jobs_sweep(shared, interval=interval, at_once=at_once, read=read)


def jobs_elsewhere(shared: Shared, *, interval: float, at_once: int) -> Sweep:
    """The collector of what AOM and queues tell of: live jobs in workspaces that other shards show.

    Cost a poll and workspace: one call for each 50 live jobs.
    """

    async def read(part: Part) -> None:
        page = shared.book.workspace(part.key)
        sweep = _WorkspaceSweep(shared, part, page)
        await sweep.read_live()
        page.enter(sweep.found)
        sweep.settle_tasks()
        shared.book.changed()
        await part.publish([])

    return jobs_elsewhere_sweep(shared, interval=interval, at_once=at_once, read=read)


class _WorkspaceSweep:
    """One workspace's live jobs and those that ended, each by the latest answer about it."""

    def __init__(self, shared: Shared, part: Part, page: WorkspaceJobs) -> None:
        self._shared = shared
        self.part = part
        self.page = page
        self._tasks: dict[str, translate.JobTasks] = {}
        self._unplaced: list[str] = []
        """The jobs whose rows do not say which workspace they are in."""
        self.found: dict[str, Job] = {}
        self.unresolved: list[str] = []
        """The jobs that are not live any more, and whose look-up failed."""

    async def read_ends(self, missing: Sequence[str]) -> None:
        """What became of jobs that are not live any more, as far as that can be read."""
        deadline = deadline_for_ends(self.part)
        for start in range(0, len(missing), _BY_ID_AT_ONCE):
            asked = missing[start : start + _BY_ID_AT_ONCE]
            try:
                listing = await self._search("id", asked, deadline)
            except CloudError as error:
                self.part.failed(ends_of(self.part), error)
                self.unresolved += asked
                continue
            rows = {key: row for key, row in listing.rows.items() if key in asked}
            await self._take(Listing(rows, listing.malformed))
            del listing, rows  # before the next call

    async def read_live(self) -> None:
        """Every live job."""
        await self._take(await self._search("phase", translate.LIVE_PHASES, self.part.deadline))

    async def _search(self, key: str, values: Sequence[str], deadline: float) -> Listing[payloads.Job]:
        filters = [(key, "in", values)]
        return await self._shared.api.search_jobs(self.page.workspace_id, filters, deadline=deadline)

    async def _take(self, listing: Listing[payloads.Job]) -> None:
        self.part.dropped("malformed", listing.malformed)
        here = self.page.workspace_id
        for number, (job_id, row) in enumerate(listing.rows.items(), start=1):
            job = translate.job(row, here)
            if job is not None:
                if job.workspace_id == here and self._is_free(job_id):
                    self.found[job_id] = job
                    self._tasks[job_id] = translate.tasks(row)
                    if row.metadata is not None and not row.metadata.workspace_id:
                        self._unplaced.append(job_id)
                else:
                    self.part.dropped("duplicate")  # another workspace's part shows it
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)

    def settle_tasks(self, pending: Collection[str] = ()) -> None:
        """Share the tasks of the jobs that were found, and as they were last those of jobs that are looked up next."""
        here, known = self.page.workspace_id, self._shared.tasks
        before = known.get(here, {})
        tasks = {job_id: before[job_id] for job_id in pending if job_id in before}
        known[here] = tasks | {job_id: self._tasks[job_id] for job_id in self.found}
        for gone in known.keys() - self._shared.workspace_ids:
            del known[gone]

    def leave_out_taken(self) -> None:
        """Leave out what another workspace's sweep has taken meanwhile."""
        unplaced = self.found.keys() & self._unplaced
        for job_id in self._shared.book.taken(unplaced, self.page.workspace_id):
            del self.found[job_id]
            self.part.dropped("duplicate")

    def _is_free(self, job_id: str) -> bool:
        if job_id in self.page.live and not self.page.expired:
            return True
        return self._shared.book.owner(job_id) in (None, self.page.workspace_id)
