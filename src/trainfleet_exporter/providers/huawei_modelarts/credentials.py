"""The section `credentials` of a provider of platform `huawei_modelarts`, and how its keys are found.

Without a section, keys are found in the order of the vendor's clients; the first source that says something is used:

    OIDC variables ──► access key variables ──► profile file ──► agency of the machine, by ECS metadata

https://github.com/huaweicloud/huaweicloud-sdk-python-v3
https://support.huaweicloud.com/intl/en-us/api-iam5/AssumeAgencyWithOIDC.html
https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html (tokens)
https://support.huaweicloud.com/intl/en-us/usermanual-ecs/ecs_03_0166.html (metadata)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import Flag, SecretText, Text
from trainfleet_exporter.config.secrets import is_plain, show
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError
from trainfleet_exporter.providers.huawei_modelarts.api import Token, judge
from trainfleet_exporter.providers.key_search import (
    CredentialsSection,
    Environment,
    MetadataService,
    NoHttp,
    OpenDialect,
    in_words,
    issued_keys,
    parse_ini,
    secret_of,
    usable,
)
from trainfleet_exporter.providers.keys import GivenKeys, Keys
from trainfleet_exporter.transport import Call
from trainfleet_exporter.transport.json_fields import mapping, text, utc_time


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
    forms = (
        (("access_key", "secret_key"), ("security_token",)),
        (("username", "password", "domain_name"), ()),
        *(((key,), ()) for key in ("oidc", "ecs_agency", "profile")),
    )

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


KEPT: Mapping[str, float] = {
    **dict.fromkeys(("KeystoneCreateUserTokenByPassword", "GetMetadataToken", "GetSecurityKey"), 24 * 3600 - 900.0),
    "AssumeAgencyWithOIDC": 2700.0,
    "KeystoneListProjects": float("inf"),
}
"""Seconds for which the answer of an operation is used, as a rule."""
_SDK, _BY_OIDC = "HUAWEICLOUD_SDK_", "HUAWEICLOUD_OIDC_"
_OIDC = (_BY_OIDC + "PROVIDER_URN", _BY_OIDC + "AGENCY_URN", _BY_OIDC + "TOKEN_FILE")
_KEYS, _PROJECT = (_SDK + "AK", _SDK + "SK", _SDK + "SECURITY_TOKEN"), _SDK + "PROJECT_ID"
_FILE = (_SDK + "CREDENTIALS_FILE", ".huaweicloud", "credentials")
_UNSUPPORTED = (_BY_OIDC + "ID_TOKEN", "HC_CONTAINER_CREDENTIALS_FULL_URI")
_OF_STS = ("access_key_id", "secret_access_key", "security_token", "expiration")
"""Names of the parts of keys, and of their end, in answers."""
_METADATA = MetadataService(
    origin="ECS metadata",
    operations=("GetMetadataToken", "", "GetSecurityKey"),
    carrier="X-Metadata-Token",
    path="/openstack/latest/securitykey",
    names=("access", "secret", "securitytoken", "expires_at"),
    inside="credential",
    session_path="/meta-data/latest/api/token",
)


async def load(
    section: Credentials | None, environ: Mapping[str, str], http: NoHttp, *, scope: Mapping[str, str] | None = None
) -> Keys:
    """The keys of a section, or of the vendor's chain without one. Raises CloudError. `scope` selects the project."""
    env = Environment(environ)
    if section is None:
        return await _chain(env, http)
    if section.oidc is not None:
        asked = {"provider_urn": section.oidc.provider_urn, "agency_urn": section.oidc.agency_urn}
        return await _assume_with_oidc(http, asked, section.oidc.token)
    if section.ecs_agency:
        return await _METADATA.keys(http)
    if section.profile is not None:
        if (keys := _profile(env, section.profile)) is None:
            raise AccessDenied(f"no profile {show(section.profile)} in {env.file(*_FILE).shown}")
        return keys
    if section.password is not None:
        return await _token_of(http, section, section.password, scope or {})
    return GivenKeys(*section.given_keys()).current()


async def _chain(env: Environment, http: NoHttp) -> Keys:
    project_id = _checked_project(env.get(_PROJECT), _PROJECT)
    keys = await _first(env, http)
    return replace(keys, project_id=keys.project_id or project_id)


