"""Sources of credentials on Alibaba Cloud: requests for temporary keys, files of profiles, the vendor's chain.

The chain, if the config has no credentials:

    environment ──none──► OIDC variables ──not all──► CLI profile ──none──► SDK profile ──none──► ┐
                                   ┌──────────────────────────────────────────────────────────────┘
                                   └► requested at first use: ECS metadata (unless disabled), then the credentials URI

The first source that has a credential is used, even if a service rejects it later: the exporter must not become another
user because STS was busy.

https://www.alibabacloud.com/help/en/sdk/developer-reference/v2-manage-python-access-credentials
https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerolewithoidc
https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
https://www.alibabacloud.com/help/en/cli/configure-credentials
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Never
from urllib.parse import urlencode

import msgspec

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.plain import is_plain, show
from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai.signing import PaiDialect, judge
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
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer
from trainfleet_exporter.transport.json_fields import iso_time, number, printable, text, whole
from trainfleet_exporter.transport.payload import decode

# Requests for temporary keys.

_MARGIN = 900.0
"""Seconds before their end at which temporary keys are refreshed, as in the vendor's own clients."""
_STS_VERSION = "2015-04-01"
KEPT: Mapping[str, float] = {
    **dict.fromkeys(("AssumeRole", "AssumeRoleWithOIDC", "GetCredentialsUri"), Session().seconds - _MARGIN),
    **dict.fromkeys(("PutToken", "ListRamRoles", "GetRamRoleCredentials"), 6 * 3600 - _MARGIN),
}
"""Seconds for which the answer of an operation is used, as a rule."""
_A_CODE = re.compile(r"[A-Za-z]{1,15}(?:[. -][A-Za-z]{1,15}){0,3}")


async def _assume_role(client: ApiClient, role: AssumedRole, deadline: float) -> Issued[Keys]:
    query = {"RoleArn": role.role, **_of_session(role.session)}
    if role.external_id is not None:
        query["ExternalId"] = role.external_id.reveal()
    secrets = () if role.external_id is None else (query["ExternalId"],)
    call = Call(operation="AssumeRole", path="/", method="POST", query=query, secrets=secrets)
    return issued_keys((await client.call(call, payloads.StsAnswer, deadline=deadline)).credentials, call.operation)


async def _assume_role_with_oidc(client: ApiClient, role: OidcRole, deadline: float) -> Issued[Keys]:
    token = role.token.reveal()
    form = {"OIDCProviderArn": role.provider, "RoleArn": role.role, "OIDCToken": token, **_of_session(role.session)}
    # In the body, because proxies log addresses.
    body = urlencode(form).encode()
    call = Call(operation="AssumeRoleWithOIDC", path="/", method="POST", body=body, secrets=(token,))
    return issued_keys((await client.call(call, payloads.StsAnswer, deadline=deadline)).credentials, call.operation)


async def _ask_machine(client: ApiClient, call: Call, deadline: float) -> Issued[Keys]:
    answer = await client.call(call, payloads.MachineKeys, deadline=deadline)
    code = answer.code or ""
    if code != "Success":
        # A code is words. Anything else could quote the request, or be a key in a wrong place.
        is_word = _A_CODE.fullmatch(code.strip()) is not None
        shown = printable(code, 40) if is_word else "another code" if code else "no code"
        raise AccessDenied(f"no keys, but {shown}", operation=call.operation)
    return issued_keys(answer, call.operation)


def _of_session(session: Session) -> dict[str, str]:
    fields = {"RoleSessionName": session.name, "DurationSeconds": str(session.seconds)}
    return fields | ({"Policy": session.policy} if session.policy else {})


def _open_headers(call: Call) -> Mapping[str, str]:
    """Return the headers that STS requires of a caller without keys."""
    return {
        "content-type": "application/x-www-form-urlencoded",
        "x-acs-action": call.operation,
        "x-acs-date": iso_time(time.time()),
        "x-acs-signature-nonce": uuid.uuid4().hex,
        "x-acs-version": _STS_VERSION,
    }


def _judge_metadata(answer: HttpAnswer) -> CloudError | None:
    """By its HTTP status alone: the bodies of errors are pages."""
    status = answer.status
    if status in (401, 403):
        return AccessDenied("the service refuses to answer", status=status)
    if status == 404:
        return NotFound("not served", status=status)
    if status == 429:
        wait = number({"s": answer.headers.get("retry-after", "")}, "s")
        return Throttled("too many requests", status=status, retry_after=wait)
    if status >= 500:
        return ServerTrouble("the service failed", status=status)
    return RequestRefused("the request was refused", status=status) if status >= 400 else None


