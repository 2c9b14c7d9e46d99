"""Sources of credentials on Huawei Cloud: requests for temporary keys, the file of profiles, the vendor's chain.

The chain, if the config has no credentials:

    OIDC variables ──none──► access key variables ──none──► profile file ──none──► ECS metadata, requested at first use

https://github.com/huaweicloud/huaweicloud-sdk-python-v3
https://support.huaweicloud.com/intl/en-us/api-iam5/AssumeAgencyWithOIDC.html
https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html (tokens)
https://support.huaweicloud.com/intl/en-us/usermanual-ecs/ecs_03_0166.html (metadata)
"""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from trainfleet_exporter.config.plain import is_plain
from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, RequestRefused
from trainfleet_exporter.providers.credentials import (
    CredentialClients,
    CredentialExchange,
    CredentialTable,
    Environment,
    Issued,
    Keys,
    MachineRole,
    MetadataService,
    OidcRole,
    OpenDialect,
    PasswordUser,
    ProfileFile,
    ProfileFormat,
    ProfileKeys,
    Session,
    Source,
    is_swapped,
    issued_keys,
    open_credential,
    parse_ini,
    refuse_chain,
)
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.signing import Identity, Token, judge
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer
from trainfleet_exporter.transport.json_fields import utc_time

# Requests for temporary credentials.

_KEYS_MARGIN = 2400.0
"""Seconds before their end at which temporary keys are refreshed, as in the vendor's own clients."""
_TOKEN_MARGIN = 1800.0
"""The same of a token, which lives 24 hours: it may also end up to half an hour early, when rights change."""
_WITHOUT_SESSIONS = (404, 405, 503)


_issued = partial(
    issued_keys,
    incomplete="the answer has no complete temporary key, or does not say when it expires",
    expired="the issued temporary key expired at {ended}, and the time here is {here}: check the clock of this machine",
)


async def _assume_agency(client: ApiClient, agency: OidcRole, deadline: float) -> Issued[Keys]:
    """Not signed: the ID token proves the identity."""
    token, session = agency.token.reveal(), agency.session
    asked: dict[str, object] = {
        "provider_urn": agency.provider,
        "agency_urn": agency.role,
        "id_token": token,
        "agency_session_name": session.name,
        "duration_seconds": session.seconds,
        **({"policy": session.policy} if session.policy else {}),
        **({"policy_ids": list(session.policy_ids)} if session.policy_ids else {}),
    }
    path, body = "/v5/agencies/assume-with-oidc", json.dumps(asked).encode()
    call = Call(operation="AssumeAgencyWithOIDC", path=path, method="POST", body=body, secrets=(token,))
    answer = await client.call(call, payloads.AgencyAnswer, deadline=deadline)
    return _issued(answer.credentials, call.operation)


async def _ask_machine(client: ApiClient, call: Call, deadline: float) -> Issued[Keys]:
    return _issued((await client.call(call, payloads.ServerAnswer, deadline=deadline)).credential, call.operation)


def _password(region: str, project_id: str) -> CredentialExchange[PasswordUser, Token]:
    """Tokens for a project, or for the one with the region's name. A HUAWEI ID account cannot have tokens this way."""
    scope = {"project": {"id": project_id} if project_id else {"name": region}}

    async def ask(client: ApiClient, user: PasswordUser, deadline: float) -> Issued[Token]:
        password = user.password.reveal()
        who = {"name": user.name, "password": password, "domain": {"name": user.domain}}
        identity = {"methods": ["password"], "password": {"user": who}}
        headers: dict[str, str] = {}
        call = Call(
            operation="KeystoneCreateUserTokenByPassword",
            path="/v3/auth/tokens",
            method="POST",
            query={"nocatalog": "true"},
            body=json.dumps({"auth": {"identity": identity, "scope": scope}}).encode(),
            secrets=(password,),
            receive_headers=headers.update,
        )
        answer = (await client.call(call, payloads.TokenAnswer, deadline=deadline)).token or payloads.IssuedToken()
        token, expires = headers.get("x-subject-token", ""), utc_time({"at": answer.expires_at}, "at")
        if not token or expires is None:
            message = "IAM's answer has no token, or does not say when it expires"
            raise BadAnswer(message, operation=call.operation)
        return Issued(Token(token, (answer.project or payloads.Project()).id or ""), expires)

    return CredentialExchange(
        api="iam",
        ask=ask,
        origin="IAM password of user {name}",
        logged="IAM tokens of user {name}",
        margin=_TOKEN_MARGIN,
    )


