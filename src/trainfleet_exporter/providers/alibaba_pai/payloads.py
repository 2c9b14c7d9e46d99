"""Answers about credentials: STS 2015-04-01, the metadata service, and files of profiles."""

from __future__ import annotations

from msgspec import Struct


class TemporaryKeys(Struct, rename="pascal", gc=False):
    """Keys for a while. The expiration is an ISO 8601 text."""

    access_key_id: str | None = None
    access_key_secret: str | None = None
    security_token: str | None = None
    expiration: str | None = None


class StsAnswer(Struct, rename="pascal", gc=False):
    """AssumeRole, AssumeRoleWithOIDC."""

    credentials: TemporaryKeys | None = None


class MachineKeys(TemporaryKeys, rename="pascal", gc=False):
    """The keys of a machine's role, or of a credentials URI."""

    code: str | None = None


class CliConfig(Struct, gc=False):
    """`~/.aliyun/config.json`."""

    current: str | None = None
    profiles: list[dict[str, object]] | None = None
