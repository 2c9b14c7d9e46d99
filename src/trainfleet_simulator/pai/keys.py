"""The keys that open the simulated account: one for good, and temporary ones that expire or are revoked."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from trainfleet_simulator.exchange import ApiError


@dataclass(slots=True)
class Key:
    """A key pair; a temporary one has a security token, a time (Unix seconds) from which it is refused, and a role.

    `via` says who issued it: `AssumeRole`, `AssumeRoleWithOIDC`, `metadata` or `credentials_uri`.
    """

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    expires: float | None = None
    role: str = ""
    via: str = ""
    revoked: bool = False


class Keys:
    """Every key by its id. `issued` are the temporary ones, oldest first."""

    def __init__(self, permanent: Key) -> None:
        self.issued: list[Key] = []
        self._permanent = permanent
        self._by_id = {permanent.access_key_id: permanent}

    def replace(self, permanent: Key) -> None:
        """From now on this key opens the account for good, and the one before does not."""
        del self._by_id[self._permanent.access_key_id]
        self._permanent = permanent
        self._by_id[permanent.access_key_id] = permanent

    def find(self, key_id: str, now: float) -> Key:
        """The key that a request names. Raises ApiError where it is unknown, revoked or expired."""
        key = self._by_id.get(key_id)
        if key is None or key.revoked:
            raise ApiError(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
        if key.expires is not None and now >= key.expires:
            raise ApiError(400, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")
        return key

    def issue(self, role: str, via: str, expires: float) -> Key:
        """A new temporary key."""
        key = Key(
            access_key_id=f"STS.{secrets.token_hex(12)}",
            access_key_secret=secrets.token_hex(22),
            security_token=f"CAIS{secrets.token_hex(120)}",
            expires=expires,
            role=role,
            via=via,
        )
        self.issued.append(key)
        self._by_id[key.access_key_id] = key
        return key
