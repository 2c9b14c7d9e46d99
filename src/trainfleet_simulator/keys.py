"""The keys that open a simulated cloud, permanent and temporary, and tokens that expire."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Key:
    """A key pair. A temporary one has a security token and a time from which it is refused; times are Unix seconds.

    `role` is the role or agency that it acts as. `via` says who issued it: `AssumeRole`, `AssumeRoleWithOIDC`, `sts`,
    `metadata` or `credentials_uri`.
    """

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str = field(default="", repr=False)
    issued: float = 0.0
    expires: float = math.inf
    role: str = ""
    via: str = ""
    revoked: bool = False

    def has_expired(self, now: float) -> bool:
        """Whether it is refused because of its age."""
        return now >= self.expires


class Keys:
    """Every key by its id. `issued` are the temporary ones, oldest first; a new one leaves the older ones valid."""

    def __init__(self, permanent: Key) -> None:
        self.issued: list[Key] = []
        self._permanent = permanent
        self._by_id = {permanent.access_key_id: permanent}

    def replace(self, permanent: Key) -> None:
        """Accept this permanent key from now on, and no longer the one before."""
        del self._by_id[self._permanent.access_key_id]
        self._permanent = permanent
        self._by_id[permanent.access_key_id] = permanent

    def find(self, key_id: str) -> Key | None:
        """The key with this id, expired or not; None for an unknown or revoked one."""
        key = self._by_id.get(key_id)
        return None if key is None or key.revoked else key

    def add(self, key: Key) -> Key:
        """Accept a temporary key, which is returned."""
        self.issued.append(key)
        self._by_id[key.access_key_id] = key
        return key

    def revoke(self, key_id: str | None = None) -> int:
        """Refuse one temporary key from now on, or all that were issued so far; returns how many that were."""
        found = [key for key in self.issued if key_id in {None, key.access_key_id} and not key.revoked]
        for key in found:
            key.revoked = True
        return len(found)


class Tokens:
    """Tokens of one kind, each valid for a while; a new one leaves the older ones valid.

    `make` writes a token of the number of those before it and the Unix time. `lifetime` is in seconds.
    """

    def __init__(self, make: Callable[[int, float], str], lifetime: float = 86400.0) -> None:
        self.lifetime = lifetime
        self._make = make
        self._expiry: dict[str, float] = {}

    @property
    def issued(self) -> list[str]:
        """Every token so far, oldest first."""
        return list(self._expiry)

    def issue(self, now: float, lifetime: float | None = None) -> str:
        """A new token, valid for so many seconds."""
        token = self._make(len(self._expiry), now)
        self._expiry[token] = now + (self.lifetime if lifetime is None else lifetime)
        return token

    def is_valid(self, token: str, now: float) -> bool:
        """Whether the token was issued here and has not expired."""
        return now < self._expiry.get(token, now)

    def revoke_all(self) -> None:
        """Refuse every token that was issued so far."""
        self._expiry = dict.fromkeys(self._expiry, 0.0)
