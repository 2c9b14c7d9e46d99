"""State notifications to the service manager (systemd), as sd_notify(3) datagrams; nothing without one.

A task of the server's loop sends a status line, and the keep-alive if the unit has `WatchdogSec`. It asks the loop of
the polls each time. If one of both hangs, the keep-alive stops and systemd restarts the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping

from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

_STATUS_SECONDS = 15.0
"""Seconds between two status lines, if the watchdog does not need them sooner."""
_LAST_PHASE = "stopping"
_SEND_SECONDS = 0.5
"""Seconds that a slow service manager may block the loop. After one timeout, sends do not wait."""


class ServiceManager:
    """The service manager, if there is one. `status` returns one line about what is polled. `proof` ends soon, unless
    the polls hang. A failed send is logged once, until one succeeds: the daemon itself works.
    """

    def __init__(
        self, status: Callable[[], str], proof: Callable[[], Awaitable[None]], environ: Mapping[str, str] = os.environ
    ) -> None:
        self._status = status
        self._proof = proof
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address  # of the abstract kind, no file
        meant_for, pause = environ.get("WATCHDOG_PID", ""), environ.get("WATCHDOG_USEC", "")
        is_watched = pause.isdecimal() and int(pause) > 0 and meant_for in ("", str(os.getpid()))
        self._keep_alive = "WATCHDOG=1" if is_watched else ""
        # Half of the time that the watchdog gives, as its manual asks for.
        self._interval = min(_STATUS_SECONDS, int(pause) / 2e6) if is_watched else _STATUS_SECONDS
        self._failed = False
        self._phase = ""
        """What the status line says in place of `status`."""

    def ready(self) -> None:
        """The daemon serves from now on."""
        self._send("READY=1")
        if self._address:
            self._beat = asyncio.create_task(self._keep_sending())

    def reloads(self, is_running: bool) -> None:
        """A reload begins, or has ended with or without success."""
        if self._phase != _LAST_PHASE:
            self._phase = "reading the config again" if is_running else ""
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            self._send(*(["RELOADING=1", f"MONOTONIC_USEC={now}"] if is_running else ["READY=1"]))

    def stopping(self) -> None:
        """The daemon has begun to stop. The watchdog gets its keep-alive as long as the server's loop runs."""
        self._phase = _LAST_PHASE
        self._send("STOPPING=1")

    async def _keep_sending(self) -> None:
        while True:
            if self._phase != _LAST_PHASE:
                await self._proof()
            self._send(self._keep_alive)
            await asyncio.sleep(self._interval)

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        text = "\n".join(filter(None, (*lines, f"STATUS={self._phase or self._status()}")))
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(0.0 if self._failed else _SEND_SECONDS)
                sock.sendto(text.encode(), self._address)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("cannot notify the service manager", extra=fields(error=error.strerror or str(error)))
            self._failed = True
