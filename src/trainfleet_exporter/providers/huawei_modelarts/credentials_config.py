"""The credentials of a provider of platform `huawei_modelarts`, as the config file says them."""

from __future__ import annotations

from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, PrivateAttr, ValidationInfo, WrapValidator, model_validator

from trainfleet_exporter.config import Section
from trainfleet_exporter.config.kinds import Flag, SecretText, Text
from trainfleet_exporter.config.scalars import Surroundings, refuse, show
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.huawei_modelarts.environment import found_in, profile_file
from trainfleet_exporter.providers.huawei_modelarts.profiles import ProfileFile
from trainfleet_exporter.providers.huawei_modelarts.sts import Session
from trainfleet_exporter.providers.huawei_modelarts.wording import HuaweiRule

_FORMS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("access_key", "secret_key"), ("security_token",)),
    (("username", "password", "domain_name"), ()),
    (("oidc",), ()),
    (("ecs_agency",), ()),
    (("profile",), ()),
)
"""Each way to say who asks: the keys that it needs, and those that it may have."""


class Oidc(Section):
    """An agency that trusts the ID tokens of a provider, a Kubernetes cluster's as a rule."""

    other_names = {"role_arn": "agency_urn"}  # noqa: RUF012 - a class variable of the base

    provider_urn: Text
    """The identity provider, as IAM names it."""
    agency_urn: Text
    """The agency to assume."""
    token: SecretText
    """A file of a projected service account token, as a rule: it is replaced long before the token ends."""


class Credentials(Section):
    """Who asks, in one of several ways."""

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
    """The AK of an IAM user."""
    secret_key: SecretText | None = None
    """The SK that goes with `access_key`."""
    security_token: SecretText | None = None
    """Goes with the two before, where they are temporary keys."""
    username: Text | None = None
    """The name of an IAM user, who gets tokens by `password`."""
    password: SecretText | None = None
    """Goes with `username`."""
    domain_name: Text | None = None
    """The name of the account that the user `username` belongs to."""
    oidc: Oidc | None = None
    """An agency that trusts an identity provider's tokens, such as those of a Kubernetes cluster."""
    ecs_agency: Flag = False
    """The agency of the cloud server that this runs on."""
    profile: Text | None = None
    """A section of the vendor's file of credentials."""

    _profile_file: ProfileFile | None = PrivateAttr(None)
    _tried: tuple[str, ...] = PrivateAttr(())
    _session: Session = PrivateAttr(Session())
    _project_id: str = PrivateAttr("")

    @property
    def profile_file(self) -> ProfileFile | None:
        """The section of `profile`, as it can be read."""
        return self._profile_file

    @property
    def tried(self) -> tuple[str, ...]:
        """Where the config names no credentials: why the links of the vendor's chain before this one had nothing."""
        return self._tried

    @property
    def session(self) -> Session:
        """What is asked of STS beside the agency."""
        return self._session

    @property
    def project_id(self) -> str:
        """The project that goes with these credentials, where their source names one; else empty."""
        return self._project_id

    @model_validator(mode="after")
    def _one_form(self, info: ValidationInfo) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name)]
        for needed, optional in _FORMS:
            if set(needed) <= set(given) <= {*needed, *optional}:
                break
        else:
            refuse(HuaweiRule.CREDENTIALS_FORM, found=_what_is_wrong(given))
        if self.profile is not None:
            try:
                file = profile_file(self.profile, Surroundings.of(info).environ)
                self._project_id = file.read().project_id
            except AccessDenied as error:
                refuse(HuaweiRule.PROFILE, found=show(self.profile), reason=error.message)
            self._profile_file = file
        return self

    @classmethod
    def or_chain(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Credentials that the file leaves out are what the vendor's chain finds."""
        if given is not None:
            return handler(given)
        found = found_in(Surroundings.of(info).environ)
        credentials = handler(found.given)
        credentials._tried = found.tried
        credentials._session = found.session
        credentials._project_id = found.project_id or credentials._project_id
        return credentials


OR_CHAIN = WrapValidator(Credentials.or_chain)
"""Beside the type of a field that may be left out."""


def _what_is_wrong(given: list[str]) -> str:
    touched = [(needed, optional) for needed, optional in _FORMS if {*needed, *optional} & set(given)]
    if not touched:
        return "no credentials in it"
    if len(touched) > 1:
        return f"{', '.join(given)}, which are parts of several forms"
    missing = [name for name in touched[0][0] if name not in given]
    return f"{' and '.join(given)} without {' and '.join(missing)}"