# Profiles of the vendor's files: `~/.aliyun/config.json` of its CLI, and `~/.alibabacloud/credentials` of its SDKs. The
# first is JSON with a list of profiles and the name of the current one. The second is INI: the `type` of a section is
# what the CLI calls the mode of a profile.

_SERVED = ("AK", "StsToken", "RamRoleArn", "EcsRamRole", "OIDC", "ChainableRamRoleArn")
_INI_MODES = {
    "access_key": "AK",
    "sts": "StsToken",
    "ram_role_arn": "RamRoleArn",
    "ecs_ram_role": "EcsRamRole",
    "oidc_role_arn": "OIDC",
}
_INI_KEYS = {
    "role_arn": "ram_role_arn",
    "role_session_name": "ram_session_name",
    "duration_seconds": "expired_seconds",
    "security_token": "sts_token",
    "role_name": "ram_role_name",
    "oidc_token_file_path": "oidc_token_file",
}
"""Keys of the INI file that the JSON file names otherwise."""
_SESSION_NAME = re.compile(r"[A-Za-z0-9.@_-]{2,64}", re.ASCII)
_SHORTEST_SESSION, _LONGEST_SESSION = 900, 43200
"""Seconds."""


class UnfitProfileError(AccessDenied):
    """A profile is complete, but STS would refuse what it says."""


