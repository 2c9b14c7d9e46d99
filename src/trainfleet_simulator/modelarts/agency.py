"""An agency of the account: the identities that it trusts, and its temporary keys.

A client gets them from STS with an ID token, or from the metadata service of a machine with the agency.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from trainfleet_simulator.keys import Key, Keys, Tokens
from trainfleet_simulator.modelarts.catalog import DOMAIN_ID

AGENCY = "trainfleet-exporter"
PROVIDER_URN = f"iam::{DOMAIN_ID}:oidc-provider:sim-cluster"
AGENCY_URN = f"iam::{DOMAIN_ID}:agency:{AGENCY}"
OIDC_TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ0cmFpbmZsZWV0LWV4cG9ydGVyIn0.c2ltdWxhdGVk"  # noqa: S105 - opens this only
MACHINE_LIFETIME = 86400.0  # seconds until keys of a machine's agency expire


@dataclass(slots=True)
class Agency:
    """An agency of the account, which tests change.

    `name` is the agency of the machine (None: it has none, and its metadata has no keys). `oidc_token` is the only ID
    token that STS accepts (None: none). `lifetime` of all further keys is in seconds. If it is None, callers of STS
    choose it, and the service chooses it for a machine.
    """

    keys: Keys = field(repr=False)
    name: str | None = AGENCY
    oidc_token: str | None = field(default=OIDC_TOKEN, repr=False)
    lifetime: float | None = None
    metadata_sessions: Tokens = field(default_factory=lambda: Tokens(_metadata_token), repr=False)
    """Tokens of the sessions of the metadata service."""

    @property
    def issued(self) -> list[Key]:
        """Return every temporary key so far, oldest first."""
        return self.keys.issued

    def issue(self, now: float, lifetime: float, via: str) -> Key:
        """Issue a temporary key."""
        access, secret, *rest = (_digest(f"{len(self.issued)}/{now}/{part}") for part in range(6))
        return self.keys.add(
            Key(
                access_key_id=f"HSTA{access[:16].upper()}",
                access_key_secret=secret[:40],
                security_token=f"hQpjb{''.join(rest)}",
                issued=now,
                expires=now + (lifetime if self.lifetime is None else self.lifetime),
                role=AGENCY,
                via=via,
            )
        )

    def of_machine(self, now: float) -> Key:
        """Return the machine's key. A new one replaces it after half of its lifetime."""
        key = next((key for key in reversed(self.issued) if key.via == "metadata"), None)
        if key is None or key.expires - now <= (key.expires - key.issued) / 2:
            key = self.issue(now, MACHINE_LIFETIME, "metadata")
        return key


def iam_token(number: int, now: float) -> str:
    """Return a token of IAM, as long as a real one without a catalog."""
    return f"MIISIM{''.join(_digest(f'{number}/{now}/{part}') for part in range(8))}"


def _metadata_token(number: int, now: float) -> str:
    return _digest(f"metadata/{number}/{now}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
