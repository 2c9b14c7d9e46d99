"""The section `credentials` of a provider of platform `alibaba_pai`, and how its keys are found.

Without a section, keys are found in the order of the vendor's clients. The first source that says something is used,
even if a service rejects it later: the exporter must not become another user because STS was busy.

    environment ──► OIDC variables ──► profile of the CLI ──► ECS metadata

https://www.alibabacloud.com/help/en/sdk/developer-reference/v2-manage-python-access-credentials
https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerolewithoidc
https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
https://www.alibabacloud.com/help/en/cli/configure-credentials
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

import msgspec
from pydantic import AfterValidator, PlainValidator

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import SecretText, Text
from trainfleet_exporter.config.secrets import show
from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.providers.alibaba_pai.api import PaiDialect, judge
from trainfleet_exporter.providers.key_search import (
    CredentialsSection,
    Environment,
    MetadataService,
    NoHttp,
    OpenDialect,
    in_words,
    issued_keys,
    secret_of,
    usable,
)
from trainfleet_exporter.providers.keys import GivenKeys, Keys
from trainfleet_exporter.transport import Call
from trainfleet_exporter.transport.json_fields import iso_time


def _arn(kind: str, what: str) -> AfterValidator:
    def validate(text: str) -> str:
        if not re.fullmatch(rf"acs:ram::[0-9]{{1,32}}:{kind}/[!-~]{{1,128}}", text, re.ASCII):
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
    forms = (
        (("access_key_id", "access_key_secret"), ("security_token",)),
        (("access_key_id", "access_key_secret", "role_arn"), ("security_token", "external_id")),
        (("role_arn",), ("external_id",)),
        *(((key,), ()) for key in ("oidc", "ecs_ram_role", "profile")),
    )

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
    """Profile in `~/.aliyun/config.json`."""


KEPT: Mapping[str, float] = {
    **dict.fromkeys(("AssumeRole", "AssumeRoleWithOIDC"), 2700.0),
    **dict.fromkeys(("PutToken", "ListRamRoles", "GetRamRoleCredentials"), 6 * 3600 - 900.0),
}
"""Seconds for which the answer of an operation is used, as a rule."""
_PREFIX = "ALIBABA_CLOUD_"
_KEYS = (_PREFIX + "ACCESS_KEY_ID", _PREFIX + "ACCESS_KEY_SECRET", _PREFIX + "SECURITY_TOKEN")
_OIDC = (_PREFIX + "OIDC_PROVIDER_ARN", _PREFIX + "OIDC_TOKEN_FILE", _PREFIX + "ROLE_ARN")
_UNSUPPORTED = (_PREFIX + "CREDENTIALS_FILE", _PREFIX + "CREDENTIALS_URI")
_CLI, _SDK = "~/.aliyun/config.json", ("credentials", "credentials.ini")
_STS_VERSION = "2015-04-01"
_ISSUED = ("AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration")
_METADATA = MetadataService(
    origin="ECS metadata",
    operations=("PutToken", "ListRamRoles", "GetRamRoleCredentials"),
    carrier="X-aliyun-ecs-metadata-token",
    path="/latest/meta-data/ram/security-credentials/",
    names=_ISSUED,
)


async def load(section: Credentials | None, environ: Mapping[str, str], http: NoHttp) -> Keys:
    """The keys of a section, or of the vendor's chain without one. Raises CloudError."""
    env = Environment(environ)
    if section is None:
        return await _chain(env, http)
    if section.oidc is not None:
        return await _assume_with_oidc(http, section.oidc.provider_arn, section.oidc.token, section.oidc.role_arn)
    if section.ecs_ram_role is not None:
        return await _machine(env, http, "" if section.ecs_ram_role is True else section.ecs_ram_role)
    if section.profile is not None:
        return await _use(env, http, _profiles(env)[0], section.profile)
    if section.access_key_id is not None and section.access_key_secret is not None:
        keys = GivenKeys(section.access_key_id, section.access_key_secret, section.security_token).current()
    else:
        keys = await _chain(env, http)
    if section.role_arn is None:
        return keys
    external_id = "" if section.external_id is None else section.external_id.reveal()
    return await _assume(http, keys, _session(section.role_arn), external_id)


async def _chain(env: Environment, http: NoHttp) -> Keys:
    if (keys := env.keys(*_KEYS)) is not None:
        return keys
    if any(env.get(name) for name in _OIDC[:2]) and env.all_or_none(*_OIDC):  # a role alone says nothing
        provider, path, role = map(env.get, _OIDC)
        token, name = secret_of(Path(path), f"the file of {_OIDC[1]}"), env.get(_PREFIX + "ROLE_SESSION_NAME")
        return await _assume_with_oidc(http, provider, token, role, name)
    profiles, current = _profiles(env)
    if (chosen := env.get(_PREFIX + "PROFILE") or current) or profiles:
        return await _use(env, http, profiles, chosen)
    # Their authors mean another identity than that of the machine.
    if unsupported := [name for name in _UNSUPPORTED if env.get(name)]:
        raise AccessDenied(f"the environment sets {unsupported[0]}, which is not supported; use {_CLI}")
    for sdk in [env.file("", ".alibabacloud", name) for name in _SDK]:
        if sdk.read(str, "a text") is not None:
            raise AccessDenied(f"{sdk.shown} is not supported; use {_CLI}")
    wanted, passed = env.get(_PREFIX + "ECS_METADATA"), f"the environment sets no keys; {_CLI} has no profile"
    try:
        if env.get(_PREFIX + "ECS_METADATA_DISABLED").lower() == "true":
            raise AccessDenied("it is disabled")
        return await _machine(env, http, wanted)
    except CloudError as error:
        instead = f"set {_KEYS[0]} or give the machine a RAM role"
        error.message = f"no credentials found: {passed}; ECS metadata: {error.message}; {instead}"
        raise


