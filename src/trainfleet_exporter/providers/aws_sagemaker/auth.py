"""Sources of credentials on AWS: requests for temporary keys, profiles in the shared files, the vendor's chain.

The chain, if the config has no credentials:

    environment ──none──► web identity variables ──none──► profile ──none──► requested at first use:
                                         the container's endpoint (ECS, EKS Pod Identity), then EC2 metadata

https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Never, TypeAlias
from urllib.parse import urlencode

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.plain import is_plain, show
from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.config.urls import is_link_local, is_loopback
from trainfleet_exporter.errors import AccessDenied, BadAnswer
from trainfleet_exporter.providers.aws_sagemaker import payloads
from trainfleet_exporter.providers.aws_sagemaker.signing import FORM, AwsDialect, ServerClock, judge
from trainfleet_exporter.providers.credentials import (
    AssumedRole,
    CredentialExchange,
    CredentialTable,
    Environment,
    Issued,
    Keys,
    KeySource,
    KeysUri,
    MachineRole,
    MetadataService,
    OidcRole,
    OpenDialect,
    ProfileFile,
    ProfileFormat,
    ProfileKeys,
    Session,
    is_swapped,
    issued_keys,
    parse_ini,
    refuse_chain,
)
from trainfleet_exporter.transport import ApiClient, Call, TextForm

# Requests for temporary keys.

_MARGIN = 900.0
"""Seconds before their expiration at which temporary keys are refreshed, as in the vendor's own clients."""
_VERSION = "2011-06-15"
KEPT: Mapping[str, float] = {
    **dict.fromkeys(("AssumeRole", "AssumeRoleWithWebIdentity"), Session().seconds - _MARGIN),
    **dict.fromkeys(("PutToken", "ListRoles", "GetRoleKeys", "GetContainerKeys"), 6 * 3600 - _MARGIN),
}
"""Seconds for which the response of an operation is normally used."""
_XML = TextForm("XML", re.compile(r"(<\?xml[^>]*>\s*)?<AssumeRole[^\x00]*>"))
_KEY = re.compile(r"<(AccessKeyId|SecretAccessKey|SessionToken|Expiration)>([^<>&]{1,8192})</")


async def _assume_role(client: ApiClient, role: AssumedRole, deadline: float) -> Issued[Keys]:
    form = {"RoleArn": role.role, **_of_session(role.session)}
    secrets: tuple[str, ...] = ()
    if role.external_id is not None:
        form["ExternalId"] = role.external_id.reveal()
        secrets = (form["ExternalId"],)
    return await _ask_sts(client, "AssumeRole", form, secrets, deadline)


async def _assume_role_with_web_identity(client: ApiClient, role: OidcRole, deadline: float) -> Issued[Keys]:
    """Request keys without a signature: the token proves the identity."""
    token = role.token.reveal()
    form = {"RoleArn": role.role, "WebIdentityToken": token, **_of_session(role.session)}
    return await _ask_sts(client, "AssumeRoleWithWebIdentity", form, (token,), deadline)


async def _ask_sts(
    client: ApiClient, operation: str, form: Mapping[str, str], secrets: tuple[str, ...], deadline: float
) -> Issued[Keys]:
    """Request keys from STS, which responds with XML. The four texts need no XML escapes."""
    body = urlencode({"Action": operation, "Version": _VERSION, **form}).encode()
    call = Call(operation=operation, path="/", method="POST", body=body, secrets=secrets, text=_XML)
    found = dict(_KEY.findall(str(await client.call(call, deadline=deadline))))
    keys = payloads.TemporaryKeys(
        access_key_id=found.get("AccessKeyId"),
        access_key_secret=found.get("SecretAccessKey"),
        security_token=found.get("SessionToken"),
        expiration=found.get("Expiration"),
    )
    return issued_keys(keys, operation)


async def _ask_near(client: ApiClient, call: Call, deadline: float) -> Issued[Keys]:
    """Request keys from the metadata service or from the container's endpoint."""
    answer = await client.call(call, payloads.TemporaryKeys, deadline=deadline)
    if answer.code not in (None, "Success"):
        # A code is one word. Another text could be a misplaced key.
        is_word = re.fullmatch("[A-Za-z]{1,40}", answer.code or "") is not None
        raise BadAnswer(f"no keys, but {answer.code if is_word else 'another code'}", operation=call.operation)
    return issued_keys(answer, call.operation)


def _of_session(session: Session) -> dict[str, str]:
    return {"RoleSessionName": session.name, "DurationSeconds": str(session.seconds)}


