"""The daemon: an exporter with its schedule, its web server, and its reloads."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import trainfleet_exporter
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.app.plan import retire
from trainfleet_exporter.app.reload import Reloader
from trainfleet_exporter.config import Config
from trainfleet_exporter.job_ledger import check_writable
from trainfleet_exporter.lease import Elector, KubernetesLease, Role, identity
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.polling.poll_thread import OneLoop, PollThread
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.sd_notify import ServiceManager
from trainfleet_exporter.providers.registry import Platform
from trainfleet_exporter.sharding import WHOLE, Shard
from trainfleet_exporter.telemetry import Standing
from trainfleet_exporter.web.access import Access, AccessControl
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.listeners import MAX_CONNECTIONS, listen
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.server import WebServer

log = logging.getLogger(__name__)

_STOP_SECONDS = 3.5
"""Seconds after a SIGTERM in which everything is closed, even if something hangs."""


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Settings of the web server: addresses, access, the path of the metrics, and whether a request may reload the
    config."""

    addresses: Sequence[str] = (":10075",)
    telemetry_path: str = "/metrics"
    enable_lifecycle: bool = False
    max_connections: int = MAX_CONNECTIONS
    notice: str = ""
    """A notice at the top of the status page."""
    access: Access | None = None
    """The web config file. Without it, access is open and by plain HTTP."""


