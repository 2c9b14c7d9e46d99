"""The section `credentials` of a provider of platform `alibaba_pai`, and how its keys are found.

Without a section, keys are found in the order of the vendor's clients. The first source that says something is used,
even if a service rejects it later: the exporter must not become another user because STS was busy.

    environment ──► OIDC variables ──► CLI profile ──► SDK profile ──► ECS metadata ──► credentials URI

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
from typing import Annotated, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
import yarl
from pydantic import AfterValidator, PlainValidator, model_validator

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import SecretText, Text, is_loopback, parse_endpoint
from trainfleet_exporter.config.secrets import show
from trainfleet_exporter.errors import AccessDenied, NotFound, RequestTimedOut, Unreachable
from trainfleet_exporter.providers.alibaba_pai.api import PaiDialect, judge
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.key_search import (
    METADATA,
    CredentialsSection,
    Environment,
    NoHttp,
    OpenDialect,
    ProfileFile,
    in_words,
    issued_keys,
    judge_metadata,
    open_session,
    parse_ini,
    secret_of,
    usable,
)
from trainfleet_exporter.providers.keys import GivenKeys, Keys
from trainfleet_exporter.transport import Call, TextForm
from trainfleet_exporter.transport.json_fields import iso_time

_ALLOWED = (
    "allowed: access_key_id and access_key_secret, perhaps with security_token; role_arn, perhaps "
    "with external_id, with them or alone; or oidc; or ecs_ram_role; or profile; "
    "or no credentials for those of the vendor's own chain"
)
_ROLE = ("role_arn", "external_id")


class _IssuedKeys(msgspec.Struct, rename="pascal", gc=False):
    """Keys for a while, whose expiration is an ISO 8601 text. Those of STS have no code."""

    code: str | None = None
    access_key_id: str | None = None
    access_key_secret: str | None = None
    security_token: str | None = None
    expiration: str | None = None


class _StsAnswer(msgspec.Struct, rename="pascal", gc=False):
    credentials: _IssuedKeys | None = None


class _CliConfig(msgspec.Struct, gc=False):
    """`~/.aliyun/config.json`."""

    current: str | None = None
    profiles: list[dict[str, object]] | None = None


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
    key_names = ("access_key_id", "access_key_secret", "security_token")

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


KEPT: Mapping[str, float] = {
    **dict.fromkeys(("AssumeRole", "AssumeRoleWithOIDC", "GetCredentialsUri"), 2700.0),
    **dict.fromkeys(("PutToken", "ListRamRoles", "GetRamRoleCredentials"), 6 * 3600 - 900.0),
}
"""Seconds for which the answer of an operation is used, as a rule."""
_PREFIX = "ALIBABA_CLOUD_"
_KEYS = (_PREFIX + "ACCESS_KEY_ID", _PREFIX + "ACCESS_KEY_SECRET", _PREFIX + "SECURITY_TOKEN")
_OIDC = (_PREFIX + "OIDC_PROVIDER_ARN", _PREFIX + "OIDC_TOKEN_FILE", _PREFIX + "ROLE_ARN")
_SDK_FILE = (_PREFIX + "CREDENTIALS_FILE", ".alibabacloud", "credentials")
_STS_VERSION = "2015-04-01"
_SESSION = {"RoleSessionName": "trainfleet-exporter", "DurationSeconds": "3600"}
_A_ROLE_NAME = TextForm("the name of a role", re.compile(r"[A-Za-z0-9._+=,@-]{1,64}"))


async def load(section: Credentials | None, environ: Mapping[str, str], http: NoHttp) -> Keys:
    """The keys of a section, or of the vendor's chain without one. Raises CloudError."""
    env = Environment(environ)
    if section is None:
        return await _chain(env, http)
    if section.oidc is not None:
        return await _assume_with_oidc(http, section.oidc.provider_arn, section.oidc.role_arn, section.oidc.token)
    if section.ecs_ram_role is not None:
        return await _machine(env, http, "" if section.ecs_ram_role is True else section.ecs_ram_role)
    if section.profile is not None:
        return await _chosen_profile(env, http, section.profile)
    if section.access_key_id is not None and section.access_key_secret is not None:
        keys = GivenKeys(section.access_key_id, section.access_key_secret, section.security_token).current()
    else:
        keys = await _chain(env, http)
    if section.role_arn is None:
        return keys
    external_id = "" if section.external_id is None else section.external_id.reveal()
    return await _assume(http, keys, section.role_arn, _SESSION, external_id)


