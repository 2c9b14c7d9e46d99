"""Telling the service manager (systemd) how the daemon is, by the datagrams of sd_notify(3); silent without one.

    serving ──► READY=1          a reload ──► RELOADING=1 … READY=1          the end begins ──► STOPPING=1

While it serves, a task of the daemon's own loop tells in words what is polled, and where the unit has `WatchdogSec`
that the loop still turns: one that hangs says nothing more, and systemd starts the daemon anew.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

_TELL_SECONDS = 15.0
"""How often the words are told anew, where no watchdog wants to hear sooner."""
_SEND_SECONDS = 0.5
"""How long a service manager that does not read may hold up the loop, once: from then on it is not waited for."""


class ServiceManager:
    """Whoever started the daemon, if it wants to be told. `status` says in one line what is polled.

    That something cannot be told is logged when that begins, and never an error: a daemon that works goes on working.
    """

    def __init__(self, status: Callable[[], str], environ: Mapping[str, str] = os.environ) -> None:
        self._status = status
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._watchdog = _watchdog_seconds(environ)
        self._beat: asyncio.Task[None] | None = None
        self._told = ""
        self._failed = False
        self._reloads: set[asyncio.Task[object]] = set()
        self._stopping = False

    def ready(self) -> None:
        """The daemon serves from now on."""
        if self._address:
            self._send("READY=1", self._words())
            self._beat = asyncio.create_task(self._keep_telling())

    def reloading(self, reload: asyncio.Task[object]) -> None:
        """The config is read anew until this task ends, well or badly: either way the daemon goes on serving."""
        if not self._address or reload in self._reloads:
            return
        if not self._reloads:
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            self._send("RELOADING=1", f"MONOTONIC_USEC={now}", "STATUS=reading the config again")
        self._reloads.add(reload)
        reload.add_done_callback(self._reloaded)

    def stopping(self) -> None:
        """The end has begun. The watchdog is still told of it, for as long as the loop turns."""
        if not self._stopping:
            self._stopping = True
            self._send("STOPPING=1", "STATUS=stopping")

    async def aclose(self) -> None:
        """Tell nothing more."""
        if self._beat is not None:
            self._beat.cancel()
            await asyncio.wait([self._beat])

    def _reloaded(self, reload: asyncio.Task[object]) -> None:
        self._reloads.discard(reload)
        if not self._reloads and not self._stopping:
            self._send("READY=1", self._words())

    async def _keep_telling(self) -> None:
        # Half of the time that the watchdog gives, as its manual asks for.
        interval = _TELL_SECONDS if self._watchdog is None else min(_TELL_SECONDS, self._watchdog / 2)
        while True:
            lines = [] if self._watchdog is None else ["WATCHDOG=1"]
            before = self._told
            if not self._stopping and not self._reloads and self._words() != before:
                lines.append(self._told)
            if lines:
                self._send(*lines)
            await asyncio.sleep(interval)

    def _words(self) -> str:
        self._told = f"STATUS={self._status()}"
        return self._told

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
                log.warning("the service manager cannot be told that the daemon is well: %s", error.strerror or error)


def _address(text: str) -> str:
    """The socket's address; empty where there is none, or none that can be served."""
    if not text or text.startswith("/"):
        return text
    if text.startswith("@"):  # of the abstract kind, which is no file
        return "\0" + text[1:]
    log.warning("NOTIFY_SOCKET is neither a path nor an abstract socket: the service manager is not told anything")
    return ""


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """After how many seconds of silence this process is restarted; None if never."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):  # meant for another process
        return None
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and int(text) > 0 else None
