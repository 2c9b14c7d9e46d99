"""Sources of credentials in the config and the environment: plain data, known before any call.

Sources of equal configs are equal. `chain.open_credential` makes a credential of a source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from trainfleet_exporter.config import Secret
from trainfleet_exporter.providers.credentials.profile import ProfileFile

_KEY_ID = re.compile(r"LTAI[A-Za-z0-9]{12,26}|STS\.[A-Za-z0-9]{10,}|[A-Z0-9]{20}")
"""Key ids of the clouds. Their secrets have 30 characters or more, of both cases."""


@dataclass(frozen=True, slots=True)
class GivenKeys:
    """Keys of the config file, of files that it names, or of the environment. ValueError if they are swapped."""

    access_key_id: Secret
    access_key_secret: Secret
    security_token: Secret | None = None

    def __post_init__(self) -> None:
        if is_swapped(self.access_key_id.reveal(), self.access_key_secret.reveal()):
            raise ValueError("found a key id as the secret, and the secret as the key id; allowed: swap the two")


def is_swapped(key_id: str, secret: str) -> bool:
    """Return whether a secret has the form of a key id, and the key id has not."""
    return _KEY_ID.fullmatch(secret) is not None and _KEY_ID.fullmatch(key_id) is None


@dataclass(frozen=True, slots=True)
class ProfileKeys:
    """Keys of a profile, read again when its file changes. `kind` is its first kind, if the cloud has several."""

    file: ProfileFile[Any]
    profile: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """What a request for a role says besides the role. `policy` (JSON) and `policy_ids` narrow the role's rights."""

    name: str = "trainfleet-exporter"
    seconds: int = 3600
    """The longest that every role allows."""
    policy: str = ""
    policy_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """Keys for a role, requested with other keys."""

    role: str
    base: KeySource
    external_id: Secret | None = None
    session: Session = Session()


@dataclass(frozen=True, slots=True)
class OidcRole:
    """Keys for a role, requested with a token of an identity provider; `provider` is its name at the cloud."""

    role: str
    token: Secret
    """In a file as a rule, which is replaced before the token expires."""
    provider: str = ""
    session: Session = Session()


@dataclass(frozen=True, slots=True)
class PasswordUser:
    """A token for the password of a user of the account `domain`."""

    name: str
    password: Secret
    domain: str


@dataclass(frozen=True, slots=True)
class MachineRole:
    """Keys of the machine's role, from its metadata service. Without a name: the role that it has."""

    name: str = ""
    needs_session: bool = False
    """Whether a metadata service that has no session tokens may not be asked at all."""


@dataclass(frozen=True, slots=True)
class KeysUri:
    """Keys that a service near the machine returns at an address. `target` (path and query) can hold secrets."""

    base_url: str
    target: Secret
    authorization: Secret | None = None
    """The value of the header, which is in a file as a rule."""


@dataclass(frozen=True, slots=True)
class FirstOf:
    """The first of these that has keys. `passed` says why the sources before them have none."""

    links: tuple[MachineRole | KeysUri, ...]
    passed: tuple[str, ...] = ()


KeySource: TypeAlias = GivenKeys | ProfileKeys | AssumedRole | OidcRole | MachineRole | KeysUri | FirstOf
Source: TypeAlias = KeySource | PasswordUser
