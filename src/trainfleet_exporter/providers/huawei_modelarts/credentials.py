"""The keys of the section `credentials` of a provider of platform `huawei_modelarts`."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import Flag, SecretText, Text
from trainfleet_exporter.providers.key_search import CredentialsSection

_ALLOWED = (
    "allowed: access_key and secret_key, perhaps with security_token; or username, password and "
    "domain_name; or oidc; or ecs_agency: true; or profile; or no credentials for those of the vendor's own chain"
)


class Oidc(Section):
    """An agency that trusts the tokens of an identity provider, usually of a Kubernetes cluster."""

    other_names = {"role_arn": "agency_urn"}  # noqa: RUF012 - a class variable of the base

    provider_urn: Text
    """URN of the identity provider in IAM."""
    agency_urn: Text
    """URN of the agency to assume."""
    token: SecretText
    """Token of the identity provider. Set `token_file` if Kubernetes mounts and renews the token."""


class Credentials(CredentialsSection):
    """Credentials of one form."""

    other_names = {  # noqa: RUF012 - a class variable of the base
        "access_key_id": "access_key",
        "ak": "access_key",
        "access_key_secret": "secret_key",
        "secret_access_key": "secret_key",
        "sk": "secret_key",
        "session_token": "security_token",
        "ecs_ram_role": "ecs_agency",
    }

    access_key: SecretText | None = None
    """Access key (AK) of an IAM user."""
    secret_key: SecretText | None = None
    """Secret key (SK) of `access_key`."""
    security_token: SecretText | None = None
    """Token of a temporary access key."""
    username: Text | None = None
    """Name of an IAM user who gets tokens with `password`."""
    password: SecretText | None = None
    """Password of `username`."""
    domain_name: Text | None = None
    """Name of the account of `username`."""
    oidc: Oidc | None = None
    """Agency that trusts tokens of an identity provider, such as a Kubernetes cluster."""
    ecs_agency: Flag = False
    """Uses the agency of the cloud server."""
    profile: Text | None = None
    """Profile in `~/.huaweicloud/credentials`."""

    def given_keys(self) -> tuple[Secret, ...]:
        """The keys."""
        if self.access_key is None or self.secret_key is None:
            return ()
        return (self.access_key, self.secret_key, *([self.security_token] if self.security_token else []))

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_form(
            _ALLOWED,
            (("access_key", "secret_key"), ("security_token",)),
            (("username", "password", "domain_name"), ()),
            (("oidc",), ()),
            (("ecs_agency",), ()),
            (("profile",), ()),
        )
        return self
