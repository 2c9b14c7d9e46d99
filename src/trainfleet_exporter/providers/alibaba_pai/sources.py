"""Where keys come from, as it is known before anybody is asked: plain data, equal where configs are equal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from trainfleet_exporter.config import Secret
from trainfleet_exporter.process.redaction import HoldsSecrets

SESSION_NAME = "trainfleet-exporter"
DURATION = 3600
"""Seconds for which keys are asked for: the longest that every role allows."""
SHORTEST_DURATION, LONGEST_DURATION = 900, 43200
"""Seconds between which STS wants to be asked for keys."""
SESSION_NAME_FORM = re.compile(r"[A-Za-z0-9.@_-]{2,64}", re.ASCII)


def arn_form(kind: str) -> re.Pattern[str]:
    """What an ARN of RAM looks like, of kind `role` or `oidc-provider`."""
    return re.compile(rf"acs:ram::[0-9]{{1,32}}:{kind}/[!-~]{{1,128}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GivenKeys:
    """Keys of the config file (as text, or by reference to files) or of the environment."""

    access_key_id: Secret
    access_key_secret: Secret
    security_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class ProfileKeys:
    """Keys that a profile of the vendor's own files holds. The file is followed, the profile's mode is not."""

    file: Path
    shown: str
    """The file's name for people."""
    is_json: bool
    profile: str
    mode: str


@dataclass(frozen=True, slots=True)
class Session:
    """What is asked of STS beside the role."""

    name: str = SESSION_NAME
    seconds: int = DURATION
    policy: str = ""
    """Cuts the role's rights down further; JSON."""


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """Keys that STS gives for a role, to whom other keys belong (AssumeRole)."""

    role_arn: str
    base: Source
    external_id: Secret | None = None
    session: Session = Session()


@dataclass(frozen=True, slots=True)
class OidcRole:
    """Keys that STS gives for a role to whom has a token of an identity provider (AssumeRoleWithOIDC)."""

    provider_arn: str
    role_arn: str
    token: Secret
    """Of a file as a rule, which is replaced long before the token ends."""
    session: Session = Session()


@dataclass(frozen=True, slots=True)
class MachineRole:
    """Keys of the machine's RAM role, from the metadata service. Without a name, of whatever role it has."""

    name: str = ""
    allow_v1: bool = True
    """Whether a metadata service that gives no tokens may be asked without one."""


@dataclass(frozen=True, slots=True)
class KeysUri(HoldsSecrets):
    """Keys that a service of the operator's gives at an address. Its path and query can hold secrets."""

    base_url: str
    target: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FirstOf:
    """Whichever of these answers first, in their order; and why the places before them had nothing."""

    links: tuple[MachineRole | KeysUri, ...]
    passed: tuple[str, ...] = ()


Source: TypeAlias = GivenKeys | ProfileKeys | AssumedRole | OidcRole | MachineRole | KeysUri | FirstOf
