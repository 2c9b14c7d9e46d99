"""Reading the config again while everything runs.

    read and check ─► build what is new ─► end the polls of what goes ─► swap, in one go ─► close what went
          │                  │
          └──── faults ──────┴──► said, counted, and nothing else happens

One at a time. Whoever asks while one waits for its turn shares that one, which has not read the file yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from trainfleet_exporter.aside import Aside
from trainfleet_exporter.config import Config
from trainfleet_exporter.errors import ConfigError, OperatorError, StartError
from trainfleet_exporter.exporter import Exporter
from trainfleet_exporter.plan import Basis, Plan, bases
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.state import StateFile
from trainfleet_exporter.transport.state_file import Spent, read_state

log = logging.getLogger(__name__)

_READ_SECONDS = 30.0
"""How long a file, or the file system that it is on, may take to be read."""
_END_SECONDS = 5.0
"""How long the polls of what goes are waited for; what they still say after that is not heard."""
_CLOSE_SECONDS = 2.0
"""How long the closing of what went is waited for; after that it goes on by itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a reload went, in lines for whoever asked for it."""

    success: bool
    text: str


_STOPPING = Outcome(success=False, text="not reloaded: the exporter is stopping\n")


@dataclass(frozen=True, slots=True)
class _Draft:
    """What was read, and checked as far as that can be done without building anything."""

    config: Config
    bases: list[Basis]
    state: StateFile | None
    """The state file, where it is another one than before."""
    known: Spent


class Reloader:
    """Puts the config that `load` gives in the place of the exporter's.

    `load` is called in a thread, and raises ConfigError.
    """

    def __init__(self, exporter: Exporter, schedule: Schedule, load: Callable[[], Config]) -> None:
        self._exporter = exporter
        self._schedule = schedule
        self._load = load
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Outcome] | None = None
        self._reloads: set[asyncio.Task[Outcome]] = set()
        self._late: set[asyncio.Task[None]] = set()
        """What was not waited for any longer."""
        self._stopped = False

    def request(self) -> asyncio.Task[Outcome] | None:
        """Have the config read again, not before now; None if the exporter is stopping."""
        if self._stopped:
            log.info("the config is not read again: the exporter is stopping")
            return None
        if self._next is None:
            self._next = asyncio.create_task(self._run())
            self._reloads.add(self._next)
            self._next.add_done_callback(self._reloads.discard)
        return self._next

    async def reload(self) -> Outcome:
        """Have the config read again, and wait for how that went. It goes on if whoever waits goes away."""
        task = self.request()
        if task is not None:
            await asyncio.wait([task])
        return _STOPPING if task is None or task.cancelled() else task.result()

    async def stop(self) -> None:
        """Begin no other reload, and end the one that is under way with whichever config is in use by now."""
        self._stopped = True
        for task in self._reloads:
            task.cancel()
        if self._reloads:
            await asyncio.wait(self._reloads)

    async def _run(self) -> Outcome:
        async with self._turn:
            self._next = None  # who asks from now on wants what the file says by then
            try:
                return await self._reload()
            except (OperatorError, ExceptionGroup) as error:
                return self._failed(_faults(error))
            except Exception:
                log.exception("the reload failed on a fault of the exporter's own")
                return self._failed(["a fault of the exporter's own, of which its log tells"])

    async def _reload(self) -> Outcome:
        draft = await self._draft()
        try:
            plan = await self._exporter.prepare(draft.config, draft.bases)
            try:
                await self._end_polls(plan)
            except BaseException:
                await self._exporter.discard(plan)
                raise
        except BaseException:
            if draft.state is not None:
                draft.state.release()
            raise
        leave = self._swap(plan, draft)
        outcome = self._succeeded(plan)
        await self._wait([*(member.provider.aclose() for member in plan.gone), leave()], _CLOSE_SECONDS)
        return outcome

    async def _draft(self) -> _Draft:
        reading = asyncio.get_running_loop().run_in_executor(Aside(), self._read)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                return await asyncio.shield(reading)
        except BaseException as error:
            reading.add_done_callback(_let_go)
            if isinstance(error, TimeoutError):
                raise StartError(f"the config could not be read within {_READ_SECONDS:.0f} s") from None
            raise

    def _read(self) -> _Draft:
        config = self._load()
        path = config.global_.state_file
        if self._exporter.state.is_at(path):
            return _Draft(config, bases(config), None, {})
        return _Draft(config, bases(config), StateFile(path), {} if path is None else read_state(path))

    async def _end_polls(self, plan: Plan) -> None:
        runners = [runner for member in plan.gone for runner in member.runners]
        for index in await self._wait([self._schedule.remove([runner]) for runner in runners], _END_SECONDS):
            state = runners[index].state
            fields = {"provider": state.provider, "collector": state.collector}
            log.warning("a poll does not end, and is not waited for", extra={"fields": fields})

    def _swap(self, plan: Plan, draft: _Draft) -> Callable[[], Awaitable[None]]:
        """All that a scrape can see, without giving it a chance to look in between.

        What is returned leaves the state file, where it is another one now.
        """
        self._exporter.apply(plan)
        end = None if draft.state is None else self._exporter.keep_state(draft.state, draft.known)
        self._exporter.telemetry.reloaded(success=True)
        self._schedule.add(runner for member in plan.fresh for runner in member.runners)

        async def leave() -> None:
            if end is not None:
                await asyncio.get_running_loop().run_in_executor(None, end)

        return leave

    async def _wait(self, jobs: Sequence[Awaitable[None]], seconds: float) -> list[int]:
        """Wait until all are done, but no longer than this; which of them, by their place, go on by themselves."""
        tasks = [asyncio.ensure_future(_quietly(job)) for job in jobs]
        if not tasks:
            return []
        self._late.update(tasks)
        for task in tasks:
            task.add_done_callback(self._late.discard)
        await asyncio.wait(tasks, timeout=seconds)
        return [index for index, task in enumerate(tasks) if not task.done()]

    def _failed(self, faults: Collection[str]) -> Outcome:
        for fault in faults:
            log.error("not reloaded, the config before stays in use: %s", fault)
        self._exporter.telemetry.reloaded(success=False)
        return Outcome(success=False, text="".join(f"{line}\n" for line in ["not reloaded:", *faults]))

    def _succeeded(self, plan: Plan) -> Outcome:
        fields = {"added": plan.added, "removed": plan.removed, "changed": plan.changed, "kept": plan.kept}
        told = {what: ",".join(names) for what, names in fields.items() if names}
        log.info("reloaded", extra={"fields": told})
        return Outcome(success=True, text="".join(f"{line}\n" for line in ["reloaded", *_lines(told)]))


def _lines(told: dict[str, str]) -> list[str]:
    return [f"{what}: {names}" for what, names in told.items()]


def _faults(error: OperatorError | ExceptionGroup[Exception]) -> list[str]:
    if isinstance(error, ConfigError):
        return [str(fault) for fault in error.faults]
    return [str(each) for each in (error.exceptions if isinstance(error, ExceptionGroup) else [error])]


def _let_go(reading: asyncio.Future[_Draft]) -> None:
    """What was read too late, if ever, is not put to use."""
    if not reading.cancelled() and reading.exception() is None and (state := reading.result().state) is not None:
        state.release()


async def _quietly(job: Awaitable[None]) -> None:
    """An end that goes wrong is told, and in nobody's way."""
    try:
        await job
    except Exception:
        log.exception("what went with the config before did not end well, on a fault of the exporter's own")