async def _first(env: Environment, http: NoHttp) -> Keys:
    if env.all_or_none(*_OIDC):
        provider, agency, path = map(env.get, _OIDC)
        policies = [part.strip() for part in env.get(_BY_OIDC + "POLICY_IDS").split(",")]
        more = {"agency_session_name": env.get(_BY_OIDC + "SESSION_NAME"), "policy": env.get(_BY_OIDC + "POLICY")}
        token = secret_of(Path(path), f"the file of {_OIDC[2]}")
        asked = {"provider_urn": provider, "agency_urn": agency, **more, "policy_ids": list(filter(None, policies))}
        return await _assume_with_oidc(http, asked, token)
    if env.get(_SDK + "IDP_ID"):
        # The vendor's clients would use this way and no other: its author means another identity.
        raise AccessDenied(f"the environment sets {_SDK}IDP_ID, which is not supported")
    if (keys := env.keys(*_KEYS) or _profile(env, "basic")) is not None:
        return keys
    # The authors of these variables mean another identity than the agency of the server.
    if unsupported := [name for name in _UNSUPPORTED if env.get(name)]:
        raise AccessDenied(f"the environment sets {unsupported[0]}, which is not supported; use an OIDC agency")
    try:
        return await _METADATA.keys(http)
    except CloudError as error:
        passed = f"the environment sets no keys, {env.file(*_FILE).shown} has no section [basic]"
        error.message = f"no credentials found: {passed}, ECS metadata: {error.message}"
        raise


async def _assume_with_oidc(http: NoHttp, asked: Mapping[str, object], token: Secret) -> Keys:
    """Keys of an agency. Not signed: the ID token proves the identity."""
    id_token, chosen = token.reveal(), {name: value for name, value in asked.items() if value}
    usual = {"agency_session_name": "trainfleet-exporter", "duration_seconds": 3600}
    path, body = "/v5/agencies/assume-with-oidc", json.dumps({"id_token": id_token} | usual | chosen).encode()
    call = Call(operation="AssumeAgencyWithOIDC", path=path, method="POST", body=body, secrets=(id_token,))
    origin = f"OIDC agency {asked['agency_urn']}, with the token of {in_words(token.source)}"
    return await issued_keys(http, call, _open("sts"), origin, _OF_STS, inside="credentials")


async def _token_of(http: NoHttp, section: Credentials, secret: Secret, scope: Mapping[str, str]) -> Token:
    """A token for a project. A HUAWEI ID account cannot have tokens this way."""
    origin = f"IAM password of user {section.username}, from {in_words(secret.source)}"
    http.asks(origin)
    password = secret.reveal()
    user = {"name": section.username, "password": password, "domain": {"name": section.domain_name}}
    identity = {"methods": ["password"], "password": {"user": user}}
    headers: dict[str, str] = {}
    call = Call(
        operation="KeystoneCreateUserTokenByPassword",
        path="/v3/auth/tokens?nocatalog=true",
        method="POST",
        body=json.dumps({"auth": {"identity": identity, "scope": {"project": scope}}}).encode(),
        secrets=(password,),
        receive_headers=headers.update,
    )
    answer = mapping(await http.call(call, dict, _open("iam")), "token")
    token, expires = headers.get("x-subject-token", ""), utc_time(answer, "expires_at")
    if not token or expires is None:
        message = "IAM's answer has no token, or does not say when it expires"
        raise BadAnswer(message, operation=call.operation)
    return Token("", "", token, expires, origin, text(mapping(answer, "project"), "id"))


def _open(api: str) -> OpenDialect:
    return OpenDialect(api, judge, lambda call: {"content-type": "application/json"})


def _profile(env: Environment, name: str) -> Keys | None:
    """The keys of a section as they are now; None without the section. AccessDenied names what cannot be used."""
    file = env.file(*_FILE)
    sections = file.read(parse_ini, "an INI file")
    if not sections or name not in sections:
        return None
    section, plain = sections[name], name if is_plain(name) else "…"
    where = f"section [{plain}] of {file.shown}"
    key_id, secret = (usable(section.get(key, ""), f"{key} of {where}") for key in ("ak", "sk"))
    token = section.get("security_token") or None
    project_id = _checked_project(section.get("project_id", ""), f"project_id of {where}")
    return Keys(key_id, secret, token, origin=f"profile {plain} of {file.shown}", project_id=project_id)


def _checked_project(text: str, name: str) -> str:
    if text and not re.fullmatch("[A-Za-z0-9-]{1,64}", text):
        raise AccessDenied(f"{name} is not 1 to 64 letters, digits and hyphens")
    return text