async def _chain(env: Environment, http: NoHttp) -> Keys:
    if (keys := env.keys(*_KEYS)) is not None:
        return keys
    if any(env.get(name) for name in _OIDC[:2]) and env.all_or_none(*_OIDC):  # a role alone says nothing
        name = env.get(_PREFIX + "ROLE_SESSION_NAME") or _SESSION["RoleSessionName"]
        provider, token, role = env.get(_OIDC[0]), env.secret_file(_OIDC[1]), env.get(_OIDC[2])
        return await _assume_with_oidc(http, provider, role, token, {**_SESSION, "RoleSessionName": name})
    if chosen := env.get(_PREFIX + "PROFILE"):
        return await _chosen_profile(env, http, chosen, f", which {_PREFIX}PROFILE names,")
    for profiles in _profiles(env):
        if profiles.current:
            return await _use(env, http, profiles, profiles.current)
        if profiles.by_name and not profiles.is_ini:
            raise AccessDenied(f"{profiles.file.shown} cannot be used: it has profiles, and none is current")
    passed = f"no credentials found: the environment sets no keys; {_shown_files(env)} have no profile; ECS metadata"
    instead = f"set {_KEYS[0]} or give the machine a RAM role"
    uri = env.get(_PREFIX + "CREDENTIALS_URI")
    if not env.is_true(_PREFIX + "ECS_METADATA_DISABLED"):
        wanted = env.get(_PREFIX + "ECS_METADATA")
        try:
            return await _machine(env, http, wanted)
        except (NotFound, Unreachable, RequestTimedOut) as error:  # this machine has none
            if wanted or not uri:
                error.message = error.message if wanted else f"{passed}: {error.message}; {instead}"
                raise
    if uri:
        return await _credentials_uri(http, uri)
    raise AccessDenied(f"{passed} is disabled; {instead}")


async def _assume(http: NoHttp, keys: Keys, role: str, session: Mapping[str, str], external_id: str = "") -> Keys:
    origin = f"STS role {role}, with keys of {in_words(keys.origin)}"
    http.asks(origin)
    secret = {"ExternalId": external_id} if external_id else {}
    query = {"RoleArn": role, **session, **secret}
    call = Call(operation="AssumeRole", path="/", method="POST", query=query, secrets=tuple(secret.values()))
    answer = await http.call(call, _StsAnswer, PaiDialect("sts", _STS_VERSION, GivenKeys.of(keys), http.clock))
    return issued_keys(answer.credentials, call.operation, origin)


async def _assume_with_oidc(
    http: NoHttp, provider: str, role: str, token: Secret, session: Mapping[str, str] = _SESSION
) -> Keys:
    origin, id_token = f"OIDC role {role}, with the token of {in_words(token.source)}", token.reveal()
    http.asks(origin)
    # In the body, because proxies log addresses.
    body = urlencode({"OIDCProviderArn": provider, "RoleArn": role, "OIDCToken": id_token, **session}).encode()
    call = Call(operation="AssumeRoleWithOIDC", path="/", method="POST", body=body, secrets=(id_token,))
    answer = await http.call(call, _StsAnswer, OpenDialect("sts", judge, partial(_open_headers, http.clock)))
    return issued_keys(answer.credentials, call.operation, origin)


def _open_headers(clock: ServerClock, call: Call) -> Mapping[str, str]:
    """The headers that STS requires of a caller without keys."""
    return {
        "content-type": "application/x-www-form-urlencoded",
        "x-acs-action": call.operation,
        "x-acs-date": iso_time(clock.now()),
        "x-acs-signature-nonce": uuid.uuid4().hex,
        "x-acs-version": _STS_VERSION,
    }


