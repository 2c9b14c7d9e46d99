"""Large workspaces, divided job by job among the shards of their provider.

A workspace above a configured size is listed by all of these shards, each of which shows its own jobs. Shards do not
communicate. All of them find the same size, because it no longer changes: how many jobs were created in 30 days that
ended a day before the last midnight (UTC).
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
from trainfleet_exporter.sharding import ShardAssignment

_DAY = 86400.0
_COUNTED_DAYS = 30.0
_REMEMBERED_JOBS = 100_000
_TIME_FOR_TODAY, _TIME_FOR_TOMORROW = 0.5, 0.1
"""The parts of a poll's time in which sizes are asked for; the rest is for the lists."""

CountCreated = Callable[[str, float, float, float], Awaitable[int]]
"""Counts the jobs of a workspace that were created between two Unix times; the last argument is a deadline (loop time).
"""


class WorkspaceAssignment:
    """The workspaces of one provider: which of them this shard lists, and which jobs of them it shows.

    `above` is `sharding.split_workspaces_above`; `count` asks the cloud.
    """

    def __init__(self, shard: ShardAssignment, *, above: int | None = None, count: CountCreated | None = None) -> None:
        self._shard = shard
        self._count = None if above is None or shard.is_whole else count
        self._above = above or 0
        self._divided: dict[str, bool] = {}
        """By workspace whose size is known, whether it is divided."""
        self._sizes: dict[str, dict[int, bool]] = {}
        """By workspace and day (of Unix time), whether it is divided on it."""
        self._sizing = asyncio.Lock()
        self._owns_job = lru_cache(_REMEMBERED_JOBS)(lambda job_id: shard.owns("job", job_id))

    @property
    def is_possible(self) -> bool:
        """Whether there may be workspaces that are divided."""
        return self._count is not None

    async def measure(self, poll: Poll, workspace_ids: Collection[str]) -> None:
        """Find out which workspaces are divided, by one call a day for each.

        Tomorrow's sizes are asked for today, so that all shards have a day to learn them, and change over at the same
        midnight. A failed call is reported, and repeated by the next poll. Until then the last size counts. A workspace
        whose size was never known is not shown.
        """
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
            self._divided = {}
            for key, sizes in self._sizes.items():
                if known := [day for day in sizes if day <= today]:
                    self._divided[key] = sizes[max(known)]
                    self._sizes[key] = {day: is_divided for day, is_divided in sizes.items() if day >= max(known)}

    async def _learn(self, poll: Poll, workspace_id: str, day: int, until: float) -> None:
        """Ask whether a workspace is divided on a day, if it is not later than `until` (loop time)."""
        assert self._count is not None
        end = (day - 1) * _DAY
        if asyncio.get_running_loop().time() > until:
            if not self._sizes[workspace_id]:
                poll.failed(
                    workspace_id,
                    DeadlineExceeded("the poll's deadline passed before the size of the workspace was known"),
                )
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

    def listed(self, workspace_ids: Iterable[str]) -> list[str]:
        """The workspaces whose jobs this shard lists and shows, all of them or some."""
        return [key for key in workspace_ids if self._is_listed(key)]

    def elsewhere(self, workspace_ids: Iterable[str]) -> list[str]:
        """The workspaces whose jobs other shards show."""
        return [key for key in workspace_ids if self._is_sized(key) and not self._is_listed(key)]

    def unsized(self, workspace_ids: Iterable[str]) -> list[str]:
        """The workspaces of which it is unknown whether they are divided: nothing of them is shown."""
        return [key for key in workspace_ids if not self._is_sized(key)]

    def shows(self, job: Job) -> bool:
        """Return whether this shard shows a job of a workspace that it lists."""
        return not self._divided.get(job.workspace_id, False) or self._owns_job(job.job_id)

    def to_look_up(self, jobs: WorkspaceJobs, found: Mapping[str, Job]) -> list[str]:
        """The ids to look up of jobs that are no longer in the list of live ones. The shard that counts how jobs end
        looks up all, others those that they show."""
        missing = jobs.missing(found)
        if self._shard.owns("workspace", jobs.workspace_id):
            return missing
        return [job_id for job_id in missing if (job := jobs.last_known(job_id)) is not None and self.shows(job)]

    def _is_sized(self, workspace_id: str) -> bool:
        return self._count is None or workspace_id in self._divided

    def _is_listed(self, workspace_id: str) -> bool:
        if not self._is_sized(workspace_id):
            return False
        return self._divided.get(workspace_id, False) or self._shard.owns("workspace", workspace_id)