def arn_form(kind: str) -> re.Pattern[str]:
    """Return the pattern of an ARN of RAM, of kind `role` or `oidc-provider`."""
    return re.compile(rf"acs:ram::[0-9]{{1,32}}:{kind}/[!-~]{{1,128}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of a file by their name, and the name of the one that is used without a choice."""

    by_name: Mapping[str, payloads.CliProfile]
    current: str


def _parse_json(raw: bytes) -> Profiles:
    config = decode(raw.removeprefix(b"\xef\xbb\xbf"), payloads.CliConfig)
    return Profiles({profile.name or "": profile for profile in config.profiles or ()}, config.current or "")


def _parse_ini(raw: bytes) -> Profiles:
    found = {}
    for name, section in parse_ini(raw, comments=("#",)).items():
        fields = {_INI_KEYS.get(key, key): value for key, value in section.items()}
        kind = fields.get("type", "")
        found[name] = msgspec.convert(fields | {"mode": _INI_MODES.get(kind, kind)}, payloads.CliProfile)
    return Profiles(found, "default")


CLI_FILE = ProfileFormat(_parse_json, invalid=lambda error: "it is not a JSON file of the CLI", most_bytes=1048576)
SDK_FILE = ProfileFormat(_parse_ini, invalid=lambda error: "it is not an INI file", most_bytes=1048576)


def profile_source(file: ProfileFile[Profiles], name: str = "", *, needs_session: bool = False) -> KeySource:
    """Return the source in a profile; the current one without a name. AccessDenied, with the reason, if it cannot be
    used."""
    profiles = file.read()
    return _source(file, profiles, name or profiles.current, needs_session)


def read_profile(source: ProfileKeys) -> Keys:
    """The keys that a profile has now. `AccessDenied` if its mode has changed."""
    profile = _find(source.file, source.file.read(), source.profile)
    if profile.mode != source.kind:
        raise source.file.denied(f"profile {show(source.profile)} has changed its mode; restart the exporter")
    return profile.keys()


def find_profile(name: str, environ: Environment) -> KeySource:
    """Return the source in a profile of the first file that has it. AccessDenied, with the reason, if it cannot be
    used."""
    reasons: list[str] = []
    for file in _profile_files(environ):
        try:
            profiles = file.read()
            _find(file, profiles, name)
        except AccessDenied as error:
            reasons.append(error.message)
        else:
            return _source(file, profiles, name, needs_session(environ))
    raise AccessDenied("; ".join(reasons) or "HOME is not set")


@dataclass(frozen=True, slots=True)
class _Profile:
    file: ProfileFile[Profiles]
    name: str
    fields: payloads.CliProfile

    @property
    def mode(self) -> str:
        return self.fields.mode or ""

    def keys(self) -> Keys:
        key_id, secret = self.needed("access_key_id"), self.needed("access_key_secret")
        # Permanent keys may be next to the token of earlier keys, which does not belong to them.
        if is_swapped(key_id, secret):
            raise self.file.denied(f"access_key_id and access_key_secret of profile {show(self.name)} are swapped")
        return Keys(key_id, secret, self.needed("sts_token") if self.mode == "StsToken" else None)

    def given_keys(self) -> ProfileKeys:
        self.keys()
        return ProfileKeys(self.file, self.name, self.mode)

    def role(self, base: KeySource) -> AssumedRole:
        external_id = self.fields.external_id
        secret = Secret(external_id, source=self.file.shown) if external_id else None
        return AssumedRole(self.arn("ram_role_arn", "role"), base, secret, self.session())

    def oidc_role(self) -> OidcRole:
        provider, role = self.arn("oidc_provider_arn", "oidc-provider"), self.arn("ram_role_arn", "role")
        try:
            token = Secret.from_file(self.file.path.parent / self.needed("oidc_token_file"))
        except AccessDenied as error:
            # The path stays out of the message: it may be the token itself, which must not be in a log.
            reason = error.message.rpartition(": ")[2]
            raise self.file.denied(f"oidc_token_file of profile {show(self.name)} cannot be used: {reason}") from None
        return OidcRole(role, token, provider, self.session())

    def session(self) -> Session:
        fields, seconds = self.fields, Session().seconds
        # The CLI writes 0 and an empty name where its user chose nothing.
        if fields.expired_seconds not in (None, "", 0, "0"):
            seconds = whole({"seconds": fields.expired_seconds}, "seconds") or 0
        if not _SHORTEST_SESSION <= seconds <= _LONGEST_SESSION:
            allowed = f"a whole number of seconds from {_SHORTEST_SESSION} to {_LONGEST_SESSION}"
            raise self._unfit("expired_seconds", allowed)
        names = {"ram_session_name": fields.ram_session_name, "role_session_name": fields.role_session_name}
        key = next((key for key, name in names.items() if name not in (None, "")), "")
        name = text(names, key) if key else Session().name
        if not _SESSION_NAME.fullmatch(name):
            raise self._unfit(key, "2 to 64 letters, digits and any of . @ _ -")
        return Session(name, seconds, fields.policy or "")

    def arn(self, key: str, kind: str) -> str:
        value = self.needed(key)
        if not arn_form(kind).fullmatch(value):
            raise self._unfit(key, f"an ARN such as acs:ram::1234567890123456:{kind}/name")
        return value

    def needed(self, key: str) -> str:
        value: str = getattr(self.fields, key) or ""
        if reason := unusable_secret(value):
            raise self.file.denied(f"{key} of profile {show(self.name)} cannot be used: {reason}")
        return value

    def _unfit(self, key: str, allowed: str) -> UnfitProfileError:
        # Do not quote the value: it may be a secret in the wrong place, which must not be in a log.
        written = {ours: theirs for theirs, ours in _INI_KEYS.items()} if self.file.format is SDK_FILE else {}
        what = f"{written.get(key, key)} of profile {show(self.name)}"
        return UnfitProfileError(f"{self.file.shown}: STS would refuse {what}; allowed: {allowed}")


def _source(
    file: ProfileFile[Profiles], profiles: Profiles, name: str, needs_session: bool, seen: tuple[str, ...] = ()
) -> KeySource:
    if name in seen:
        raise file.denied(f"profile {show(name)} names itself as its source")
    profile = _find(file, profiles, name)
    match profile.mode:
        case "AK" | "StsToken":
            return profile.given_keys()
        case "RamRoleArn":
            return profile.role(profile.given_keys())
        case "ChainableRamRoleArn":
            base = profile.needed("source_profile")
            return profile.role(_source(file, profiles, base, needs_session, (*seen, name)))
        case "EcsRamRole":
            return MachineRole(profile.fields.ram_role_name or "", needs_session)
        case "OIDC":
            return profile.oidc_role()
    served = ", ".join(_SERVED)
    raise file.denied(
        f"profile {show(name)} is of mode {show(profile.mode)}, which is not supported; allowed: {served}"
    )


def _find(file: ProfileFile[Profiles], profiles: Profiles, name: str) -> _Profile:
    if not name:
        raise file.denied("the file selects no profile")
    if name not in profiles.by_name:
        raise file.denied(f"no profile {show(name)}")
    return _Profile(file, name, profiles.by_name[name])


CREDENTIALS: CredentialTable[Never] = CredentialTable(
    open=lambda api: OpenDialect(api, judge, _open_headers),
    signed=lambda api, keys: PaiDialect(api, _STS_VERSION, keys),
    assume_role=CredentialExchange(
        api="sts", ask=_assume_role, origin="STS role {name}", logged="STS keys of {name}", margin=_MARGIN
    ),
    oidc=CredentialExchange(
        api="sts", ask=_assume_role_with_oidc, origin="OIDC role {name}", logged="STS keys of {name}", margin=_MARGIN
    ),
    metadata=MetadataService(
        session=("PutToken", "/latest/api/token"),
        seconds_header="X-aliyun-ecs-metadata-token-ttl-seconds",
        session_header="X-aliyun-ecs-metadata-token",
        without_sessions=(403, 404),
        roles=("ListRamRoles", "/latest/meta-data/ram/security-credentials/"),
        keys=("GetRamRoleCredentials", "/latest/meta-data/ram/security-credentials/"),
        ask=_ask_machine,
        judge=_judge_metadata,
        judge_session=_judge_metadata,
        no_role=lambda role: AccessDenied(f"this machine has no RAM role {role}".rstrip()),
        origin="ECS metadata",
        logged="keys of the machine's RAM role",
        margin=_MARGIN,
    ),
    uri=("GetCredentialsUri", _ask_machine),
    chain_logged="keys of the default chain",
    read_profile=read_profile,
)


# The vendor's chain.

_PREFIX = "ALIBABA_CLOUD_"
_KEYS = (_PREFIX + "ACCESS_KEY_ID", _PREFIX + "ACCESS_KEY_SECRET", _PREFIX + "SECURITY_TOKEN")
_OIDC = (_PREFIX + "OIDC_PROVIDER_ARN", _PREFIX + "ROLE_ARN", _PREFIX + "OIDC_TOKEN_FILE")


def default_chain(environ: Environment) -> KeySource:
    """Return the source that the environment selects, or the remaining links of the chain. Rejects an invalid
    environment."""
    found = environ.keys(*_KEYS) or _oidc_of(environ) or _profile_of(environ)
    return found or environ.first_of(*_links_of(environ))


def needs_session(environ: Environment) -> bool:
    """Return whether a metadata service that has no session tokens must not be used."""
    return environ.is_true(_PREFIX + "IMDSV1_DISABLED")


def _oidc_of(environ: Environment) -> OidcRole | None:
    missing = [name for name in _OIDC if not environ.get(name)]
    if missing:  # two of them may be meant for something else
        environ.passed.append(f"the environment sets no {' and no '.join(missing)}")
        return None
    provider, role, _ = map(environ.get, _OIDC)
    name = environ.get(_PREFIX + "ROLE_SESSION_NAME")
    session = Session(name) if _SESSION_NAME.fullmatch(name) else Session()
    return OidcRole(role, environ.secret_file(_OIDC[2]), provider, session)


def _profile_files(environ: Environment) -> list[ProfileFile[Profiles]]:
    """The files that may have profiles, in their order, whether or not they exist."""
    home, named = environ.get("HOME"), environ.get(_PREFIX + "CREDENTIALS_FILE")
    files = [ProfileFile(Path(home, ".aliyun", "config.json"), "~/.aliyun/config.json", CLI_FILE)] if home else []
    if named:
        shown = named if is_plain(named) else f"the file of {_PREFIX}CREDENTIALS_FILE"
        files.append(ProfileFile(Path(named), shown, SDK_FILE))
    elif home:
        folder = Path(home, ".alibabacloud")
        # The vendor's documentation and its Python client differ in the name.
        both = [folder / "credentials", folder / "credentials.ini"]
        path = next((path for path in both if path.is_file()), both[0])
        files.append(ProfileFile(path, f"~/.alibabacloud/{path.name}", SDK_FILE))
    return files


def _profile_of(environ: Environment) -> KeySource | None:
    files = _profile_files(environ)
    if not files:
        environ.passed.append("no profiles, since HOME is not set")
    for file in files:
        if file.format is CLI_FILE and environ.is_true(_PREFIX + "CLI_PROFILE_DISABLED"):
            environ.passed.append(f"{file.shown} is disabled")
            continue
        try:
            return profile_source(file, environ.get(_PREFIX + "PROFILE"), needs_session=needs_session(environ))
        except UnfitProfileError as error:
            refuse_chain(error.message)
        except AccessDenied as error:
            environ.passed.append(error.message)
    return None


def _links_of(environ: Environment) -> list[MachineRole | KeysUri]:
    links: list[MachineRole | KeysUri] = []
    if environ.is_true(_PREFIX + "ECS_METADATA_DISABLED"):
        environ.passed.append("ECS metadata is disabled")
    else:
        links.append(MachineRole(environ.get(_PREFIX + "ECS_METADATA"), needs_session(environ)))
    if uri := environ.keys_uri(_PREFIX + "CREDENTIALS_URI"):
        links.append(uri)
    return links
