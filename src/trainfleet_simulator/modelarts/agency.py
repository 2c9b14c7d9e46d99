"""Temporary access keys: issued to whom an agency trusts, good until they expire or are taken back.

Two ways lead to them: an ID token that STS accepts, and the metadata service of a machine that has the agency.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from trainfleet_simulator.modelarts.catalog import DOMAIN_ID

AGENCY = "trainfleet-exporter"
PROVIDER_URN = f"iam::{DOMAIN_ID}:oidc-provider:sim-cluster"
AGENCY_URN = f"iam::{DOMAIN_ID}:agency:{AGENCY}"
OIDC_TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ0cmFpbmZsZWV0LWV4cG9ydGVyIn0.c2ltdWxhdGVk"  # noqa: S105 - opens this only
MACHINE_LIFETIME = 86400.0  # seconds that keys of a machine's agency live


@dataclass(slots=True)
class TemporaryKey:
    """One issued key; `expires` is in Unix seconds, `origin` is `sts` or `metadata`."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(repr=False)
    issued: float
    expires: float
    origin: str
    revoked: bool = False

    def valid(self, now: float) -> bool:
        """Whether it opens anything."""
        return not self.revoked and now < self.expires


@dataclass(slots=True)
class Agency:
    """An agency of the account, as tests set it.

    `name` is the agency that the machine has (None: it has none, and its metadata no keys); `oidc_token` is the one ID
    token that STS accepts (None: none). `lifetime` is that of all keys issued from now on, in seconds; None leaves it
    to the caller of STS, and to the service for a machine. Without `metadata_tokens` the metadata service is an old
    one, which knows no tokens and wants none.
    """

    name: str | None = AGENCY
    oidc_token: str | None = field(default=OIDC_TOKEN, repr=False)
    lifetime: float | None = None
    metadata_tokens: bool = True
    issued: list[TemporaryKey] = field(default_factory=list)
    _by_access_key: dict[str, TemporaryKey] = field(default_factory=dict, repr=False)
    _metadata_tokens: dict[str, float] = field(default_factory=dict, repr=False)

    def issue(self, now: float, lifetime: float, origin: str) -> TemporaryKey:
        """A new key, which leaves the older ones valid."""
        number = len(self.issued)
        access, *rest = (hashlib.sha256(f"{number}/{now}/{part}".encode()).hexdigest() for part in range(6))
        key = TemporaryKey(
            access_key=f"HSTA{access[:16].upper()}",
            secret_key=rest[0][:40],
            security_token=f"hQpjb{''.join(rest[1:])}",
            issued=now,
            expires=now + (lifetime if self.lifetime is None else self.lifetime),
            origin=origin,
        )
        self.issued.append(key)
        self._by_access_key[key.access_key] = key
        return key

    def of_machine(self, now: float) -> TemporaryKey:
        """The machine's key, which is replaced when half of its life is over."""
        key = next((key for key in reversed(self.issued) if key.origin == "metadata"), None)
        if key is not None and key.valid(now) and key.expires - now > (key.expires - key.issued) / 2:
            return key
        return self.issue(now, MACHINE_LIFETIME, "metadata")

    def find(self, access_key: str) -> TemporaryKey | None:
        """The issued key of this id, expired or not; None where there is none, or no longer."""
        key = self._by_access_key.get(access_key)
        return None if key is None or key.revoked else key

    def revoke(self, access_key: str | None = None) -> None:
        """Take back one key, or all that were issued so far."""
        for key in self.issued:
            if access_key in {None, key.access_key}:
                key.revoked = True

    @property
    def metadata_sessions(self) -> list[str]:
        """The token of every session of the metadata service so far, oldest first."""
        return list(self._metadata_tokens)

    def metadata_token(self, now: float, lifetime: int) -> str:
        """A session of the metadata service."""
        token = hashlib.sha256(f"metadata/{len(self._metadata_tokens)}/{now}".encode()).hexdigest()
        self._metadata_tokens[token] = now + lifetime
        return token

    def knows_metadata_token(self, token: str, now: float) -> bool:
        """Whether a session is still open."""
        return now < self._metadata_tokens.get(token, now)
