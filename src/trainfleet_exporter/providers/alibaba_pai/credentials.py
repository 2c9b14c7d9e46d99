"""The keys of the section `credentials` of a provider of platform `alibaba_pai`."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, PlainValidator, model_validator

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import SecretText, Text
from trainfleet_exporter.providers.key_search import CredentialsSection

_ALLOWED = (
    "allowed: access_key_id and access_key_secret, perhaps with security_token; role_arn, perhaps "
    "with external_id, with them or alone; or oidc; or ecs_ram_role; or profile; "
    "or no credentials for those of the vendor's own chain"
)
_ROLE = ("role_arn", "external_id")


def arn_form(kind: str) -> re.Pattern[str]:
    """Return the pattern of an ARN of RAM, of kind `role` or `oidc-provider`."""
    return re.compile(rf"acs:ram::[0-9]{{1,32}}:{kind}/[!-~]{{1,128}}", re.ASCII)


def _arn(kind: str, what: str) -> AfterValidator:
    form = arn_form(kind)

    def validate(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(f"allowed: {what}'s ARN, such as acs:ram::1234567890123456:{kind}/name")
        return text

    return AfterValidator(validate)


def _ram_role(value: object) -> Literal[True] | str:
    text = "true" if value is True else str(value)
    if text.lower() in {"true", "yes", "on"}:
        return True
    if text.lower() in {"false", "no", "off"} or not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text, re.ASCII):
        raise ValueError("allowed: true, or the name of the machine's RAM role")
    return text


RoleArn: TypeAlias = Annotated[Text, _arn("role", "a RAM role")]
ProviderArn: TypeAlias = Annotated[Text, _arn("oidc-provider", "an OIDC provider")]
RamRole: TypeAlias = Annotated[Literal[True] | str, PlainValidator(_ram_role)]


class Oidc(Section):
    """A role that trusts the tokens of an identity provider, usually of a Kubernetes cluster (RRSA)."""

    other_names = {"agency_urn": "role_arn"}  # noqa: RUF012 - a class variable of the base

    provider_arn: ProviderArn
    """ARN of the identity provider in RAM."""
    role_arn: RoleArn
    """ARN of the role to assume."""
    token: SecretText
    """Token of the identity provider. Set `token_file` if Kubernetes mounts and renews the token."""


class Credentials(CredentialsSection):
    """Credentials of one form."""

    other_names = {  # noqa: RUF012 - a class variable of the base
        "access_key": "access_key_id",
        "ak": "access_key_id",
        "secret_key": "access_key_secret",
        "secret_access_key": "access_key_secret",
        "sk": "access_key_secret",
        "session_token": "security_token",
        "ecs_agency": "ecs_ram_role",
    }

    access_key_id: SecretText | None = None
    """Access key id of a RAM user."""
    access_key_secret: SecretText | None = None
    """Secret of `access_key_id`."""
    security_token: SecretText | None = None
    """Token of a temporary access key."""
    role_arn: RoleArn | None = None
    """Role to assume, with the access key or with the credentials of the default chain."""
    external_id: SecretText | None = None
    """External id, if the role requires one."""
    oidc: Oidc | None = None
    """Role that trusts tokens of an identity provider, such as a Kubernetes cluster (RRSA)."""
    ecs_ram_role: RamRole | None = None
    """RAM role of the ECS instance: its name, or true for the role that the instance has."""
    profile: Text | None = None
    """Profile in `~/.aliyun/config.json` or `~/.alibabacloud/credentials`."""

    def given_keys(self) -> tuple[Secret, ...]:
        """The keys, if no role is assumed with them."""
        if self.access_key_id is None or self.access_key_secret is None or self.role_arn is not None:
            return ()
        return (self.access_key_id, self.access_key_secret, *([self.security_token] if self.security_token else []))

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_form(
            _ALLOWED,
            (("access_key_id", "access_key_secret"), ("security_token", *_ROLE)),
            (("role_arn",), ("external_id",)),
            (("oidc",), ()),
            (("ecs_ram_role",), ()),
            (("profile",), ()),
        )
        if self.external_id is not None and self.role_arn is None:
            raise ValueError(f"found external_id without role_arn; {_ALLOWED}")
        return self
