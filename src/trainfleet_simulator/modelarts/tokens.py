"""IAM tokens: issued for a password, valid for a while."""

from __future__ import annotations

import hashlib

LIFETIME = 86400.0


class Tokens:
    """The tokens issued so far. A new one leaves the older ones valid. `lifetime` is in seconds."""

    def __init__(self, lifetime: float = LIFETIME) -> None:
        self.lifetime = lifetime
        self._expiry: dict[str, float] = {}

    @property
    def issued(self) -> list[str]:
        """Every token so far, oldest first."""
        return list(self._expiry)

    def issue(self, now: float) -> str:
        """A new token, as long as real ones without a catalog."""
        parts = (hashlib.sha256(f"{len(self._expiry)}/{now}/{part}".encode()).hexdigest() for part in range(8))
        token = f"MIISIM{''.join(parts)}"
        self._expiry[token] = now + self.lifetime
        return token

    def valid(self, token: str, now: float) -> bool:
        """Whether the token was issued here and has not expired."""
        return now < self._expiry.get(token, now)

    def revoke_all(self) -> None:
        """What a changed password does."""
        self._expiry = dict.fromkeys(self._expiry, 0.0)
