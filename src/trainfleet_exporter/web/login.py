"""Users and passwords of HTTP's basic authentication.

bcrypt is slow on purpose. It runs in a thread, for one login at a time, and only for passwords that were not verified
before. Addresses take turns, those without a wrong password first. So the first login of an address waits for the check
under way and for other first logins, however many logins wait. After a wrong password the next check waits for as long
as that one used the processor: wrong passwords use half a core at most. A refusal takes equally long for unknown users.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import string
import time
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum

import bcrypt

from trainfleet_exporter.process.threads import DaemonThreadExecutor

_PASSWORD_BYTES = 72
"""The bytes of a password that bcrypt reads; a longer password is always wrong."""
_WAITING_OF_ONE = 32
"""Logins of one address that may wait for their turn."""
_WRONG_ADDRESSES = 1024
"""The number of addresses with a wrong latest password to remember."""
_ALPHABET = (string.ascii_letters + string.digits).encode()


class Verdict(Enum):
    """The outcome of a login."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    BUSY = "busy"
    """Too many logins of the same address are waiting."""


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
    return (user, password) if colon else None


class LoginQueue:
    """Admits one login at a time. Addresses take turns, each with its oldest login; those whose latest password was
    wrong come after the others."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By address; the next one is first."""
        self._wrong: dict[str, None] = {}
        """Addresses whose latest password was wrong, the latest last."""
        self._is_free = True

    def note(self, address: str, *, is_right: bool) -> None:
        """Record whether the latest password of an address was right."""
        self._wrong.pop(address, None)
        if not is_right:
            self._wrong[address] = None
            if len(self._wrong) > _WRONG_ADDRESSES:
                del self._wrong[next(iter(self._wrong))]

    async def take(self, address: str) -> bool:
        """Wait for a turn, which must be given back. Return False, at once, if too many logins of the address wait."""
        if self._is_free:
            self._is_free = False
            return True
        queue = self._waiting.setdefault(address, deque())
        if len(queue) >= _WAITING_OF_ONE:
            return False
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise
        return True

    def give_back(self) -> None:
        """End a turn, and give the next address one."""
        while self._waiting:
            address = next((one for one in self._waiting if one not in self._wrong), next(iter(self._waiting)))
            queue = self._waiting.pop(address)
            turn = queue.popleft()
            if queue:
                self._waiting[address] = queue  # behind the others
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._is_free = True


class Logins:
    """Checks logins, and remembers the password of each user who has logged in: as a digest, in this process only."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._verified: dict[bytes, bytes] = {}
        self._queue = LoginQueue()
        self._next_check = 0.0
        """The loop's time before which no password is checked."""

    async def check(self, users: Mapping[bytes, bytes], headers: Sequence[bytes], address: str) -> Verdict:
        """Check the `Authorization` headers of a request against the `users` (bcrypt hashes by name). Logins of one
        `address` wait for each other."""
        given = credentials(headers)
        if given is None:
            return Verdict.REFUSED
        user, password = given
        hashed = users.get(user)
        digest = self._digest(user, hashed or b"", password)
        if hashed is not None and self._is_verified(user, digest):
            return Verdict.ADMITTED
        if not await self._queue.take(address):
            return Verdict.BUSY
        loop = asyncio.get_running_loop()
        try:
            if hashed is not None and self._is_verified(user, digest):  # by a login before this one
                return Verdict.ADMITTED
            await asyncio.sleep(self._next_check - loop.time())
            against = hashed or self._stand_in(users, user)
            try:
                fits, used = await loop.run_in_executor(DaemonThreadExecutor(), _is_right, password, against)
            except RuntimeError:  # the system has no thread left
                return Verdict.BUSY
            is_right = hashed is not None and fits
            self._queue.note(address, is_right=is_right)
            if not is_right:
                self._next_check = loop.time() + used
                return Verdict.REFUSED
        finally:
            self._queue.give_back()
        self._verified = {known: kept for known, kept in self._verified.items() if known in users} | {user: digest}
        return Verdict.ADMITTED

    def _is_verified(self, user: bytes, digest: bytes) -> bool:
        return hmac.compare_digest(self._verified.get(user, b""), digest)

    def _digest(self, user: bytes, hashed: bytes, password: bytes) -> bytes:
        # The hash is part of it: a user whose hash was changed has to log in again.
        text = b"".join(len(part).to_bytes(8, "big") + part for part in (user, hashed, password))
        return hmac.digest(self._secret, text, hashlib.sha256)

    def _stand_in(self, users: Mapping[bytes, bytes], user: bytes) -> bytes:
        """Return a hash for an unknown user: of the cost of one of the users, and always the same for a name."""
        drawn = hmac.digest(self._secret, user, hashlib.sha256)
        model = sorted(users.values())[int.from_bytes(drawn[:8], "big") % len(users)]
        # Its cost and its salt; the rest does not matter.
        return model[:29] + bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in drawn[:31])


def _is_right(password: bytes, hashed: bytes) -> tuple[bool, float]:
    """Return whether a password is right, and the processor seconds of the check."""
    began = time.thread_time()
    fits = bcrypt.checkpw(password[:_PASSWORD_BYTES], hashed)
    return fits and len(password) <= _PASSWORD_BYTES, time.thread_time() - began