def credential_table(region: str, clock: ServerClock) -> CredentialTable[Never]:
    """Return how to request credentials of a region. `clock` gives the time of the signatures."""
    return CredentialTable(
        open=lambda api: OpenDialect(api, judge, lambda call: {"content-type": FORM, "accept": "*/*"}),
        signed=lambda api, keys: AwsDialect(api, region, keys, clock),
        assume_role=CredentialExchange(
            api="sts", ask=_assume_role, origin="STS role {name}", logged="STS keys of {name}", margin=_MARGIN
        ),
        oidc=CredentialExchange(
            api="sts",
            ask=_assume_role_with_web_identity,
            origin="web identity role {name}",
            logged="STS keys of {name}",
            margin=_MARGIN,
        ),
        metadata=MetadataService(
            session=("PutToken", "/latest/api/token"),
            seconds_header="X-aws-ec2-metadata-token-ttl-seconds",
            session_header="X-aws-ec2-metadata-token",
            without_sessions=(403, 404, 405),
            roles=("ListRoles", "/latest/meta-data/iam/security-credentials/"),
            keys=("GetRoleKeys", "/latest/meta-data/iam/security-credentials/"),
            ask=_ask_near,
            judge=judge,
            judge_session=judge,
            no_role=lambda role: AccessDenied("this machine has no IAM role"),
            origin="EC2 metadata",
            logged="keys of the machine's IAM role",
            margin=_MARGIN,
        ),
        uri=("GetContainerKeys", _ask_near),
        chain_logged="keys of the default chain",
        read_profile=read_profile,
    )


# Profiles of the shared files: sections `[name]` of `~/.aws/credentials`, which has priority, and `[profile name]` of
# `~/.aws/config`.

Sections: TypeAlias = Mapping[str, Mapping[str, str]]
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]{1,512}", re.ASCII)
_SESSION_NAME = re.compile(r"[A-Za-z0-9_=,.@-]{2,64}", re.ASCII)
_PROFILE_KEYS = ("aws_access_key_id", "aws_secret_access_key")
_UNSUPPORTED = ("sso_session", "sso_start_url", "credential_process", "credential_source", "login_session")
"""Keys of unsupported methods. Most of them need a person or a program."""


def is_role_arn(text: str) -> bool:
    """Return whether a text is the ARN of an IAM role."""
    return _ROLE_ARN.fullmatch(text) is not None


FORMAT: ProfileFormat[Sections] = ProfileFormat(
    parse_ini, invalid=lambda error: "it is not an INI file", most_bytes=1048576
)


def _files(environ: Environment) -> tuple[ProfileFile[Sections], ProfileFile[Sections]]:
    """Return the paths of the config file and of the credentials file. They may not exist."""

    def file(variable: str, name: str) -> ProfileFile[Sections]:
        if path := environ.get(variable):
            return ProfileFile(Path(path), path if is_plain(path) else f"the file of {variable}", FORMAT)
        return ProfileFile(Path(environ.get("HOME") or "/", ".aws", name), f"~/.aws/{name}", FORMAT)

    return file("AWS_CONFIG_FILE", "config"), file("AWS_SHARED_CREDENTIALS_FILE", "credentials")


def find_profile(name: str, environ: Environment, seen: tuple[str, ...] = ()) -> KeySource:
    """Return the settings of a profile. AccessDenied, with the reason, if it cannot be used."""
    values: dict[str, str] = {}
    having = keys_file = None
    reasons = []
    for file in _files(environ):
        try:
            section = _section(file, name)
        except AccessDenied as error:
            reasons.append(error.message)
            continue
        values |= section
        having, keys_file = file, file if "aws_access_key_id" in section else keys_file
    if having is None:
        raise AccessDenied("; ".join(reasons))
    if "role_arn" in values and name not in seen:
        return _role_of(having, name, values, environ, (*seen, name))
    if keys_file is not None:
        source = ProfileKeys(keys_file, name)
        read_profile(source)
        return source
    way = next((key for key in _UNSUPPORTED if key in values), "")
    if way:
        way = "sso" if way.startswith("sso") else way
        allowed = "keys, role_arn with source_profile, or role_arn with web_identity_token_file"
        raise having.denied(f"profile {show(name)} uses {way}, which is not supported; allowed: {allowed}")
    raise having.denied(f"profile {show(name)} has no keys")


def read_profile(source: ProfileKeys) -> Keys:
    """Return the current keys of a profile. Raises AccessDenied."""
    section = _section(source.file, source.profile)
    key_id, secret = (_needed(source.file, source.profile, section, key) for key in _PROFILE_KEYS)
    if is_swapped(key_id, secret):
        raise source.file.denied(f"{' and '.join(_PROFILE_KEYS)} of profile {show(source.profile)} are swapped")
    return Keys(key_id, secret, section.get("aws_session_token") or None)


