"""What the collectors of one provider know together between polls: its workspaces and its jobs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

from trainfleet_exporter.errors import NotReady
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.providers.division import Division
from trainfleet_exporter.providers.jobs.registry import JobRegistry

_PATIENCE = 0.25
"""The part of its time that a poll waits for a list that lacked something; the rest is for what can do without."""


class ReadCount(NamedTuple):
    """Of how many workspaces jobs were read, of how many that were wanted."""

    read: int
    wanted: int


NONE_WANTED, NONE_READ = ReadCount(0, 0), ReadCount(0, 1)

_TOGETHER = 1.0
"""Seconds within which polls that are due together have begun, in an order that nobody promises."""


class Groundwork:
    """Lets collectors wait for the one that they build on: for its first poll, and after a bad one for the next.

    Else, when what they build on fails and then recovers, they would fail for it one interval longer. A poll that hangs
    holds up whoever waits: for long only where nothing can be done without it.
    """

    def __init__(self) -> None:
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()
        self._was_polled = False
        self._is_good = False
        self._is_whole = False

    def begin(self) -> None:
        """A poll begins."""
        self._begun.set()
        if not self._is_whole:
            self._ended.clear()

    def done(self, *, good: bool, whole: bool | None = None) -> None:
        """It ended, and what is built on it is known, or not; and if so, all of it, or not."""
        self._begun.clear()
        self._was_polled = True
        self._is_good = good
        self._is_whole = good if whole is None else whole
        self._ended.set()

    async def wait(self, patience: float = 0.0, *, needed: bool = True) -> None:
        """Wait for the first poll, or for one that is under way after a bad one; the caller's deadline bounds this.

        Where the last one only lacked something, or is not `needed` for everything, wait `patience` seconds at most.
        """
        if self._was_polled and not self._is_whole:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TOGETHER):
                    await self._begun.wait()
        with contextlib.suppress(TimeoutError):
            is_patient = self._is_good or (self._was_polled and not needed)
            async with asyncio.timeout(patience if is_patient else None):
                await self._ended.wait()


class Knowledge:
    """Kept by the collectors that read it, waited for by those that build on it."""

    def __init__(self, book: JobRegistry, division: Division | None = None) -> None:
        self.book = book
        self.division = Division() if division is None else division
        self.workspace_ids: tuple[str, ...] = ()
        """By the last list that could be read."""
        self.workspaces_known = False
        """Whether the latest poll of workspaces could read them."""
        self.jobs_known = False
        """Whether the latest poll of jobs could read those of some workspace (or there is none)."""
        self.elsewhere_known = True
        """The same of the jobs that other shards show."""
        self.jobs_read, self.elsewhere_read = NONE_READ, NONE_WANTED
        """Of how many workspaces the latest poll of each read the jobs."""
        self.workspaces_polled = Groundwork()
        self.jobs_polled = Groundwork()
        self.elsewhere_polled: Groundwork | None = None
        """Of the jobs that others show; None where nobody asks for them."""

    async def workspaces(self) -> tuple[str, ...]:
        """The ids of the workspaces to poll. Raises NotReady where none is known for want of an answer."""
        if not self.workspace_ids:
            await self.workspaces_polled.wait()
        if not self.workspace_ids and not self.workspaces_known:
            raise NotReady("the list of workspaces could not be read")
        return self.workspace_ids

    async def own_workspaces(self) -> Sequence[str]:
        """The ids of the workspaces whose counts are shown here. Raises NotReady as `workspaces` does."""
        return self.division.own(await self.workspaces())

    async def jobs_first(self, poll: Poll, *, needed: bool = True) -> None:
        """Wait for the first poll of jobs, or for the one after a bad one (polling.Rolling.begin).

        Where jobs are not `needed` for all that the poll reads, a bad one is waited for as one that lacked something.
        """
        patience = _PATIENCE * (poll.deadline - asyncio.get_running_loop().time())
        await self.jobs_polled.wait(patience, needed=needed)

    async def all_jobs_first(self, poll: Poll, *, needed: bool = True) -> None:
        """The same, where the jobs that others show are to be known as well."""
        await self.jobs_first(poll, needed=needed)
        if self.elsewhere_polled is not None:
            patience = _PATIENCE * (poll.deadline - asyncio.get_running_loop().time())
            await self.elsewhere_polled.wait(patience, needed=needed)

    async def all_jobs_soon(self, deadline: float) -> None:
        """The same for what can do without jobs, in a poll that ends at `deadline` (on the loop's clock): even the
        first poll of jobs is waited for only so long."""
        patience = _PATIENCE * (deadline - asyncio.get_running_loop().time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.jobs_polled.wait(patience, needed=False)
                if self.elsewhere_polled is not None:
                    await self.elsewhere_polled.wait(patience, needed=False)

    def listed_jobs(self) -> Collection[Job]:
        """The live jobs that have series of their own, whoever shows them. Raises NotReady where the latest polls of
        jobs, here and elsewhere, read none together: one workspace that fails takes no others along."""
        if not self.jobs_read.read + self.elsewhere_read.read and self.jobs_read.wanted + self.elsewhere_read.wanted:
            raise NotReady("the list of jobs could not be read")
        return self.book.listed().values()

    def live_jobs(self) -> Collection[Job]:
        """The live jobs that have series of their own. Raises NotReady where the latest poll of jobs read none."""
        if not self.jobs_known:
            raise NotReady("the list of jobs could not be read")
        return self.book.live().values()
