"""The collectors of jobs, for every cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from trainfleet_exporter.errors import DeadlineExceeded
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import BulkCollector, Part, PerObjectCollector, Poll
from trainfleet_exporter.providers.jobs.reader import JobReader
from trainfleet_exporter.providers.jobs.shared import Shared

_HISTORIES = "histories"
"""The part with counts over all workspaces: faults of nodes, and waits by pool."""
_FOR_LIVE = 0.8
"""The part of a poll's time in which live jobs are listed; the rest is for how jobs ended."""


class JobsCollector(BulkCollector):
    """Live jobs and how jobs end, one part for each workspace. `reader` makes the cloud's JobReader of a part."""

    def __init__(self, shared: Shared, interval: float, reader: Callable[[Part], JobReader[Any, Any]]) -> None:
        super().__init__("jobs", interval)
        self._shared = shared
        self._reader = reader

    async def poll(self, poll: Poll) -> None:
        """Publish the live jobs of all workspaces, then find out how others ended, so that no live job waits for it."""
        shared, registry = self._shared, self._shared.jobs
        readers: dict[str, JobReader[Any, Any]] = {}
        now = asyncio.get_running_loop().time()
        until = now + _FOR_LIVE * (poll.deadline - now)

        async def read_live(part: Part) -> None:
            if asyncio.get_running_loop().time() > until:
                raise DeadlineExceeded("not read before the poll's deadline")
            reader = self._reader(part)
            if await reader.poll_live():
                readers[reader.ends] = reader

        with registry.here.polling():
            workspace_ids = await shared.workspaces.get()
            poll.keep_only([*workspace_ids, _HISTORIES])
            registry.keep_only(workspace_ids)
            # The longest unread first: if a poll has no time for all, all of them have their turn.
            ordered = sorted(workspace_ids, key=lambda key: registry.workspace(key).read_at)
            read = await poll.read_each(ordered, read_live, at_once=shared.at_once)
            is_whole = len(read) == len(workspace_ids)
            registry.here.publish(frozenset(read), known=bool(read) or is_whole, whole=is_whole)
        await poll.read_each(readers, lambda part: readers[part.key].poll_ends(), at_once=shared.at_once)
        wall_clock = shared.now()
        shared.histories.keep_only(registry.known_ids(), wall_clock)
        if read and (fleet := shared.histories.fleet(wall_clock)):
            async with poll.part(_HISTORIES) as part:
                await part.publish(fleet)

    def expired(self, key: str) -> None:
        """Forget a workspace's live jobs."""
        if key != _HISTORIES:
            self._shared.jobs.expire(key)


class PerJobCollector(PerObjectCollector):
    """Live jobs that are polled one by one."""

    def __init__(self, name: str, shared: Shared, interval: float) -> None:
        super().__init__(name, interval, workers=shared.at_once)
        self._jobs = shared.jobs

    async def begin(self, poll: Poll) -> None:
        """Wait for the live jobs."""
        await self._jobs.wait(poll.deadline)

    def serves(self, job: Job) -> bool:
        """Return whether to poll a live job."""
        return True

    def is_current(self, object_id: str) -> bool:
        """Return whether the job is live, and to be polled."""
        job = self._jobs.live().get(object_id)
        return job is not None and self.serves(job)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever the live jobs changed."""
        self._jobs.watch(callback)
