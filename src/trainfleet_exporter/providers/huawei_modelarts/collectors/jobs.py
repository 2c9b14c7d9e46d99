"""Live jobs and the ends of jobs (v2 training-job-searches): one call for each 50 live jobs of a workspace.

How a job ended is asked by its id when it is no longer among the live ones: a search has no filter for the time of
an end. A job that began and ended between two polls is therefore seen in the counts of finished jobs only.
"""

from __future__ import annotations

import time
from dataclasses import replace

from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.book import WorkspaceJobs
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.listing import Listing
from trainfleet_exporter.providers.sweeps import jobs_sweep
from trainfleet_exporter.quantities import mapping, text

_BY_ID_AT_ONCE = 10
"""How many values one filter takes."""
_KNOWN_PAIRS = tuple((translate.PHASE_STATUS[phase], phase) for phase in translate.LIVE_PHASES)


def jobs(shared: Shared, *, interval: float, retention: float, began: float, at_once: int) -> Sweep:
    """The collector. `retention` is how long a finished job is shown; `began` the Unix time of the start."""

    async def read(part: Part) -> None:
        page = shared.book.workspace(part.key)
        sweep = _WorkspaceSweep(shared, part, page)
        now = time.time()
        await sweep.read()
        page.settle(sweep.found, now=now, began=began, retention=retention)
        page.ends_known_until = now
        shared.tasks[part.key] = {
            job_id: tuple(translate.tasks(row)) for job_id, row in sweep.rows.items() if job_id in page.live
        }
        shared.book.changed()
        shown: list[object] = []
        for job in page.jobs():
            if shared.book.wanted(job):
                shown.append(job)
                if job.job_id in page.live and job.job_id in sweep.rows:
                    shown += translate.detail(sweep.rows[job.job_id])
        await part.publish([*page.live_counts(_KNOWN_PAIRS), *page.finished_counts(), *shown])

    return jobs_sweep(shared, interval=interval, at_once=at_once, read=read)


class _WorkspaceSweep:
    """One workspace's live jobs and those that ended, each by the latest answer about it, and their rows."""

    def __init__(self, shared: Shared, part: Part, page: WorkspaceJobs) -> None:
        self._shared = shared
        self._part = part
        self._page = page
        self.found: dict[str, Job] = {}
        self.rows: dict[str, dict[str, object]] = {}

    async def read(self) -> None:
        """Every live job, and what became of those that were live at the last poll."""
        self._take(await self._search("phase", translate.LIVE_PHASES))
        missing = self._page.missing(self.found)
        for start in range(0, len(missing), _BY_ID_AT_ONCE):
            asked = missing[start : start + _BY_ID_AT_ONCE]
            listing = await self._search("id", asked)
            self._take(Listing({key: row for key, row in listing.rows.items() if key in asked}, listing.malformed))

    async def _search(self, key: str, values: tuple[str, ...] | list[str]) -> Listing:
        filters = [(key, "in", values)]
        return await self._shared.api.search_jobs(self._page.workspace_id, filters, deadline=self._part.deadline)

    def _take(self, listing: Listing) -> None:
        self._part.dropped("malformed", listing.malformed)
        here = self._page.workspace_id
        for row in listing.rows.values():
            job = translate.job(row)
            if job is None:
                continue
            workspace_id = text(mapping(row, "metadata"), "workspace_id")
            if workspace_id not in ("", here) or self._shared.book.owner(job.job_id) not in (None, here):
                self._part.dropped("duplicate")  # another workspace's part shows it
                continue
            self.found[job.job_id] = job if job.workspace_id else replace(job, workspace_id=here)
            self.rows[job.job_id] = row