class Daemon:
    """The exporter with its web server and its schedule. `load` reads its config again; without it there are no
    reloads. `shard` is its place among several exporters; both configs are then `sharding.apportioned` to it. With a
    `lease`, it polls only while it holds it. It polls `in_thread`, or in the loop of the server.
    """

    def __init__(
        self,
        config: Config,
        platforms: Mapping[str, Platform],
        web: WebSettings,
        *,
        load: Callable[[], Config] | None = None,
        shard: Shard = WHOLE,
        lease: KubernetesLease | None = None,
        in_thread: bool = False,
    ) -> None:
        check_writable(config.global_.ledger_file)
        self._lease = lease
        self.elector: Elector | None = None
        if lease is None:
            self.exporter = Exporter(config, platforms, shard=shard)
        else:
            elector = self.elector = Elector(lease, identity(), self._leads)
            self.exporter = Exporter(config, platforms, shard=shard, stands_by=True, may_call=lambda: elector.may_poll)
            self.exporter.telemetry.watch_lease(lambda: elector.may_poll)
            self.exporter.telemetry.watch_writes("lease", lambda: elector.write_errors)
        self._schedule = Schedule(self.exporter.runners)
        self._polls = (PollThread if in_thread else OneLoop)(self._exit)
        page_store = self.exporter.page_store
        self._manager = ServiceManager(
            lambda: _in_words(page_store.page().standing), lambda: self._polls.call(asyncio.sleep(0))
        )
        self._reloader = None
        if load is not None:
            self._reloader = Reloader(self.exporter, self._schedule, load, end=self._exit, runs=self._reloads)
        self._notice, reloader = web.notice, self._reloader
        page_store.standing = self._standing
        pages = Pages(
            page_store=page_store,
            telemetry=self.exporter.telemetry,
            telemetry_path=web.telemetry_path,
            reload=(lambda: self._polls.call(reloader.reload())) if reloader and web.enable_lifecycle else None,
        )
        app, access, rejected = make_app(pages), web.access, self.exporter.telemetry.rejected
        self._access = access
        self.server = WebServer(
            app if access is None else AccessControl(app, access, rejected),
            listen(*web.addresses),
            tls=lambda: None if access is None else access.config.context,
            max_connections=web.max_connections,
            rejected=rejected,
        )
        self._background: list[asyncio.Task[None]] = []
        self._exits: list[asyncio.Task[None]] = []
        self._ends = set[asyncio.Task[None]]()
        """Of the polls of terms before."""
        self._election: asyncio.Task[None] | None = None
        self._building: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve first, then poll, so that the first scrape gets an answer."""
        shard, page_store = self.exporter.shard, self.exporter.page_store
        page_store.current()
        page_store.is_kept_built = True
        await self.server.start()
        if self._access is not None:
            self._access.announce()
            self._background.append(asyncio.create_task(self._access.follow()))
        log.info(
            "started",
            extra=fields(
                version=trainfleet_exporter.__version__,
                address=",".join(self.server.addresses),
                providers=len(self.exporter.config.providers),
                **({} if shard.total == 1 else {"shard": str(shard)}),
            ),
        )
        await self._polls.call(self._begin())
        self._manager.ready()

    def request_reload(self) -> None:
        """Reload the config, unless there is none or the daemon is stopping. Log the outcome."""
        if self._reloader is not None:
            self._polls.post(self._reloader.request)

    async def stop(self) -> None:
        """End polls, finish running responses and close connections, all within a time limit. A second call joins the
        first: a signal may come while a failed reload ends the process.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        self._manager.stopping()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._in_polls(self._end())
                await self.server.stop()
                for task in self._background:
                    task.cancel()
                await self._in_polls(self.exporter.aclose())
        except TimeoutError:
            log.warning("shutdown timed out; closing all connections", extra=fields(seconds=_STOP_SECONDS))
        finally:  # even if the other steps used the whole time
            self.exporter.close_ledger()
        await self._polls.close()

    async def _in_polls(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a step of the end where polls run. The other steps follow even if that has died."""
        (error,) = await asyncio.gather(self._polls.call(work), return_exceptions=True)
        if isinstance(error, Exception):
            log.error("shutdown: internal error", exc_info=error)

    def _exit(self) -> None:
        """Stop, and exit with code 1. Any thread may call this."""

        async def stop() -> None:
            try:
                await self.stop()
            finally:
                asyncio.get_running_loop().call_soon(sys.exit, 1)  # which out of a callback ends the loop

        self._polls.post_home(lambda: self._exits.append(asyncio.create_task(stop())))

    def _reloads(self, is_running: bool) -> None:
        self._polls.post_home(lambda: self._manager.reloads(is_running))

    async def _begin(self) -> None:
        self.exporter.announce()
        self._building = asyncio.create_task(self.exporter.page_store.keep_built())
        self._schedule.start()
        if self.elector is not None:
            self._election = asyncio.create_task(self.elector.run())

    async def _end(self) -> None:
        if self._reloader is not None:
            await self._reloader.stop()
        if self._election is not None:
            self._election.cancel()
            await asyncio.wait([self._election])
        await self._schedule.stop()
        if self.elector is not None and self._lease is not None:
            self.exporter.close_ledger()  # for the next holder
            await asyncio.gather(*self._ends)
            await self.elector.resign()
            await self._lease.aclose()
        if self._building is not None:
            self._building.cancel()

    def _leads(self, leads: bool) -> None:
        """Poll from now on, as at a start, or show no provider any more and end the polls."""
        if not leads:  # the polls that end now begin no call
            leaving = asyncio.create_task(retire(self._schedule, self.exporter.stand_by()))
            self._ends.add(leaving)
            leaving.add_done_callback(self._ends.discard)
            return
        try:
            self.exporter.stands_by = False
            self.exporter.apply(self.exporter.plan(self.exporter.config))
            self._schedule.add(self.exporter.runners)
        except Exception:
            log.critical("cannot poll with the lease; the exporter exits", exc_info=True)
            self._exit()

    def _standing(self) -> Standing:
        standing, elector = replace(self.exporter.standing(), notice=self._notice), self.elector
        if elector is None or elector.role is Role.LEADER:
            return standing
        words = "This exporter waits for the lease. It does not poll yet."
        if elector.role is Role.STANDBY:
            holder = f"The lease is held by {elector.holder or 'none'}."
            words = f"This exporter is on standby and does not poll. {holder}"
            words += "" if elector.may_take else " This exporter cannot take the lease; see its log."
        notice = " ".join(filter(None, (self._notice, words)))
        return replace(standing, role=elector.role, may_take=elector.may_take, notice=notice)


def _in_words(standing: Standing) -> str:
    """Counts of providers and of collectors by success."""
    successes = [state.success for state in standing.states]
    kinds = {"well": True, "failing": False, "not polled yet": None}
    counts = [f"{successes.count(success)} {kind}" for kind, success in kinds.items() if success in successes]
    providers = len({state.provider for state in standing.states})
    return f"{providers} provider(s), {len(successes)} collector(s): {', '.join(counts) or 'none'}"