def _judge_session(answer: HttpAnswer) -> CloudError | None:
    """If sessions are not served, treat 503 like 404: another attempt would only take time."""
    if answer.status in _WITHOUT_SESSIONS:
        return RequestRefused("sessions are not served", status=answer.status)
    return judge(answer)


# Profiles: sections of the INI file that the vendor's own clients read.

Sections: TypeAlias = Mapping[str, Mapping[str, str]]
_PROJECT_ID = re.compile("[A-Za-z0-9-]{1,64}")


def _invalid(error: Exception) -> str:
    if not isinstance(error, configparser.Error):
        return "it is not UTF-8"
    # Its own message quotes the line, which may be a secret.
    line = getattr(error, "lineno", None) or next(iter(getattr(error, "errors", ())), (None,))[0]
    return "it is not an INI file" + (f" (line {line})" if line else "")


FORMAT: ProfileFormat[Sections] = ProfileFormat(
    parse_ini, invalid=_invalid, denied="the file {file} cannot be used: {reason}"
)


def find_profile(name: str, environ: Environment) -> ProfileKeys:
    """The profile of a name, whether or not it exists. `AccessDenied` if nothing says where its file is."""
    if path := environ.get(_PROFILES):
        return ProfileKeys(ProfileFile(Path(path), path if is_plain(path) else f"of {_PROFILES}", FORMAT), name)
    if home := environ.get("HOME"):
        file = ProfileFile(Path(home, ".huaweicloud", "credentials"), "~/.huaweicloud/credentials", FORMAT)
        return ProfileKeys(file, name)
    raise AccessDenied(f"neither {_PROFILES} nor HOME is set, so there is no file of profiles")


def read_profile(profile: ProfileKeys) -> tuple[Keys, str]:
    """The keys of a profile as they are now, and its project (empty if it names none). Raises AccessDenied."""
    file, sections = profile.file, profile.file.read()
    shown = f"[{profile.profile if is_plain(profile.profile) else '…'}]"
    if profile.profile not in sections:
        raise file.denied(f"it has no section {shown}")
    section = sections[profile.profile]
    values = {key: section.get(key, "") for key in ("ak", "sk", "security_token", "project_id")}
    for key, value in values.items():
        if (key in ("ak", "sk") or value) and (reason := unusable_secret(value)):
            raise file.denied(f"{key} of section {shown} cannot be used: {reason}")
    if values["project_id"] and not _PROJECT_ID.fullmatch(values["project_id"]):
        raise file.denied(f"project_id of section {shown} is not 1 to 64 letters, digits and hyphens")
    if is_swapped(values["ak"], values["sk"]):
        raise file.denied(f"ak and sk of section {shown} are swapped")
    return Keys(values["ak"], values["sk"], values["security_token"] or None), values["project_id"]


CREDENTIALS: CredentialTable[Token] = CredentialTable(
    open=lambda api: OpenDialect(api, judge, lambda call: {"content-type": "application/json"}),
    oidc=CredentialExchange(
        api="sts",
        ask=_assume_agency,
        origin="OIDC agency {name}",
        logged="temporary keys of OIDC agency {name}",
        margin=_KEYS_MARGIN,
    ),
    metadata=MetadataService(
        session=("GetMetadataToken", "/meta-data/latest/api/token"),
        seconds_header="X-Metadata-Token-Ttl-Seconds",
        session_header="X-Metadata-Token",
        without_sessions=_WITHOUT_SESSIONS,
        keys=("GetSecurityKey", "/openstack/latest/securitykey"),
        ask=_ask_machine,
        judge=judge,
        judge_session=_judge_session,
        no_role=lambda role: AccessDenied("this server has no agency", status=404),
        origin="ECS metadata",
        logged="temporary keys of ECS metadata",
        margin=_KEYS_MARGIN,
        request_seconds=3.0,
        total_seconds=3.0,
    ),
    chain_logged="temporary keys of ECS metadata",
    read_profile=lambda profile: read_profile(profile)[0],
)
"""Without `password`, which depends on the project."""


