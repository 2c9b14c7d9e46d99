"""Answers about credentials: STS, IAM, and the metadata service of a server. Times are ISO 8601 texts.

Every field may be missing or null.
"""

from __future__ import annotations

import msgspec


class AgencyKeys(msgspec.Struct, gc=False):
    """Temporary keys of an agency."""

    access_key_id: str | None = None
    access_key_secret: str | None = msgspec.field(name="secret_access_key", default=None)
    security_token: str | None = None
    expiration: str | None = None


class AgencyAnswer(msgspec.Struct, gc=False):
    """AssumeAgencyWithOIDC."""

    credentials: AgencyKeys | None = None


class ServerKeys(msgspec.Struct, gc=False):
    """Temporary keys of the agency that a server has."""

    access_key_id: str | None = msgspec.field(name="access", default=None)
    access_key_secret: str | None = msgspec.field(name="secret", default=None)
    security_token: str | None = msgspec.field(name="securitytoken", default=None)
    expiration: str | None = msgspec.field(name="expires_at", default=None)


class ServerAnswer(msgspec.Struct, gc=False):
    """The security key of the metadata service."""

    credential: ServerKeys | None = None


class Project(msgspec.Struct, gc=False):
    """A project of the account."""

    id: str | None = None


class ProjectsAnswer(msgspec.Struct, gc=False):
    """KeystoneListProjects."""

    projects: list[Project | None] | None = None


class IssuedToken(msgspec.Struct, gc=False):
    """IAM's description of a token. The token itself is in a header."""

    expires_at: str | None = None
    project: Project | None = None


class TokenAnswer(msgspec.Struct, gc=False):
    """KeystoneCreateUserTokenByPassword."""

    token: IssuedToken | None = None
