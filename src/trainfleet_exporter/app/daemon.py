"""The daemon: an exporter with its schedule, its web server, and its reloads."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from starlette.types import ASGIApp

import trainfleet_exporter
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.app.reload import Reloader
from trainfleet_exporter.app.standby import Standby
from trainfleet_exporter.config import Config
from trainfleet_exporter.job_ledger import check_writable
from trainfleet_exporter.lease import KubernetesLease, Role
from trainfleet_exporter.polling import Schedule
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
    """The maximum at a time."""
    notice: str = ""
    """A notice at the top of the status page."""
    access: Access | None = None
    """The web config file. Without it, access is open and by plain HTTP."""


class Daemon:
    """The exporter with its web server and its schedule. `load` reads its config again; without it there are no
    reloads. `shard` is its place among several exporters; both configs are then `sharding.apportioned` to it. With a
    `lease`, it polls only while it holds it.
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
    ) -> None:
        check_writable(config.global_.ledger_file)
        self._standby = None if lease is None else Standby(lease)
        if self._standby is None:
            self.exporter = Exporter(config, platforms, shard=shard)
        else:
            elector = self._standby.elector
            self.exporter = Exporter(config, platforms, shard=shard, stands_by=True, may_call=lambda: elector.may_poll)
            self.exporter.telemetry.watch_lease(lambda: elector.may_poll)
            self.exporter.telemetry.watch_writes("lease", lambda: elector.write_errors)
        self._schedule = Schedule(self.exporter.runners)
        self._manager = ServiceManager(lambda: _in_words(self.exporter))
        self._turn = asyncio.Lock()
        self._reloader = (
            None
            if load is None
            else Reloader(
                self.exporter, self._schedule, load, end=self.stop, begun=self._manager.reloading, turn=self._turn
            )
        )
        self._notice = web.notice
        self.exporter.page_store.standing = self._standing
        pages = Pages(
            page_store=self.exporter.page_store,
            telemetry=self.exporter.telemetry,
            telemetry_path=web.telemetry_path,
            reload=self._reloader.reload if self._reloader is not None and web.enable_lifecycle else None,
        )
        sockets = listen(*web.addresses)
        self._access = web.access
        self.server = _server(make_app(pages), sockets, web, self.exporter.telemetry.rejected)
        self._background: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve first, then poll, so that the first scrape gets an answer."""
        self.exporter.page_store.current()
        await self.server.start()
        self._background.append(asyncio.create_task(self.exporter.page_store.keep_built()))
        self._schedule.start()
        if self._standby is not None:
            self._standby.start(self.exporter, self._schedule, turn=self._turn, end=self.stop)
        self._manager.ready()
        if self._access is not None:
            self._access.announce()
            self._background.append(asyncio.create_task(self._access.follow()))
        log.info(
            "started",
            extra=fields(
                version=trainfleet_exporter.__version__,
                address=",".join(self.server.addresses),
                providers=len(self.exporter.config.providers),
                **_shard_in_words(self.exporter.shard),
            ),
        )
        self.exporter.announce()

    def request_reload(self) -> None:
        """Reload the config, unless there is none or the daemon is stopping. Log the outcome."""
        if self._reloader is not None:
            self._reloader.request()

    async def stop(self) -> None:
        """End polls, finish running responses and close connections, all within a time limit. A second call joins the
        first: a signal may come while a failed reload ends the process.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    def _standing(self) -> Standing:
        standing, standby = replace(self.exporter.standing(), notice=self._notice), self._standby
        if standby is None:
            return standing
        role = standby.elector.role
        if role is Role.LEADER and self.exporter.stands_by:
            role = Role.UNDECIDED  # it builds its providers
        notice = " ".join(filter(None, (self._notice, standby.words)))
        return replace(standing, role=role, may_take=standby.elector.may_take, notice=notice)

    async def _stop(self) -> None:
        self._manager.stopping()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                if self._reloader is not None:
                    await self._reloader.stop()
                if self._standby is not None:
                    await self._standby.stop()
                await self._schedule.stop()
                if self._standby is not None:
                    self.exporter.close_ledger()  # for the next holder
                    await self._standby.resign()
                await self.server.stop()
                for task in self._background:
                    task.cancel()
                await self.exporter.aclose()
        except TimeoutError:
            log.warning("shutdown timed out; closing all connections", extra=fields(seconds=_STOP_SECONDS))
        finally:  # even if the other steps used the whole time
            self.exporter.close_ledger()
        await self._manager.aclose()
        log.info("stopped")


def _server(
    app: ASGIApp, sockets: Sequence[socket.socket], web: WebSettings, rejected: Callable[[str], None]
) -> WebServer:
    serve = partial(WebServer, max_connections=web.max_connections, rejected=rejected)
    access = web.access
    if access is None:
        return serve(app, sockets)
    return serve(AccessControl(app, access, rejected), sockets, tls=lambda: access.config.context)


def _shard_in_words(shard: Shard) -> dict[str, str]:
    return {} if shard.total == 1 else {"shard": str(shard)}


def _in_words(exporter: Exporter) -> str:
    """Counts of providers and of collectors by success."""
    successes = [runner.state.success for runner in exporter.runners]
    kinds = {"well": True, "failing": False, "not polled yet": None}
    counts = [f"{successes.count(success)} {kind}" for kind, success in kinds.items() if success in successes]
    return f"{len(exporter.providers)} provider(s), {len(successes)} collector(s): {', '.join(counts) or 'none'}"