def open_identity(source: Source, clients: CredentialClients, *, region: str, project_id: str) -> Identity:
    """The identity of a provider. An empty `project_id` is found out."""
    table = replace(CREDENTIALS, password=_password(region, project_id))
    return Identity(open_credential(source, table, clients), region=region, project_id=project_id)


# The vendor's chain.

_PROVIDER, _AGENCY = "HUAWEICLOUD_OIDC_PROVIDER_URN", "HUAWEICLOUD_OIDC_AGENCY_URN"
_ID_TOKEN, _ID_TOKEN_FILE = "HUAWEICLOUD_OIDC_ID_TOKEN", "HUAWEICLOUD_OIDC_TOKEN_FILE"
_SESSION, _DURATION = "HUAWEICLOUD_OIDC_SESSION_NAME", "HUAWEICLOUD_OIDC_DURATION_SECONDS"
_POLICY, _POLICY_IDS = "HUAWEICLOUD_OIDC_POLICY", "HUAWEICLOUD_OIDC_POLICY_IDS"
_FEDERATED = "HUAWEICLOUD_SDK_IDP_ID"
_KEYS = ("HUAWEICLOUD_SDK_AK", "HUAWEICLOUD_SDK_SK", "HUAWEICLOUD_SDK_SECURITY_TOKEN")
_PROJECT = "HUAWEICLOUD_SDK_PROJECT_ID"
_PROFILES = "HUAWEICLOUD_SDK_CREDENTIALS_FILE"
_DEFAULT_PROFILE = "basic"


@dataclass(frozen=True, slots=True)
class Found:
    """The first link that has something: its source, what the config would have to say for it, and its project."""

    source: Source
    given: Mapping[str, object] = field(repr=False)
    project_id: str = ""


def default_chain(environ: Environment) -> Found:
    """Return the source that the chain finds. Rejects an invalid environment."""
    return _oidc_of(environ) or _keys_of(environ) or _profile_of(environ)


def _oidc_of(environ: Environment) -> Found | None:
    is_given = bool(environ.get(_ID_TOKEN))
    if not environ.has_all(_PROVIDER, _AGENCY, _ID_TOKEN if is_given else _ID_TOKEN_FILE):
        return None
    token = environ.secret(_ID_TOKEN) if is_given else environ.secret_file(_ID_TOKEN_FILE)
    role = OidcRole(environ.get(_AGENCY), token, environ.get(_PROVIDER), _session_of(environ))
    given = {"provider_urn": role.provider, "agency_urn": role.role, "token": token}
    return Found(role, {"oidc": given}, _project_of(environ))


def _session_of(environ: Environment) -> Session:
    usual = Session()
    duration = environ.get(_DURATION) or str(usual.seconds)
    if not re.fullmatch("[0-9]{1,6}", duration):
        refuse_chain(f"{_DURATION} is not a whole number of seconds")
    policy_ids = tuple(part.strip() for part in environ.get(_POLICY_IDS).split(",") if part.strip())
    return Session(environ.get(_SESSION) or usual.name, int(duration), environ.get(_POLICY), policy_ids)


def _keys_of(environ: Environment) -> Found | None:
    if environ.get(_FEDERATED):
        # The vendor's clients would use this way and no other: its author means another identity.
        refuse_chain(f"it sets {_FEDERATED}, which is not supported")
    keys = environ.keys(*_KEYS)
    if keys is None:
        return None
    parts = {"access_key": keys.access_key_id, "secret_key": keys.access_key_secret}
    optional = {} if keys.security_token is None else {"security_token": keys.security_token}
    return Found(keys, parts | optional, _project_of(environ))


def _profile_of(environ: Environment) -> Found:
    try:
        profile = find_profile(_DEFAULT_PROFILE, environ)
        return Found(profile, {"profile": _DEFAULT_PROFILE}, read_profile(profile)[1])
    except AccessDenied as error:
        # A file that is unusable here may be usable for others: no fault.
        environ.passed.append(error.message)
        return Found(environ.first_of(MachineRole()), {"ecs_agency": True})


def _project_of(environ: Environment) -> str:
    project_id = environ.get(_PROJECT)
    if project_id and not _PROJECT_ID.fullmatch(project_id):
        refuse_chain(f"{_PROJECT} is not 1 to 64 letters, digits and hyphens")
    return project_id
