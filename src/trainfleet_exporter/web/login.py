"""Users and passwords: who may come in by HTTP's basic authentication.

bcrypt takes its time, which is its point: it runs in a thread, for one login at a time, and only for passwords that
were not verified before. How long a refusal takes does not tell whether the user exists.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import string
from collections.abc import Mapping, Sequence
from enum import Enum

import bcrypt

from trainfleet_exporter.aside import Aside

_LONGEST = 72
"""Bytes of a password that bcrypt looks at; with a longer one nobody logs in."""
_WAITING = 32
"""Logins that may wait for their turn."""
_ALPHABET = (string.ascii_letters + string.digits).encode()


class Verdict(Enum):
    """What becomes of a login."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    BUSY = "busy"
    """Too many others wait already."""


def credentials(headers: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """User and password of the `Authorization` headers of a request; None unless there is one, and that well formed."""
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


class Logins:
    """Judges logins, and remembers which password each user has logged in with: by a digest, for this process only."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._verified: dict[bytes, bytes] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def judge(self, users: Mapping[bytes, bytes], headers: Sequence[bytes]) -> Verdict:
        """Whether one of the `users` (bcrypt hashes by name) comes with these `Authorization` headers."""
        given = credentials(headers)
        if given is None:
            return Verdict.REFUSED
        user, password = given
        hashed = users.get(user)
        digest = self._digest(user, hashed or b"", password)
        if hashed is not None and self._is_verified(user, digest):
            return Verdict.ADMITTED
        if self._waiting >= _WAITING:
            return Verdict.BUSY
        self._waiting += 1
        try:
            async with self._turn:
                if hashed is not None and self._is_verified(user, digest):  # by whoever came before
                    return Verdict.ADMITTED
                against = hashed or self._stand_in(users, user)
                try:
                    fits = await asyncio.get_running_loop().run_in_executor(Aside(), _fits, password, against)
                except RuntimeError:  # no thread is to be had
                    return Verdict.BUSY
        finally:
            self._waiting -= 1
        if hashed is None or not fits:
            return Verdict.REFUSED
        self._verified = {known: kept for known, kept in self._verified.items() if known in users} | {user: digest}
        return Verdict.ADMITTED

    def _is_verified(self, user: bytes, digest: bytes) -> bool:
        return hmac.compare_digest(self._verified.get(user, b""), digest)

    def _digest(self, user: bytes, hashed: bytes, password: bytes) -> bytes:
        # A digest of lengths and texts: of a user whose hash was changed, nothing is known any more.
        told = b"".join(len(part).to_bytes(8, "big") + part for part in (user, hashed, password))
        return hmac.digest(self._secret, told, hashlib.sha256)

    def _stand_in(self, users: Mapping[bytes, bytes], user: bytes) -> bytes:
        """A hash for a user that there is none of: of a cost that one of the users has, always the same for a name."""
        drawn = hmac.digest(self._secret, user, hashlib.sha256)
        model = sorted(users.values())[int.from_bytes(drawn[:8], "big") % len(users)]
        # Its cost and its salt; what comes after them decides nothing.
        return model[:29] + bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in drawn[:31])


def _fits(password: bytes, hashed: bytes) -> bool:
    fits = bcrypt.checkpw(password[:_LONGEST], hashed)
    return fits and len(password) <= _LONGEST
