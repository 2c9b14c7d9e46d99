"""Makes the exporter poll while it holds the lease, and stand by while another exporter does.

lease lost ──► no provider on the page, at once ──► end polls, close connections
lease held ──► build all providers ──► show and poll them, as at a start
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.app.plan import Member, bases
from trainfleet_exporter.lease import Elector, KubernetesLease, Role, identity
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.threads import DaemonThreadExecutor

log = logging.getLogger(__name__)

_END_SECONDS = 5.0
"""Seconds to wait for the polls of a lost lease. They begin no call, and what they publish later is ignored."""
_READ_SECONDS = 30.0
"""Seconds in which the files of the config must be read."""


class Standby:
    """One exporter's part in the election for a lease, and what follows from it."""

    def __init__(self, lease: KubernetesLease) -> None:
        self.elector = Elector(lease, identity(), self._changed)
        self._lease = lease
        self._election: asyncio.Task[None] | None = None
        self._begins: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.Task[None]] = set()

    @property
    def words(self) -> str:
        """The notice for readers of the status page; empty while this exporter polls."""
        if self.elector.role is Role.LEADER:
            return ""
        if self.elector.role is Role.UNDECIDED:
            return "This exporter waits for the lease. It does not poll yet."
        words = f"This exporter is on standby and does not poll. The lease is held by {self.elector.holder or 'none'}."
        return words if self.elector.may_take else f"{words} This exporter cannot take the lease; see its log."

    def start(self, exporter: Exporter, schedule: Schedule, *, turn: asyncio.Lock, end: Callable[[], None]) -> None:
        """Take part in the election. `turn` is held by what changes the exporter's providers, such as a reload. `end`
        ends the process, if the exporter cannot poll although it holds the lease."""
        self._exporter, self._schedule, self._turn, self._end = exporter, schedule, turn, end
        self._election = asyncio.create_task(self.elector.run())

    async def stop(self) -> None:
        """Begin no polls any more. A lease that is held stays so until `resign`."""
        tasks = [task for task in (self._election, *self._begins) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def resign(self) -> None:
        """Release the lease, when all polls have ended."""
        if self._ends:
            await asyncio.wait(self._ends)
        await self.elector.resign()
        await self._lease.aclose()

    def _changed(self, leads: bool) -> None:
        if leads:
            _keep(self._begins, self._begin(self.elector.term))
        else:
            _keep(self._ends, self._leave(self._exporter.stand_by()))

    async def _leave(self, gone: list[Member]) -> None:
        runners = [runner for member in gone for runner in member.runners]
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._schedule.remove(runners)
                await asyncio.gather(*(member.provider.aclose() for member in gone))
        except TimeoutError:
            log.warning("polls of a lost lease did not end in time", extra=fields(seconds=_END_SECONDS))

    async def _begin(self, term: int) -> None:
        try:
            async with self._turn:
                if self._ends:  # the polls of the term before
                    await asyncio.wait(self._ends, timeout=2 * _END_SECONDS)
                await self._poll(term)
        except Exception:
            log.critical("cannot poll with the lease; the exporter exits", exc_info=True)
            self._end()

    async def _poll(self, term: int) -> None:
        exporter = self._exporter
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_READ_SECONDS):
            given = await loop.run_in_executor(DaemonThreadExecutor(), bases, exporter.config)
        if not self._holds(term):
            return
        plan = await exporter.prepare(exporter.config, given)
        if not self._holds(term):
            await exporter.discard(plan)
            return
        exporter.stands_by = False
        exporter.apply(plan)
        self._schedule.add(runner for member in plan.fresh for runner in member.runners)

    def _holds(self, term: int) -> bool:
        return self.elector.role is Role.LEADER and self.elector.term == term  # a late renewal may still be answered


def _keep(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
