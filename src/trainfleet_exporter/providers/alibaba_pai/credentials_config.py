"""The credentials of a provider of platform `alibaba_pai`, as the config file says them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NoReturn, Self, TypeAlias

from pydantic import (
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from trainfleet_exporter.config import Section
from trainfleet_exporter.config.kinds import SecretText
from trainfleet_exporter.config.scalars import Surroundings, refuse, show, text_of
from trainfleet_exporter.config.wording import Rule
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.alibaba_pai.default_chain import (
    NoCredentialsError,
    UnusableEnvironmentError,
    allow_v1,
    default_chain,
    find_profile,
)
from trainfleet_exporter.providers.alibaba_pai.sources import (
    AssumedRole,
    GivenKeys,
    MachineRole,
    OidcRole,
    Source,
    arn_form,
)
from trainfleet_exporter.providers.alibaba_pai.wording import PaiRule

_KEY = ("access_key_id", "access_key_secret")
_FORMS: tuple[tuple[str, ...], ...] = (
    (*_KEY, "security_token", "role_arn", "external_id"),
    ("oidc",),
    ("ecs_ram_role",),
    ("profile",),
)
"""The keys that go together: each form but the first is one key."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile by its name, and what it says."""

    name: str
    source: Source = field(repr=False)


def _arn(kind: str, rule: PaiRule) -> PlainValidator:
    form = arn_form(kind)

    def validate(value: object) -> str:
        text = text_of(value, rule)
        if not form.fullmatch(text):
            refuse(rule, found=show(value))
        return text

    return PlainValidator(validate)


def _ram_role(value: object) -> Literal[True] | str:
    if value is True:
        return True
    text = text_of(value, PaiRule.RAM_ROLE)
    if text.lower() in {"true", "yes", "on"}:
        return True
    if text.lower() in {"false", "no", "off"} or not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text, re.ASCII):
        refuse(PaiRule.RAM_ROLE, found=show(value))
    return text


def _profile(value: object, info: ValidationInfo) -> Profile:
    if isinstance(value, Profile):
        return value
    name = text_of(value, PaiRule.PROFILE, reason="it is no text")
    if not name:
        refuse(PaiRule.PROFILE, found=show(value), reason="it is empty")
    try:
        return Profile(name, find_profile(name, Surroundings.of(info).environ))
    except AccessDenied as error:
        refuse(PaiRule.PROFILE, found=show(value), reason=error.message)


RoleArn: TypeAlias = Annotated[str, _arn("role", PaiRule.ROLE_ARN), PaiRule.ROLE_ARN]
ProviderArn: TypeAlias = Annotated[str, _arn("oidc-provider", PaiRule.OIDC_PROVIDER_ARN), PaiRule.OIDC_PROVIDER_ARN]
RamRole: TypeAlias = Annotated[Literal[True] | str, PlainValidator(_ram_role)]
ProfileName: TypeAlias = Annotated[Profile, PlainValidator(_profile), PlainSerializer(lambda profile: profile.name)]


class Oidc(Section):
    """A role that trusts the tokens of an identity provider, a Kubernetes cluster's as a rule (RRSA)."""

    other_names = {"agency_urn": "role_arn"}  # noqa: RUF012 - a class variable of the base

    provider_arn: ProviderArn
    """The identity provider, as RAM names it."""
    role_arn: RoleArn
    """The role to assume."""
    token: SecretText
    """A file of a projected service account token, as a rule: it is replaced long before the token ends."""


class Credentials(Section):
    """Who asks, in one of several ways."""

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
    """Of a RAM user."""
    access_key_secret: SecretText | None = None
    """Goes with `access_key_id`."""
    security_token: SecretText | None = None
    """Goes with the two before, where they are temporary keys."""
    role_arn: RoleArn | None = None
    """A role to assume, with the access key or else with what the default chain finds."""
    external_id: SecretText | None = None
    """What the role asks for beside, if it does."""
    oidc: Oidc | None = None
    """A role that trusts an identity provider's tokens, such as those of a Kubernetes cluster (RRSA)."""
    ecs_ram_role: RamRole | None = None
    """The RAM role of the machine that this runs on: its name, or true for whatever it has."""
    profile: ProfileName | None = None
    """A profile of `~/.aliyun/config.json` or `~/.alibabacloud/credentials`."""

    _source: Source | None = PrivateAttr(None)
    _by_default: bool = PrivateAttr(False)

    @property
    def source(self) -> Source:
        """Where the keys come from."""
        assert self._source is not None  # set by validation, which nothing goes round
        return self._source

    @model_validator(mode="after")
    def _one_form(self, info: ValidationInfo) -> Self:
        if self._source is None:
            self._source = self._find_source(Surroundings.of(info))
        return self

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any] | None:
        """What the file said; null for the default chain, so that it reads back as such."""
        if self._by_default:
            return None
        return {key: value for key, value in handler(self).items() if value is not None}

    @classmethod
    def or_chain(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Credentials that the file leaves out are what the vendor's default chain finds."""
        if given is not None:
            return handler(given)
        credentials = cls.model_construct()
        credentials._source = _of_chain(Surroundings.of(info))
        credentials._by_default = True
        return credentials

    def _find_source(self, surroundings: Surroundings) -> Source:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        touched = [form for form in _FORMS if set(form) & set(given)]
        if len(touched) != 1:
            found = f"{', '.join(given)}, which are parts of several forms" if given else "no credentials in it"
            refuse(PaiRule.CREDENTIALS_FORM, found=found)
        if self.oidc is not None:
            return OidcRole(self.oidc.provider_arn, self.oidc.role_arn, self.oidc.token)
        if self.ecs_ram_role is not None:
            name = "" if self.ecs_ram_role is True else self.ecs_ram_role
            return MachineRole(name, allow_v1(surroundings.environ))
        if self.profile is not None:
            return self.profile.source
        return self._key_or_role(given, surroundings)

    def _key_or_role(self, given: list[str], surroundings: Surroundings) -> Source:
        if self.external_id is not None and self.role_arn is None:
            refuse(PaiRule.CREDENTIALS_FORM, found="external_id without role_arn")
        base: Source | None = None
        if self.access_key_id is not None and self.access_key_secret is not None:
            base = GivenKeys(self.access_key_id, self.access_key_secret, self.security_token)
        elif self.role_arn is None or {*_KEY, "security_token"} & set(given):
            _refuse_missing([name for name in _KEY if name not in given])
        if self.role_arn is None:
            assert base is not None
            return base
        return AssumedRole(self.role_arn, base or _of_chain(surroundings), self.external_id)


OR_CHAIN = WrapValidator(Credentials.or_chain)
"""Beside the type of a field that may be left out."""


def _of_chain(surroundings: Surroundings) -> Source:
    try:
        return default_chain(surroundings.environ)
    except UnusableEnvironmentError as error:
        refuse(Rule.CREDENTIALS_CHAIN, reason=error)
    except NoCredentialsError as error:
        refuse(Rule.CREDENTIALS_NOWHERE, reason=error)


def _refuse_missing(names: list[str]) -> NoReturn:
    """Each missing key where it would stand, rather than all of them where the section begins."""
    details = [
        InitErrorDetails(
            type=PydanticCustomError("refused", "refused", {"message": Rule.HIDDEN_MISSING.format(key=name)}),
            loc=(name,),
            input=None,
        )
        for name in names
    ]
    raise ValidationError.from_exception_data("Credentials", details)
