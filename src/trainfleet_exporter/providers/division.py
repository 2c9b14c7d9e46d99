"""What of one provider is polled here, where several exporters share the work (see `sharding`).

    asked for the whole account: lists, bulk usage, queues of pools     the home
    asked for a workspace: its jobs, their pods, its counts             the shard that owns the workspace
    asked for a pool: its monitor, its nodes                            the shard that owns the pool

Others look at the lists of workspaces and pools now and then, to know what there is. Bulk usage and queues tell of jobs
of all workspaces: the home lists those that live in workspaces of others, and shows nothing else of them.

A workspace above a configured size is listed by all shards of its provider, each of which shows its own jobs. Shards do
not talk to each other. So that all of them find the same size, it is that of something that does not change any more:
how many jobs were created in 30 days that ended a day before the last midnight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import lru_cache

from trainfleet_exporter.errors import CloudError, DeadlineExceeded
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.providers.jobs.registry import WorkspaceJobs
from trainfleet_exporter.sharding import ALL, Share

_DAY = 86400.0
_COUNTED_DAYS = 30.0
_LOOK_EVERY = 15
"""So many polls of the home pass between two looks of another shard at a list: at four shards of a provider that is one
call more for five."""
_REMEMBERED = 100_000
_TIME_FOR_TODAY, _TIME_FOR_TOMORROW = 0.5, 0.1
"""The parts of a poll's time in which sizes are asked for; the rest is for the lists."""

CountCreated = Callable[[str, float, float, float], Awaitable[int]]
"""How many jobs of a workspace were created from one Unix time to another; at last a deadline (loop time)."""


class Division:
    """One provider's. `above` is `sharding.split_workspaces_above`; `count` asks the cloud."""

    def __init__(
        self, share: Share | None = None, *, above: int | None = None, count: CountCreated | None = None
    ) -> None:
        self.share = ALL if share is None else share
        self._count = None if above is None or self.share.is_whole else count
        self._above = above or 0
        self._split: dict[str, bool] = {}
        """By workspace whose size is known, whether it is divided."""
        self._sizes: dict[str, dict[int, bool]] = {}
        """By workspace and day (of Unix time), whether it is divided on it."""
        self._sizing = asyncio.Lock()
        self._owns_job = lru_cache(_REMEMBERED)(self._look_up_owner)

    @property
    def is_whole(self) -> bool:
        """Whether all of the provider is polled here."""
        return self.share.is_whole

    @property
    def is_home(self) -> bool:
        """Whether what is asked for the whole account is asked here."""
        return self.share.is_home

    @property
    def splits_workspaces(self) -> bool:
        """Whether there may be workspaces that are divided job by job."""
        return self._count is not None

    async def measure(self, poll: Poll, workspace_ids: Collection[str]) -> None:
        """Know which workspaces are divided. One call a day for each, and in good time: tomorrow's sizes are asked for
        today, so that all shards have a day to learn them, and change over at the same midnight. One that failed is
        told, and tried again by the next poll; where that was in vain, the last size counts, or nothing of the
        workspace is shown for want of one."""
        if self._count is None:
            return
        async with self._sizing:
            self._sizes = {key: self._sizes.get(key, {}) for key in workspace_ids}
            today = int(time.time() // _DAY)
            began = asyncio.get_running_loop().time()
            for day, part in ((today, _TIME_FOR_TODAY), (today + 1, _TIME_FOR_TOMORROW)):
                until = began + part * (poll.deadline - began)
                for key in workspace_ids:
                    if day not in self._sizes[key]:
                        await self._learn(poll, key, day, until)
            self._split = {}
            for key, sizes in self._sizes.items():
                if known := [day for day in sizes if day <= today]:
                    self._split[key] = sizes[max(known)]
                    self._sizes[key] = {day: is_split for day, is_split in sizes.items() if day >= max(known)}

    async def _learn(self, poll: Poll, workspace_id: str, day: int, until: float) -> None:
        """Ask for the size by which a workspace is divided on a day, if it is not later than `until`."""
        assert self._count is not None
        end = (day - 1) * _DAY
        if asyncio.get_running_loop().time() > until:
            if not self._sizes[workspace_id]:
                poll.failed(workspace_id, DeadlineExceeded("there was no time to ask how large the workspace is"))
            return
        try:
            size = await self._count(workspace_id, end - _COUNTED_DAYS * _DAY, end, poll.deadline)
        except CloudError as error:
            if not self._sizes[workspace_id]:
                poll.failed(workspace_id, error)
            else:
                poll.lacks(f"size of workspace {workspace_id}", error)
            return
        self._sizes[workspace_id][day] = size > self._above

    def own(self, workspace_ids: Iterable[str]) -> list[str]:
        """The workspaces whose counts are shown here."""
        return [key for key in workspace_ids if self.share.owns("workspace", key)]

    def swept(self, workspace_ids: Iterable[str]) -> list[str]:
        """The workspaces whose jobs are listed and shown here, all of them or some."""
        return [key for key in workspace_ids if self._is_swept(key)]

    def elsewhere(self, workspace_ids: Iterable[str]) -> list[str]:
        """The workspaces whose jobs others show."""
        return [key for key in workspace_ids if self._is_known(key) and not self._is_swept(key)]

    def unsized(self, workspace_ids: Iterable[str]) -> list[str]:
        """The workspaces of which it is not known whether they are divided: nothing of them is shown."""
        return [key for key in workspace_ids if not self._is_known(key)]

    def pools(self, pool_ids: Iterable[str]) -> list[str]:
        """The pools that are asked about here."""
        return [key for key in pool_ids if self.share.owns("pool", key)]

    def is_mine(self, job: Job) -> bool:
        """Whether a job of a workspace that is swept here is shown here."""
        return not self._split.get(job.workspace_id, False) or self._owns_job(job.job_id)

    def to_look_up(self, page: WorkspaceJobs, found: Mapping[str, Job]) -> list[str]:
        """Of the jobs that left a workspace's lists the ids of those that are to be asked for by their id: who counts
        how jobs end asks for all, others for those that they show."""
        missing = page.missing(found)
        if self.share.owns("workspace", page.workspace_id):
            return missing
        return [job_id for job_id in missing if (job := page.last_known(job_id)) is not None and self.is_mine(job)]

    def _is_known(self, workspace_id: str) -> bool:
        return self._count is None or workspace_id in self._split

    def _is_swept(self, workspace_id: str) -> bool:
        if not self._is_known(workspace_id):
            return False
        return self._split.get(workspace_id, False) or self.share.owns("workspace", workspace_id)

    def _look_up_owner(self, job_id: str) -> bool:
        return self.share.owns("job", job_id)


class Look:
    """When a shard that is not the home looks at a list again: seldom, or at once after a bad look."""

    def __init__(self, interval: float) -> None:
        self._every = _LOOK_EVERY * interval
        self._next = float("-inf")

    def is_due(self) -> bool:
        """Whether it is time to."""
        return asyncio.get_running_loop().time() >= self._next

    def done(self) -> None:
        """The list was read, as a whole."""
        self._next = asyncio.get_running_loop().time() + self._every - 1.0  # polls come a little early at times