async def _machine(env: Environment, http: NoHttp, wanted: str) -> Keys:
    """The keys of the machine's RAM role. An old service has no sessions."""
    http.asks(f"ECS metadata, role {wanted}" if wanted else "ECS metadata")
    ttl, carrier = {"X-aliyun-ecs-metadata-token-ttl-seconds": "21600"}, "X-aliyun-ecs-metadata-token"
    session = await open_session(http, "PutToken", "/latest/api/token", ttl, carrier, without=(403, 404))
    if not session.secrets and env.is_true(_PREFIX + "IMDSV1_DISABLED"):
        raise AccessDenied("the metadata service gives no tokens, and asking without one is disabled")
    path, role = "/latest/meta-data/ram/security-credentials/", wanted
    try:
        if not role:
            role = str(await http.call(Call(operation="ListRamRoles", path=path, text=_A_ROLE_NAME), dict, session))
        call = Call(operation="GetRamRoleCredentials", path=path + quote(role, safe=""))
        answer = await http.call(call, _IssuedKeys, session)
    except NotFound as error:
        error.message = f"this machine has no RAM role {wanted}".rstrip()
        raise
    return _machine_keys(answer, call.operation, f"ECS metadata, role {role}")


async def _credentials_uri(http: NoHttp, uri: str) -> Keys:
    """The keys that an address answers. Its path and query can be secret."""
    name = _PREFIX + "CREDENTIALS_URI"
    try:
        url = yarl.URL(uri)
        base_url, target = parse_endpoint(f"{url.scheme}://{url.raw_authority}"), url.raw_path_qs
    except ValueError:
        raise AccessDenied(f"{name} is not an http or https address") from None
    if url.scheme == "http" and not is_loopback(base_url):
        raise AccessDenied(f"{name} uses plain http to another machine")
    origin, call = f"the credentials URI at {base_url}", Call(operation="GetCredentialsUri", path="/")
    http.asks(origin)
    dialect = OpenDialect(METADATA, judge_metadata, secrets=(target,), target=target, is_near=is_loopback(base_url))
    return _machine_keys(await http.call(call, _IssuedKeys, dialect, base_url), call.operation, origin)


def _machine_keys(answer: _IssuedKeys, operation: str, origin: str) -> Keys:
    if answer.code != "Success":
        raise AccessDenied(f"no keys, but the code {show(answer.code)}", operation=operation)
    return issued_keys(answer, operation, origin)


# Profiles of the vendor's files: `~/.aliyun/config.json` of its CLI, and `~/.alibabacloud/credentials` of its SDKs. The
# first is JSON with a list of profiles and the name of the current one. The second is INI, with other names.

_MODES = {
    "AK": "access_key",
    "StsToken": "sts",
    "RamRoleArn": "ram_role_arn",
    "EcsRamRole": "ecs_ram_role",
    "OIDC": "oidc_role_arn",
    "ChainableRamRoleArn": "",
}
"""Modes of the CLI, and types of the INI file for them."""
_INI_KEYS = {
    "mode": "type",
    "ram_role_arn": "role_arn",
    "ram_session_name": "role_session_name",
    "expired_seconds": "duration_seconds",
    "sts_token": "security_token",
    "ram_role_name": "role_name",
    "oidc_token_file": "oidc_token_file_path",
}
"""Keys of the CLI, and keys of the INI file for them."""


class _Profiles(NamedTuple):
    """The profiles of a file by name, and the name of the one that is used without a choice."""

    file: ProfileFile
    by_name: Mapping[str, Mapping[str, object]]
    current: str
    is_ini: bool