def _session(role: str, name: str = "", policy: str = "") -> Mapping[str, str]:
    """The parameters of an assumed role, which lasts an hour: no role allows less, and chained ones no more."""
    asked = {"RoleArn": role, "RoleSessionName": name or "trainfleet-exporter", "DurationSeconds": "3600"}
    return asked | ({"Policy": policy} if policy else {})


async def _assume(http: NoHttp, keys: Keys, session: Mapping[str, str], external_id: str = "") -> Keys:
    secret = {"ExternalId": external_id} if external_id else {}
    query, secrets = {**session, **secret}, tuple(secret.values())
    call = Call(operation="AssumeRole", path="/", method="POST", query=query, secrets=secrets)
    origin = f"STS role {session['RoleArn']}, with keys of {in_words(keys.origin)}"
    dialect = PaiDialect("sts", _STS_VERSION, GivenKeys(*map(Secret, keys.parts())), http.clock)
    return await issued_keys(http, call, dialect, origin, _ISSUED, inside="Credentials")


async def _assume_with_oidc(http: NoHttp, provider: str, token: Secret, role: str, *session: str) -> Keys:
    """`session` is its name, and its policy."""
    id_token = token.reveal()
    # In the body, because proxies log addresses.
    body = urlencode({"OIDCProviderArn": provider, "OIDCToken": id_token, **_session(role, *session)}).encode()
    call = Call(operation="AssumeRoleWithOIDC", path="/", method="POST", body=body, secrets=(id_token,))
    origin = f"OIDC role {role}, with the token of {in_words(token.source)}"

    def headers(call: Call) -> Mapping[str, str]:
        """What STS requires of a caller without keys."""
        return {
            "content-type": "application/x-www-form-urlencoded",
            "x-acs-action": call.operation,
            "x-acs-date": iso_time(http.clock.now()),
            "x-acs-signature-nonce": uuid.uuid4().hex,
            "x-acs-version": _STS_VERSION,
        }

    return await issued_keys(http, call, OpenDialect("sts", judge, headers), origin, _ISSUED, inside="Credentials")


async def _machine(env: Environment, http: NoHttp, role: str) -> Keys:
    """The keys of the machine's RAM role."""
    return await _METADATA.keys(http, role, is_required=env.get(_PREFIX + "IMDSV1_DISABLED").lower() == "true")


# Profiles of the vendor's CLI: a list, and the name of the current one.

_Profiles: TypeAlias = Mapping[str, Mapping[str, Any]]


class _File(msgspec.Struct):
    current: str | None = None
    profiles: list[dict[str, Any]] | None = None


def _profiles(env: Environment) -> tuple[_Profiles, str]:
    """The profiles by name, and the current one. AccessDenied for a file of no use."""
    found = None
    if env.get(_PREFIX + "CLI_PROFILE_DISABLED").lower() != "true":
        file = env.file("", *Path(_CLI).parts[1:])
        found = file.read(partial(msgspec.json.decode, type=_File), "a JSON file of the CLI")
    found = found or _File()
    # Of several with one name, the vendor's tools use the first.
    return {str(each.get("name")): each for each in reversed(found.profiles or [])}, found.current or ""


async def _use(env: Environment, http: NoHttp, profiles: _Profiles, name: str, *seen: str) -> Keys:
    """The keys of a profile. What cannot be used is an AccessDenied that names file, profile and key, but no value."""
    shown = f"profile {show(name)} of {_CLI}"
    if name in seen:
        raise AccessDenied(f"{shown} cannot be used: source_profile leads back to it")
    if name not in profiles:
        raise AccessDenied(f"{_CLI} cannot be used: no profile {show(name) if name else 'is current'}")
    values = profiles[name]

    def get(key: str, *, optional: bool = False) -> str:
        """A value. The CLI writes empty ones where its user chose nothing."""
        given = values.get(key)
        text = str(given) if isinstance(given, str | int) else ""
        return text if optional else usable(text, f"{key} of {shown}")

    def role() -> tuple[str, str, str]:
        return get("ram_role_arn"), get("ram_session_name", optional=True), get("policy", optional=True)

    match mode := get("mode", optional=True):
        case "AK":
            # There may be the token of earlier keys, which does not belong to these.
            return Keys(get("access_key_id"), get("access_key_secret"), origin=shown)
        case "StsToken":
            return Keys(get("access_key_id"), get("access_key_secret"), get("sts_token"), origin=shown)
        case "EcsRamRole":
            return await _machine(env, http, get("ram_role_name", optional=True))
        case "OIDC":
            token = secret_of(Path(get("oidc_token_file")), f"oidc_token_file of {shown}")
            return await _assume_with_oidc(http, get("oidc_provider_arn"), token, *role())
        case "RamRoleArn":
            keys = Keys(get("access_key_id"), get("access_key_secret"), origin=shown)
        case "ChainableRamRoleArn":
            keys = await _use(env, http, profiles, get("source_profile"), *seen, name)
        case _:
            allowed = "allowed: AK, StsToken, EcsRamRole, OIDC, RamRoleArn, ChainableRamRoleArn"
            raise AccessDenied(f"{shown} cannot be used: mode {show(mode)} is not supported; {allowed}")
    return await _assume(http, keys, _session(*role()), get("external_id", optional=True))
