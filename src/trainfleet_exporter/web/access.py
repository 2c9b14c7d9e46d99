"""Access to the web server: TLS, logins, headers and a request rate, as the web config file says now.

The file, and the certificates and keys that it names, are checked every second, in a thread:

    in use ──a file changes──► no change for two seconds ──valid──► the new config is in use
                                                         └─invalid► the old config stays in use; the log says why

A file that is being written may be valid and have no users yet: hence the two seconds. Only a restart turns TLS on or
off.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import bcrypt
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from trainfleet_exporter.errors import ConfigError, Fault
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.web.server import SECURITY_HEADERS, with_headers
from trainfleet_exporter.web.web_config import WebConfig, read_web_config

log = logging.getLogger(__name__)

_FILES_SECONDS = 10.0
"""For reading the files."""
_CHECK_SECONDS = 1.0
"""Between two checks of the files."""
_SETTLED_NS = 2_000_000_000
"""Nanoseconds without a change after which a file counts as written."""
_PASSWORD_BYTES = 72
"""The bytes of a password that bcrypt reads, here and in the official exporters."""
_LOGINS_WAITING = 128
"""At a cost of 10, bcrypt takes some 60 ms for each."""
_CHALLENGE = 'Basic realm="trainfleet-exporter", charset="UTF-8"'
_Stamp: TypeAlias = tuple[int, int, int, int] | None
"""Time, size, inode and device of a file, by which a change is seen; None for a missing file."""


class Access:
    """A web config file and its changes. Raises ConfigError for its errors only at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.config = read_web_config(path)
        """The content of the file, or its latest valid one."""
        self._stamps = _stamps(self.config.files)
        """Of the files in use."""
        self._faults: list[Fault] = []
        """Why the files of now are not in use."""

    async def follow(self) -> None:
        """Check the files every second, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            try:
                checking = asyncio.get_running_loop().run_in_executor(DaemonThreadExecutor(), self._check)
                _, waiting = await asyncio.wait([checking], timeout=_FILES_SECONDS)
                if waiting:  # a dead file server blocks no request
                    facts = fields(file=self._path)
                    log.warning("cannot read the web config in time; the old one stays in use", extra=facts)
                await checking
            except Exception:  # such as: no thread can be started
                log.exception("checking the web config failed: internal error; the old one stays in use")

    def announce(self, *, is_new: bool = False) -> None:
        given = self.config.file
        tls, auth = "no" if self.config.context is None else "yes", given.tls_server_config.client_auth_type
        facts = fields(file=str(self._path), tls=tls, clients=auth, users=len(given.basic_auth_users))
        log.info("web config reloaded" if is_new else "web config in use", extra=facts)

    def _check(self) -> None:
        """Read the files again if they have changed. Runs in a thread, one at a time."""
        stamps = _stamps(self.config.files)
        is_settled = all(stamp is None or abs(time.time_ns() - stamp[0]) > _SETTLED_NS for stamp in stamps)
        if not is_settled or (stamps == self._stamps and not self._faults):
            return
        faults: list[Fault] = []
        try:
            found = read_web_config(self._path)
            if (found.context is None) != (self.config.context is None):
                faults = [Fault(str(self._path), None, "tls_server_config", "only a restart switches TLS on or off")]
        except ConfigError as error:
            faults = list(error.faults)
        if _stamps(self.config.files) != stamps:
            return  # changed while it was read: the next check reads it whole
        before, self._faults = self._faults, faults
        for fault in faults if faults != before else ():
            log.error("web config invalid; the old one stays in use", extra=fields(error=str(fault)))
        if not faults:
            self.config, self._stamps = found, stamps if found.files == self.config.files else _stamps(found.files)
            self.announce(is_new=True)


def _stamps(paths: Sequence[Path]) -> list[_Stamp]:
    stamps: list[_Stamp] = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev))
    return stamps


def credentials(headers: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return user and password of a request's `Authorization` headers; None unless there is one valid header."""
    if len(headers) != 1:
        return None
    scheme, _, token = headers[0].partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        plain = base64.b64decode(token.strip(b" "), validate=True)
    except binascii.Error:
        return None
    user, colon, password = plain.partition(b":")
    return (user, password[:_PASSWORD_BYTES]) if colon else None


