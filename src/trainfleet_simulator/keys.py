"""The keys that a simulated cloud accepts, permanent and temporary, and tokens that expire."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

_NEAR_LIFETIME = 21600.0
"""Lifetime in seconds of keys that a service near the machine issues."""


@dataclass(slots=True)
class Key:
    """A key pair. A temporary one has a security token and the time of its expiration (Unix seconds).

    `role` is its role or agency. `via` is its issuer: `AssumeRole`, `AssumeRoleWithOIDC`, `sts`, `metadata` or
    `credentials_uri`.
    """

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str = field(default="", repr=False)
    issued: float = 0.0
    expires: float = math.inf
    role: str = ""
    via: str = ""

    def has_expired(self, now: float) -> bool:
        """Return whether it is rejected because of its age."""
        return now >= self.expires


class Keys:
    """Every key by id. `issued` are the temporary ones, oldest first. After a new one, the older ones stay valid."""

    def __init__(self, permanent: Key) -> None:
        self.issued: list[Key] = []
        self.permanent = permanent
        self._by_id = {permanent.access_key_id: permanent}

    def replace(self, permanent: Key) -> None:
        """Accept this permanent key in place of the previous one."""
        del self._by_id[self.permanent.access_key_id]
        self.permanent = permanent
        self._by_id[permanent.access_key_id] = permanent

    def find(self, key_id: str) -> Key | None:
        """Return the key with this id, expired or not; None if it is unknown."""
        return self._by_id.get(key_id)

    def add(self, key: Key) -> Key:
        """Accept a temporary key, and return it."""
        self.issued.append(key)
        self._by_id[key.access_key_id] = key
        return key


class Issuer:
    """Issues the temporary keys of an account.

    `lifetime` (seconds) is that of every further key. If it is None, callers choose it.
    """

    def __init__(self, keys: Keys) -> None:
        self.lifetime: float | None = None
        self._keys = keys

    @property
    def issued(self) -> list[Key]:
        """Return every temporary key so far, oldest first; `via` is its issuer."""
        return self._keys.issued

    def make(self) -> tuple[str, str, str]:
        """Return a new key id, secret and security token in the form of the cloud."""
        raise NotImplementedError

    def issue(self, role: str, via: str, now: float, wanted: float) -> Key:
        """Issue a temporary key for `wanted` seconds, unless `lifetime` is set."""
        # The services write whole seconds, so a key ends at a whole second.
        expires = int(now + (wanted if self.lifetime is None else self.lifetime))
        return self._keys.add(Key(*self.make(), issued=now, expires=expires, role=role, via=via))

    def renewed(self, role: str, via: str, now: float, *, early: float) -> Key:
        """Return the current key of a service near the machine. A new one exists `early` seconds before it expires, or
        after half its life if that is later."""
        key = next((key for key in reversed(self.issued) if key.via == via), None)
        if key is None or key.role != role:
            return self.issue(role, via, now, _NEAR_LIFETIME)
        is_due = now >= key.expires - min(early, (key.expires - key.issued) / 2)
        return self.issue(role, via, now, _NEAR_LIFETIME) if is_due else key


class Tokens:
    """Tokens of one kind that expire. After a new one, the older ones stay valid.

    `make` builds a token from the number of earlier tokens and the Unix time. `lifetime` is in seconds.
    """

    def __init__(self, make: Callable[[int, float], str], lifetime: float = 86400.0) -> None:
        self.lifetime = lifetime
        self._make = make
        self._expiry: dict[str, float] = {}

    @property
    def issued(self) -> list[str]:
        """Return every token so far, oldest first."""
        return list(self._expiry)

    def issue(self, now: float, lifetime: float | None = None) -> str:
        """Issue a token that is valid for so many seconds."""
        token = self._make(len(self._expiry), now)
        self._expiry[token] = now + (self.lifetime if lifetime is None else lifetime)
        return token

    def is_valid(self, token: str, now: float) -> bool:
        """Return whether the token was issued here and has not expired."""
        return now < self._expiry.get(token, now)

    def revoke_all(self) -> None:
        """Revoke every token that was issued so far."""
        self._expiry = dict.fromkeys(self._expiry, 0.0)
