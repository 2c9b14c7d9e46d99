"""Reloads the config while the exporter runs.

    read and check ─► build what is new ─► end the polls of what goes ─► swap, in one go ─► close what went
          │                  │                                                 │
          │                  │                                                 └──fault──► the process ends
          └──── faults ──────┴──► said, counted, and nothing else happens

One at a time. A request joins a reload that waits for its turn and has not read the file yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.app.plan import Basis, Plan, bases
from trainfleet_exporter.config import Config
from trainfleet_exporter.errors import ConfigError, OperatorError, StartError
from trainfleet_exporter.job_ledger import check_writable
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.threads import DaemonThreadExecutor

log = logging.getLogger(__name__)

_READ_SECONDS = 30.0
"""Seconds in which the config files must be read."""
_END_SECONDS = 5.0
"""Seconds to wait for the polls of removed providers; what they publish later is ignored."""
_CLOSE_SECONDS = 2.0
"""Seconds to wait until removed providers are closed; after that it continues in the background."""
_ANSWER_SECONDS = 1.0
"""Seconds for a client to receive the answer that its reload ends the process."""


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """The outcome of a reload, in lines for the client."""

    success: bool
    text: str


_STOPPING = ReloadOutcome(success=False, text="not reloaded: the exporter is stopping\n")
_HALF_WAY = "reload failed half way: internal error; the exporter exits"


class Reloader:
    """Replaces the exporter's config by the one that `load` returns.

    `load` runs in a thread, and raises ConfigError. `end` ends the process some seconds after a failed swap. `begun`
    receives the task of each reload as soon as it is requested. A reload holds `turn` while it runs. A standby checks a
    new config by building its providers, and uses it when it polls.
    """

    def __init__(
        self,
        exporter: Exporter,
        schedule: Schedule,
        load: Callable[[], Config],
        *,
        end: Callable[[float], None],
        begun: Callable[[asyncio.Task[ReloadOutcome]], object] = lambda reload: None,
        turn: asyncio.Lock | None = None,
    ) -> None:
        self._exporter = exporter
        self._schedule = schedule
        self._load = load
        self._end = end
        self._begun = begun
        self._turn = asyncio.Lock() if turn is None else turn
        self._next: asyncio.Task[ReloadOutcome] | None = None
        self._reloads: set[asyncio.Task[ReloadOutcome]] = set()
        self._late: set[asyncio.Task[None]] = set()
        """Tasks without waiters."""
        self._reading: asyncio.Future[tuple[Config, list[Basis]]] | None = None
        self._stopped = False

    def request(self) -> asyncio.Task[ReloadOutcome] | None:
        """Request a reload, which reads the files after this call. Return None if the exporter is stopping."""
        if self._stopped:
            log.info("reload ignored: the exporter is stopping")
            return None
        if self._next is None:
            self._next = asyncio.create_task(self._run())
            self._reloads.add(self._next)
            self._next.add_done_callback(self._reloads.discard)
            self._begun(self._next)
        return self._next

    async def reload(self) -> ReloadOutcome:
        """Reload the config and wait for the outcome. The reload continues if the caller is cancelled."""
        task = self.request()
        if task is not None:
            await asyncio.wait([task])
        return _STOPPING if task is None or task.cancelled() else task.result()

    async def stop(self) -> None:
        """Begin no other reload, and end the running one with the config that is in use now."""
        self._stopped = True
        for task in self._reloads:
            task.cancel()
        if self._reloads:
            await asyncio.wait(self._reloads)

    async def _run(self) -> ReloadOutcome:
        async with self._turn:
            self._next = None  # later requests want the file as it is then
            if self._stopped:
                return _STOPPING
            try:
                return await self._reload()
            except (OperatorError, ExceptionGroup) as error:
                return self._failed(_faults(error))
            except Exception:
                log.exception("reload failed: internal error")
                return self._failed(["internal error; see the log"])

    async def _reload(self) -> ReloadOutcome:
        plan = await self._exporter.prepare(*await self._read_in_time())
        try:
            await self._end_polls(plan)
        except BaseException:
            await self._exporter.discard(plan)
            raise
        ends = []
        if self._exporter.stands_by:  # perhaps only since a moment ago
            ends += [member.provider.aclose() for member in plan.fresh]
            plan = plan.idle()
        try:
            self._swap(plan)
        except Exception:
            log.critical(_HALF_WAY, exc_info=True)
            return self._half_way()
        ends += [member.provider.aclose() for member in plan.gone]
        outcome = self._succeeded(plan)
        await self._wait(ends, _CLOSE_SECONDS)
        return outcome

    async def _read_in_time(self) -> tuple[Config, list[Basis]]:
        if self._reading is not None and not self._reading.done():  # its thread cannot be ended
            raise StartError("an earlier reload is still reading the config; try again later")
        reading = self._reading = asyncio.get_running_loop().run_in_executor(DaemonThreadExecutor(), self._read)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                return await asyncio.shield(reading)
        except TimeoutError:
            raise StartError(f"the config could not be read within {_READ_SECONDS:.0f} s") from None

    def _read(self) -> tuple[Config, list[Basis]]:
        """Load the config, with all checks that need no providers."""
        config = self._load()
        if config.global_.ledger_file != self._exporter.config.global_.ledger_file:
            check_writable(config.global_.ledger_file)
        return config, bases(config)

    async def _end_polls(self, plan: Plan) -> None:
        runners = [runner for member in plan.gone for runner in member.runners]
        for index in await self._wait([self._schedule.remove([runner]) for runner in runners], _END_SECONDS):
            state = runners[index].state
            facts = fields(provider=state.provider, collector=state.collector, seconds=_END_SECONDS)
            log.warning("poll did not end in time; the reload continues", extra=facts)

    def _swap(self, plan: Plan) -> None:
        """Change everything that a scrape can see, without an await: no scrape sees half of it. Nothing here waits or
        needs resources, because a swap cannot be undone half way.
        """
        self._exporter.apply(plan)
        self._schedule.add(runner for member in plan.fresh for runner in member.runners)
        self._exporter.telemetry.reloaded(success=True)
        self._exporter.page_store.build()

    def _half_way(self) -> ReloadOutcome:
        """End the process in good order with exit code 1: after half a swap, some providers are not polled, and nothing
        shows it.
        """
        self._stopped = True
        self._exporter.telemetry.reloaded(success=False)
        self._end(_ANSWER_SECONDS)
        return ReloadOutcome(success=False, text=f"{_HALF_WAY}\n")

    async def _wait(self, jobs: Sequence[Awaitable[None]], seconds: float) -> list[int]:
        """Wait until all are done, for at most `seconds`. Return the indexes of those that still run."""
        tasks = [asyncio.ensure_future(_quietly(job)) for job in jobs]
        if not tasks:
            return []
        self._late.update(tasks)
        for task in tasks:
            task.add_done_callback(self._late.discard)
        await asyncio.wait(tasks, timeout=seconds)
        return [index for index, task in enumerate(tasks) if not task.done()]

    def _failed(self, faults: Collection[str]) -> ReloadOutcome:
        self._exporter.telemetry.reloaded(success=False)
        self._exporter.page_store.build()
        for fault in faults:
            log.error("not reloaded; the old config stays in use", extra=fields(error=fault))
        return ReloadOutcome(success=False, text="".join(f"{line}\n" for line in ["not reloaded:", *faults]))

    def _succeeded(self, plan: Plan) -> ReloadOutcome:
        found = {"added": plan.added, "removed": plan.removed, "changed": plan.changed, "kept": plan.kept}
        changes = {what: ",".join(names) for what, names in found.items() if names}
        log.info("reloaded", extra=fields(**changes))
        lines = ["reloaded", *(f"{what}: {names}" for what, names in changes.items())]
        return ReloadOutcome(success=True, text="".join(f"{line}\n" for line in lines))


def _faults(error: OperatorError | ExceptionGroup[Exception]) -> list[str]:
    if isinstance(error, ConfigError):
        return [str(fault) for fault in error.faults]
    return [str(each) for each in (error.exceptions if isinstance(error, ExceptionGroup) else [error])]


async def _quietly(job: Awaitable[None]) -> None:
    """Log a failure, so that the others continue."""
    try:
        await job
    except Exception:
        log.exception("clean-up after a reload failed: internal error")
