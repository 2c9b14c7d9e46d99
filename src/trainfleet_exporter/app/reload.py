"""Reloads the config while the exporter runs.

    read and check ─► build what is new ─► swap, in one go ─► end the polls of what went, and close it
          │                  │                   │
          │                  │                   └──fault──► the process ends
          └──── faults ──────┴──► said, counted, and nothing else happens

One at a time. A request joins a reload that waits for its turn and has not read the file yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.app.plan import Plan, retire
from trainfleet_exporter.config import Config
from trainfleet_exporter.errors import OperatorError, StartError
from trainfleet_exporter.job_ledger import check_writable
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.threads import DaemonThreadExecutor

log = logging.getLogger(__name__)

_READ_SECONDS = 30.0
"""Seconds in which the config files must be read."""


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """The outcome of a reload, in lines for the client."""

    success: bool
    text: str


_STOPPING = ReloadOutcome(success=False, text="not reloaded: the exporter is stopping\n")
_HALF_WAY = "reload failed half way: internal error; the exporter exits"


class Reloader:
    """Replaces the exporter's config by the one that `load` returns.

    `load` runs in a thread, and raises ConfigError. `end` ends the process after a failed swap. `runs` is called with
    True when a reload begins, and with False when it ends. A standby checks a new config by building its providers, and
    uses it when it polls.
    """

    def __init__(
        self,
        exporter: Exporter,
        schedule: Schedule,
        load: Callable[[], Config],
        *,
        end: Callable[[], None],
        runs: Callable[[bool], object] = lambda is_running: None,
    ) -> None:
        self._exporter = exporter
        self._schedule = schedule
        self._load = load
        self._end = end
        self._runs = runs
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[ReloadOutcome] | None = None
        self._reloads: set[asyncio.Task[ReloadOutcome]] = set()
        self._reading: asyncio.Future[Config] | None = None
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
            self._runs(True)
            try:
                plan = self._exporter.plan(await self._read_in_time())
                return await self._swap(plan)
            except OperatorError as error:
                return self._failed(str(error).splitlines())
            except Exception:
                log.exception("reload failed: internal error")
                return self._failed(["internal error; see the log"])
            finally:
                self._runs(False)

    async def _read_in_time(self) -> Config:
        if self._reading is not None and not self._reading.done():  # its thread cannot be ended
            raise StartError("an earlier reload is still reading the config; try again later")
        reading = self._reading = asyncio.get_running_loop().run_in_executor(DaemonThreadExecutor(), self._read)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                return await asyncio.shield(reading)
        except TimeoutError:
            raise StartError(f"the config could not be read within {_READ_SECONDS:.0f} s") from None

    def _read(self) -> Config:
        """Load the config, with all checks that need no providers."""
        config = self._load()
        if config.global_.ledger_file != self._exporter.config.global_.ledger_file:
            check_writable(config.global_.ledger_file)
        return config

    async def _swap(self, plan: Plan) -> ReloadOutcome:
        """Change everything that a scrape can see, without an await: no scrape sees half of it. A swap cannot be undone
        half way. After an error in it, some providers are not polled and nothing shows it, so the process ends.
        """
        try:
            self._exporter.apply(plan)
            self._schedule.add(runner for member in plan.fresh for runner in member.runners)
            self._exporter.telemetry.reloaded(success=True)
            self._exporter.page_store.build()
        except Exception:
            log.critical(_HALF_WAY, exc_info=True)
            self._exporter.telemetry.reloaded(success=False)
            self._end()
            return ReloadOutcome(success=False, text=f"{_HALF_WAY}\n")
        changes = {change: ",".join(names) for change, names in plan.changes.items()}
        log.info("reloaded", extra=fields(**changes))
        await retire(self._schedule, plan.gone)
        lines = ["reloaded", *(f"{change}: {names}" for change, names in changes.items())]
        return ReloadOutcome(success=True, text="".join(f"{line}\n" for line in lines))

    def _failed(self, faults: Sequence[str]) -> ReloadOutcome:
        self._exporter.telemetry.reloaded(success=False)
        self._exporter.page_store.build()
        for fault in faults:
            log.error("not reloaded; the old config stays in use", extra=fields(error=fault))
        return ReloadOutcome(success=False, text="".join(f"{line}\n" for line in ["not reloaded:", *faults]))