def _section(file: ProfileFile[Sections], name: str) -> Mapping[str, str]:
    """Return the section of a profile. In `~/.aws/config`, its name has the prefix `profile`."""
    sections = file.read()
    for section in (name, f"profile {name}"):
        if section in sections:
            return sections[section]
    raise file.denied(f"no profile {show(name)}")


def _role_of(
    file: ProfileFile[Sections], name: str, values: Mapping[str, str], environ: Environment, seen: tuple[str, ...]
) -> KeySource:
    role, external_id = _needed(file, name, values, "role_arn"), values.get("external_id")
    if not is_role_arn(role):  # do not quote the value: it may be a secret in the wrong place
        raise file.denied(f"role_arn of profile {show(name)} is not the ARN of a role")
    if "web_identity_token_file" in values:
        try:
            return OidcRole(role, Secret.from_file(Path(_needed(file, name, values, "web_identity_token_file"))))
        except (AccessDenied, ValueError):
            raise file.denied(f"web_identity_token_file of profile {show(name)} cannot be used") from None
    base = find_profile(_needed(file, name, values, "source_profile"), environ, seen)
    return AssumedRole(role, base, Secret(external_id, source=file.shown) if external_id else None)


def _needed(file: ProfileFile[Sections], name: str, values: Mapping[str, str], key: str) -> str:
    value = values.get(key, "")
    if reason := unusable_secret(value):
        raise file.denied(f"{key} of profile {show(name)} cannot be used: {reason}")
    return value


# The vendor's chain.

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_TOKEN_FILE, _ROLE, _SESSION = "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"
_FULL_URI, _RELATIVE_URI = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
_AUTHORIZATION = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
_CONTAINER = "http://169.254.170.2"
_POD_IDENTITY = "http://[fd00:ec2::23]"


def default_chain(environ: Environment) -> KeySource:
    """Return the source that the environment selects, or the remaining links of the chain. Rejects an invalid
    environment."""
    found = environ.keys(*_KEYS) or _web_identity(environ) or _profile_of(environ)
    return found or environ.first_of(*_links_of(environ))


def needs_session(environ: Environment) -> bool:
    """Return whether a metadata service without session tokens must not be used."""
    return environ.is_true("AWS_EC2_METADATA_V1_DISABLED")


def _web_identity(environ: Environment) -> OidcRole | None:
    if not environ.get(_TOKEN_FILE):
        environ.passed.append(f"the environment sets no {_TOKEN_FILE}")
        return None
    if not is_role_arn(environ.get(_ROLE)):
        refuse_chain(f"it sets {_TOKEN_FILE} without an ARN of a role in {_ROLE}")
    name = environ.get(_SESSION)
    session = Session(name) if _SESSION_NAME.fullmatch(name) else Session()
    return OidcRole(environ.get(_ROLE), environ.secret_file(_TOKEN_FILE), session=session)


def _profile_of(environ: Environment) -> KeySource | None:
    name = environ.get("AWS_PROFILE")
    try:
        return find_profile(name or "default", environ)
    except AccessDenied as error:
        if name:  # the user selected this profile: no fallback
            refuse_chain(f"AWS_PROFILE cannot be used: {error.message}")
        environ.passed.append(error.message)
    return None


def _container(environ: Environment) -> KeysUri | None:
    """Return the endpoint that ECS or EKS Pod Identity gives to a container."""
    if path := environ.get(_RELATIVE_URI):
        if not re.fullmatch(r"/[!-~]{0,1024}", path, re.ASCII):
            refuse_chain(f"{_RELATIVE_URI} is not a path")
        uri: KeysUri | None = KeysUri(_CONTAINER, Secret(path))
    else:
        uri = environ.keys_uri(
            _FULL_URI, plain_http=lambda url: is_loopback(url) or is_link_local(url) or url == _POD_IDENTITY
        )
    if uri is None:
        return None
    if environ.get(f"{_AUTHORIZATION}_FILE"):
        return KeysUri(uri.base_url, uri.target, environ.secret_file(f"{_AUTHORIZATION}_FILE"))
    if environ.get(_AUTHORIZATION):
        return KeysUri(uri.base_url, uri.target, environ.secret(_AUTHORIZATION))
    return uri


def _links_of(environ: Environment) -> list[MachineRole | KeysUri]:
    links: list[MachineRole | KeysUri] = []
    if uri := _container(environ):
        links.append(uri)
    elif environ.is_true("AWS_EC2_METADATA_DISABLED"):
        environ.passed.append("EC2 metadata is disabled")
    else:
        links.append(MachineRole(needs_session=needs_session(environ)))
    return links
