"""The keys of the section `credentials` of a provider of platform `aws_sagemaker`."""

from __future__ import annotations

import re
from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, model_validator

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import SecretText, Text
from trainfleet_exporter.providers.key_search import CredentialsSection

_ALLOWED = (
    "allowed: access_key_id and secret_access_key, perhaps with session_token; role_arn, perhaps "
    "with external_id, with them or a profile or alone; or web_identity; or profile; "
    "or no credentials for those of the vendor's own chain"
)
_ROLE = ("role_arn", "external_id")
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]{1,512}", re.ASCII)


def _role_arn(text: str) -> str:
    if not _ROLE_ARN.fullmatch(text):
        raise ValueError("allowed: an IAM role's ARN, such as arn:aws:iam::123456789012:role/trainfleet")
    return text


RoleArn: TypeAlias = Annotated[Text, AfterValidator(_role_arn)]


class WebIdentity(Section):
    """A role that trusts the tokens of an identity provider, usually of a Kubernetes cluster (IRSA)."""

    role_arn: RoleArn
    """ARN of the role to assume."""
    token: SecretText
    """Token of the identity provider. Set `token_file` if Kubernetes mounts and renews the token."""


class Credentials(CredentialsSection):
    """Credentials of one form."""

    other_names = {  # noqa: RUF012 - a class variable of the base
        "access_key": "access_key_id",
        "ak": "access_key_id",
        "access_key_secret": "secret_access_key",
        "secret_key": "secret_access_key",
        "sk": "secret_access_key",
        "security_token": "session_token",
        "oidc": "web_identity",
    }

    access_key_id: SecretText | None = None
    """Access key id of an IAM user or role."""
    secret_access_key: SecretText | None = None
    """Secret of `access_key_id`."""
    session_token: SecretText | None = None
    """Token of a temporary access key."""
    role_arn: RoleArn | None = None
    """Role to assume, with the access key, the profile or the credentials of the default chain."""
    external_id: SecretText | None = None
    """External id, if the role requires one."""
    web_identity: WebIdentity | None = None
    """Role that trusts tokens of an identity provider, such as a Kubernetes cluster (IRSA)."""
    profile: Text | None = None
    """Profile in `~/.aws/credentials` or `~/.aws/config`."""

    def given_keys(self) -> tuple[Secret, ...]:
        """The keys, if no role is assumed with them."""
        if self.access_key_id is None or self.secret_access_key is None or self.role_arn is not None:
            return ()
        return (self.access_key_id, self.secret_access_key, *([self.session_token] if self.session_token else []))

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_form(
            _ALLOWED,
            (("access_key_id", "secret_access_key"), ("session_token", *_ROLE)),
            (("profile",), _ROLE),
            (("role_arn",), ("external_id",)),
            (("web_identity",), ()),
        )
        if self.external_id is not None and self.role_arn is None:
            raise ValueError(f"found external_id without role_arn; {_ALLOWED}")
        return self