def _profiles(env: Environment) -> list[_Profiles]:
    """The files that exist, in their order. AccessDenied for one of no use."""
    found = []
    cli = env.file("", ".aliyun", "config.json")
    if not env.is_true(_PREFIX + "CLI_PROFILE_DISABLED") and (read := cli.read(_parse_cli, "a JSON file of the CLI")):
        found.append(_Profiles(cli, *read, is_ini=False))
    for name in ("credentials", "credentials.ini"):  # of the vendor's documentation, and of its Python client
        sdk = env.file(*_SDK_FILE[:2], name)
        if (sections := sdk.read(partial(parse_ini, comments=("#",)), "an INI file")) is not None:
            found.append(_Profiles(sdk, sections, "default" if "default" in sections else "", is_ini=True))
            break
    return found


def _parse_cli(raw: str) -> tuple[dict[str, dict[str, object]], str]:
    config = msgspec.json.decode(raw, type=_CliConfig)
    # Of several with one name, the vendor's tools use the first.
    return {str(profile.get("name")): profile for profile in reversed(config.profiles or ())}, config.current or ""


def _shown_files(env: Environment) -> str:
    return f"~/.aliyun/config.json and {env.file(*_SDK_FILE).shown}"


async def _chosen_profile(env: Environment, http: NoHttp, name: str, by: str = "") -> Keys:
    """The keys of the first profile of that name."""
    for profiles in _profiles(env):
        if name in profiles.by_name:
            return await _use(env, http, profiles, name)
    raise AccessDenied(f"no profile {show(name)}{by} in {_shown_files(env)}")


async def _use(env: Environment, http: NoHttp, profiles: _Profiles, name: str, seen: tuple[str, ...] = ()) -> Keys:
    """The keys of a profile. What cannot be used is an AccessDenied that names file, profile and key, but no value."""
    file, values = profiles.file, profiles.by_name.get(name)
    if values is None:
        raise AccessDenied(f"{file.shown} cannot be used: no profile {show(name)}")
    shown = f"profile {show(name)} of {file.shown}"

    def get(key: str, default: str | None = None) -> str:
        """A value by the CLI's key. Without a default, the profile must have it."""
        written = _INI_KEYS.get(key, key) if profiles.is_ini else key
        given = values.get(written)
        if default is not None and given in (None, "", "0", 0):  # the CLI writes these where its user chose nothing
            return default
        value = str(given) if isinstance(given, str | int) else ""
        return usable(value, f"{written} of {shown}") if default is None else value

    def session() -> dict[str, str]:
        name = get("ram_session_name", "") or get("role_session_name", _SESSION["RoleSessionName"])
        found = {"RoleSessionName": name, "DurationSeconds": get("expired_seconds", _SESSION["DurationSeconds"])}
        policy = get("policy", "")
        return found | ({"Policy": policy} if policy else {})

    mode = get("mode", "")
    mode = {ini: cli for cli, ini in _MODES.items()}.get(mode, mode) if profiles.is_ini else mode
    if mode in ("AK", "StsToken", "RamRoleArn"):
        # Permanent keys may be next to the token of earlier keys, which does not belong to them.
        token = get("sts_token") if mode == "StsToken" else None
        keys = Keys(get("access_key_id"), get("access_key_secret"), token, origin=shown)
        if mode != "RamRoleArn":
            return keys
    elif mode == "ChainableRamRoleArn":
        source = get("source_profile")
        if source in (*seen, name):
            raise AccessDenied(f"{shown} cannot be used: source_profile leads back to it")
        keys = await _use(env, http, profiles, source, (*seen, name))
    elif mode == "EcsRamRole":
        return await _machine(env, http, get("ram_role_name", ""))
    elif mode == "OIDC":
        assert file.path is not None  # it was read
        id_token = secret_of(file.path.parent / get("oidc_token_file"), f"oidc_token_file of {shown}")
        return await _assume_with_oidc(http, get("oidc_provider_arn"), get("ram_role_arn"), id_token, session())
    else:
        raise AccessDenied(f"{shown} cannot be used: mode {show(mode)} is not supported; allowed: {', '.join(_MODES)}")
    return await _assume(http, keys, get("ram_role_arn"), session(), get("external_id", ""))