class Logins:
    """Checks users and passwords of HTTP's basic authentication.

    bcrypt is slow on purpose. It runs in one thread, for one login after another, and only for passwords that were not
    verified before: wrong passwords never delay a user who has logged in. Verified ones are kept as digests.
    """

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._verified: dict[bytes, bytes] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def check(self, users: Mapping[str, str], headers: Sequence[bytes]) -> bool | None:
        """Check the `Authorization` headers of a request against the `users` (bcrypt hashes by name). None means that
        too many logins are waiting."""
        given = credentials(headers)
        if given is None:
            return False
        user, password = given
        hashed = users.get(user.decode(errors="surrogateescape"))
        digest = self._digest(user, (hashed or "").encode(), password)
        if hashed is not None and self._is_verified(user, digest):
            return True
        if self._waiting >= _LOGINS_WAITING:
            return None
        self._waiting += 1
        try:
            async with self._turn:
                if hashed is not None and self._is_verified(user, digest):  # by a login before this one
                    return True
                # A refusal takes equally long for unknown users.
                fits = await asyncio.get_running_loop().run_in_executor(
                    DaemonThreadExecutor(), bcrypt.checkpw, password, (hashed or next(iter(users.values()))).encode()
                )
        except RuntimeError:  # the system has no thread left
            return None
        finally:
            self._waiting -= 1
        if hashed is None or not fits:
            return False
        self._verified[user] = digest
        return True

    def _is_verified(self, user: bytes, digest: bytes) -> bool:
        return hmac.compare_digest(self._verified.get(user, b""), digest)

    def _digest(self, user: bytes, hashed: bytes, password: bytes) -> bytes:
        # The hash is part of it: a user whose hash was changed has to log in again.
        text = b"".join(len(part).to_bytes(8, "big") + part for part in (user, hashed, password))
        return hmac.digest(self._secret, text, hashlib.sha256)


class AccessControl:
    """An application behind access control: a rejected request reaches no page and no action.

    `rejected` counts rejections by reason: unauthorized, busy.
    """

    def __init__(self, app: ASGIApp, access: Access, rejected: Callable[[str], None] = lambda _: None) -> None:
        self._app = app
        self._access = access
        self._rejected = rejected
        self._logins = Logins()
        self._config: WebConfig | None = None
        self._full_at = 0.0
        """When the rate limit allows a whole burst again, on the loop's clock."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        config = self._access.config
        refusal = await self._refusal(config, scope)
        app = self._app if refusal is None else with_headers(refusal, SECURITY_HEADERS)
        await with_headers(app, config.headers, replace=True)(scope, receive, send)

    async def _refusal(self, config: WebConfig, scope: Scope) -> Response | None:
        if not self._is_within(config, asyncio.get_running_loop().time()):
            self._rejected("busy")
            return PlainTextResponse("Too many requests.\n", 429)
        if not config.file.basic_auth_users:
            return None
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        is_admitted = await self._logins.check(config.file.basic_auth_users, given)
        if is_admitted:
            return None
        self._rejected("busy" if is_admitted is None else "unauthorized")
        if is_admitted is None:
            return PlainTextResponse("Too many logins at once.\n", 503, {"Retry-After": "1"})
        return PlainTextResponse("Unauthorized.\n", 401, {"WWW-Authenticate": _CHALLENGE})

    def _is_within(self, config: WebConfig, now: float) -> bool:
        """Return whether the rate limit, a token bucket, allows one more request."""
        if config is not self._config:
            self._config, self._full_at = config, now
        interval, burst = config.file.rate_limit.interval, config.file.rate_limit.burst or 1
        full_at = max(self._full_at, now) + interval
        if full_at - now > burst * interval + 1e-6:  # the rounding error of sums of times
            return False
        self._full_at = full_at
        return True
