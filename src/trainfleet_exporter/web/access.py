"""Access to the web server: TLS, logins, headers and a request rate, as the web config file says now.

The file, and the certificates and keys that it names, are checked when a request comes, at most once a second:

    in use ──a file changes──► being written: the old config stays in use, half a file may admit everybody
                                 │ no change for two seconds
                                 ├──valid──────────────────────────────► the new config is in use
                                 ├──invalid certificate or key─────────► the rest is in use, with the old pair
                                 └──any other fault────────────────────► every request is answered 500

The official exporters also respond with 500, because an invalid file does not say who may enter. Only a restart turns
TLS on or off.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from trainfleet_exporter.errors import ConfigError, Fault
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.redaction import HoldsSecrets
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.web.connection import with_headers, with_security_headers
from trainfleet_exporter.web.connection_limiter import client_of
from trainfleet_exporter.web.login import Logins, Verdict
from trainfleet_exporter.web.tls import Pair, make_context, read_pair
from trainfleet_exporter.web.web_config import WebConfig, read_web_config

log = logging.getLogger(__name__)

_CHECK_SECONDS = 1.0
"""Minimum seconds between two checks of the files."""
_CHECK_WAIT_SECONDS = 2.0
"""Seconds that a request waits for a check."""
_SETTLED_NS = 2_000_000_000
"""Nanoseconds without a change after which a file counts as written."""
_POSTPONED_AT_MOST = 10
"""How many checks in a row may find that the files are being written; then they are read as they are."""
_ROUNDING_SECONDS = 1e-6
"""The rounding error of sums of times."""
_CHALLENGE = 'Basic realm="trainfleet-exporter", charset="UTF-8"'
_Stamp: TypeAlias = tuple[int, int, int, int] | None
"""Time, size, inode and device of a file, by which a change is seen; None for a missing file."""


@dataclass(frozen=True, slots=True)
class _State(HoldsSecrets):
    """What the files said at the latest check."""

    config: WebConfig
    context: ssl.SSLContext | None
    pair: Pair | None
    stamps: tuple[_Stamp, ...]
    """Of the files, as they were before they were read."""
    is_settled: bool
    """Whether the files were written by then, so that a change is sure to give another stamp."""
    postponed: int = 0
    """How many checks since then have found that the files are being written."""
    faults: tuple[Fault, ...] = ()
    is_shut: bool = False
    """Whether the exporter rejects every request because of the errors."""


class Access:
    """A web config file and its changes. Raises ConfigError for its errors only at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = _load(path, None)
        self._next_check = 0.0
        self._checking: asyncio.Future[_State] | None = None
        self._is_slow = False

    @property
    def has_tls(self) -> bool:
        """Whether connections use TLS, which does not change."""
        return self._state.context is not None

    def announce(self) -> None:
        """Log what the file means."""
        _announce(self._path, self._state.config)

    async def config(self) -> WebConfig | None:
        """Return the content of the file, or None while its errors make the exporter reject every request."""
        state = await self._current()
        return None if state.is_shut else state.config

    async def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection, or None without TLS."""
        context = (await self._current()).context
        assert context is not None
        return context

    async def _current(self) -> _State:
        loop = asyncio.get_running_loop()
        if self._checking is None and loop.time() >= self._next_check:
            try:
                self._checking = loop.run_in_executor(DaemonThreadExecutor(), self._check, self._state)
            except RuntimeError:  # no thread can be started
                self._next_check = loop.time() + _CHECK_SECONDS
            else:
                self._checking.add_done_callback(self._checked)
        if self._checking is not None and not self._is_slow:
            _, waiting = await asyncio.wait([self._checking], timeout=_CHECK_WAIT_SECONDS)
            if waiting and not self._is_slow:
                self._is_slow = True  # a dead file server must not block every request
                facts = fields(file=self._path)
                log.warning("cannot read the web config in time; the old one stays in use", extra=facts)
        return self._state

    def _checked(self, checking: asyncio.Future[_State]) -> None:
        self._next_check = asyncio.get_running_loop().time() + _CHECK_SECONDS
        self._checking, self._is_slow = None, False
        before = self._state
        try:
            self._state = checking.result()
        except Exception:
            log.exception("checking the web config failed: internal error; the old one stays in use")
        else:
            self._log_change(before, self._state)

    def _check(self, state: _State) -> _State:
        """Return the current state of the files. Runs in a thread."""
        stamps = _stamps(state.config.files)
        if state.is_settled and not state.faults and stamps == state.stamps:
            return state
        if not _are_settled(stamps) and state.postponed < _POSTPONED_AT_MOST:
            return replace(state, postponed=state.postponed + 1)
        try:
            found = _load(self._path, state.pair)
        except ConfigError as error:
            return replace(state, faults=error.faults, is_shut=True, postponed=0)
        if (found.context is None) != (state.context is None):
            fault = Fault(str(self._path), None, "tls_server_config", "restart the exporter to switch TLS on or off")
            return replace(state, faults=(fault,), is_shut=True, postponed=0)
        return found

    def _log_change(self, before: _State, now: _State) -> None:
        """Log a change once."""
        if now.faults:
            if now.faults != before.faults:
                effect = "every request gets a 500" if now.is_shut else "the old certificate stays in use"
                for fault in now.faults:
                    log.error("web config invalid", extra=fields(effect=effect, error=str(fault)))
        elif before.faults or now.stamps != before.stamps:
            _announce(self._path, now.config, is_new=True)


class AccessControl:
    """An application behind access control: a rejected request reaches no page and no action."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._logins = Logins()
        self._bucket = Bucket(0.0, 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        config = await self._access.config()
        if config is None:
            refusal: Response | None = PlainTextResponse("The web config file is not usable; the log says why.\n", 500)
        else:
            refusal = await self._refusal(config, scope)
            send = with_headers(config.headers, send, replace=True)
        await (with_security_headers(refusal) if refusal is not None else self._app)(scope, receive, send)

    async def _refusal(self, config: WebConfig, scope: Scope) -> Response | None:
        if not self._bucket.is_for(config.seconds_each, config.burst):
            self._bucket = Bucket(config.seconds_each, config.burst)
        if not self._bucket.take(asyncio.get_running_loop().time()):
            return PlainTextResponse("Too many requests.\n", 429)
        if not config.users:
            return None
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        client = scope.get("client")
        match await self._logins.check(config.users, given, client_of(client[0] if client else "")):
            case Verdict.ADMITTED:
                return None
            case Verdict.BUSY:
                return PlainTextResponse("Too many logins of this address at once.\n", 503, {"Retry-After": "1"})
            case Verdict.REFUSED:
                return PlainTextResponse("Unauthorized.\n", 401, {"WWW-Authenticate": _CHALLENGE})


class Bucket:
    """A token bucket: one request each `seconds_each`, and up to `burst` at once after a pause; 0 is no limit."""

    def __init__(self, seconds_each: float, burst: int) -> None:
        self._seconds_each = seconds_each
        self._burst = burst
        self._full_at = float("-inf")
        """The time at which a whole burst is allowed again."""

    def is_for(self, seconds_each: float, burst: int) -> bool:
        """Return whether this is its rate."""
        return (self._seconds_each, self._burst) == (seconds_each, burst)

    def take(self, now: float) -> bool:
        """Return whether one more request is allowed; `now` is in seconds."""
        full_at = max(self._full_at, now) + self._seconds_each
        if full_at - now > self._burst * self._seconds_each + _ROUNDING_SECONDS:
            return False
        self._full_at = full_at
        return True


def _load(path: Path, pair: Pair | None) -> _State:
    """Read all files; `pair` stays in use where the certificate or its key is invalid. Raises ConfigError."""
    before = _stamps((path,))
    read = read_web_config(path)
    files = (path, *(read.tls.files if read.tls is not None else ()))
    stamps = before + _stamps(files[1:])
    faults, own, context = list(read.faults), [], None
    if read.tls is not None:
        fresh, problems = read_pair(read.tls)
        own = [read.source.fault(problem.loc, problem.message) for problem in problems]
        pair = fresh or pair
        context, problems = make_context(read.tls, pair)
        faults += [read.source.fault(problem.loc, problem.message) for problem in problems]
    if faults or (pair is None and own) or read.config is None:
        raise ConfigError(sorted([*faults, *own], key=lambda fault: (fault.line or 0, fault.path, fault.message)))
    return _State(read.config, context, pair, stamps, _are_settled(stamps), faults=tuple(own))


def _announce(path: Path, config: WebConfig, *, is_new: bool = False) -> None:
    facts = fields(
        file=str(path),
        tls="yes" if config.tls else "no",
        clients=config.tls.client_auth_type if config.tls else "NoClientCert",
        users=len(config.users),
    )
    log.info("web config reloaded" if is_new else "web config in use", extra=facts)
    for note in config.notes:
        log.warning("web config setting has no effect", extra=fields(file=path, setting=note))


def _stamps(paths: Sequence[Path]) -> tuple[_Stamp, ...]:
    return tuple(map(_stamp, paths))


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


def _are_settled(stamps: Sequence[_Stamp]) -> bool:
    now = time.time_ns()
    return all(stamp is None or abs(now - stamp[0]) > _SETTLED_NS for stamp in stamps)
