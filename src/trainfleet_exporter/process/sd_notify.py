"""State notifications to the service manager (systemd), as sd_notify(3) datagrams; nothing without one.

    serving ──► READY=1          a reload ──► RELOADING=1 … READY=1          the end begins ──► STOPPING=1

A task of the daemon's event loop sends a status line, and the watchdog's keep-alive if the unit has `WatchdogSec`. If
the loop hangs, the keep-alive stops and systemd restarts the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping

from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

_STATUS_SECONDS = 15.0
"""Seconds between two status lines, if the watchdog does not need them sooner."""
_SEND_SECONDS = 0.5
"""Seconds that a slow service manager may block the loop. After one timeout, sends do not wait."""


class ServiceManager:
    """The service manager, if there is one. `status` returns one line about what is polled.

    A failed send is logged once, until one succeeds. It never raises: the daemon itself works.
    """

    def __init__(self, status: Callable[[], str], environ: Mapping[str, str] = os.environ) -> None:
        self._status = status
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._watchdog = _watchdog_seconds(environ)
        self._beat: asyncio.Task[None] | None = None
        self._last_status = ""
        self._failed = False
        self._reloads: set[asyncio.Task[object]] = set()
        self._stopping = False

    def ready(self) -> None:
        """The daemon serves from now on."""
        if self._address:
            self._send("READY=1", self._status_line())
            self._beat = asyncio.create_task(self._keep_sending())

    def reloading(self, reload: asyncio.Task[object]) -> None:
        """Report a reload until this task ends, whether it succeeds or not."""
        if not self._address or reload in self._reloads:
            return
        if not self._reloads:
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            self._send("RELOADING=1", f"MONOTONIC_USEC={now}", "STATUS=reading the config again")
        self._reloads.add(reload)
        reload.add_done_callback(self._reloaded)

    def stopping(self) -> None:
        """The daemon has begun to stop. The watchdog gets its keep-alive as long as the loop runs."""
        if not self._stopping:
            self._stopping = True
            self._send("STOPPING=1", "STATUS=stopping")

    async def aclose(self) -> None:
        """Send nothing more."""
        if self._beat is not None:
            self._beat.cancel()
            await asyncio.wait([self._beat])

    def _reloaded(self, reload: asyncio.Task[object]) -> None:
        self._reloads.discard(reload)
        if not self._reloads and not self._stopping:
            self._send("READY=1", self._status_line())

    async def _keep_sending(self) -> None:
        # Half of the time that the watchdog gives, as its manual asks for.
        interval = _STATUS_SECONDS if self._watchdog is None else min(_STATUS_SECONDS, self._watchdog / 2)
        while True:
            lines = [] if self._watchdog is None else ["WATCHDOG=1"]
            before = self._last_status
            if not self._stopping and not self._reloads and self._status_line() != before:
                lines.append(self._last_status)
            if lines:
                self._send(*lines)
            await asyncio.sleep(interval)

    def _status_line(self) -> str:
        self._last_status = f"STATUS={self._status()}"
        return self._last_status

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(0.0 if self._failed else _SEND_SECONDS)
                sock.sendto("\n".join(lines).encode(), self._address)
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                log.warning("cannot notify the service manager", extra=fields(error=error.strerror or str(error)))


def _address(text: str) -> str:
    """The socket's address; empty if there is none or it is invalid."""
    if not text or text.startswith("/"):
        return text
    if text.startswith("@"):  # of the abstract kind, which is no file
        return "\0" + text[1:]
    log.warning("NOTIFY_SOCKET is not a socket address; systemd notifications are off", extra=fields(value=text))
    return ""


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """Seconds without keep-alive after which systemd restarts this process; None if never."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):  # meant for another process
        return None
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and int(text) > 0 else None
