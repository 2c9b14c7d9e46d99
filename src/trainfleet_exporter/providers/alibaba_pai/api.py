"""Alibaba Cloud as seen from outside: how keys are found, signatures, and the meaning of responses.

Without a config section, keys are found in the order of the vendor's clients. The first source that says something is
used, even if a service rejects it later: the exporter must not become another user because STS was busy.

    environment ──► OIDC variables ──► CLI profile ──► SDK profile ──► ECS metadata ──► credentials URI

DLC (version 2020-12-03), PaiStudio (2022-01-12) and AIWorkSpace (2021-02-04) are ROA APIs: GET, with all parameters in
the query. ROA and RPC calls have the same signature, of version 3 (ACS3-HMAC-SHA256).

https://www.alibabacloud.com/help/en/sdk/developer-reference/v2-manage-python-access-credentials
https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerolewithoidc
https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
https://www.alibabacloud.com/help/en/cli/configure-credentials
https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.kinds import is_loopback, parse_endpoint
from trainfleet_exporter.config.secrets import show, unusable_secret
from trainfleet_exporter.errors import (
    AccessDenied,
    CloudError,
    NotFound,
    RequestRefused,
    RequestTimedOut,
    ServerTrouble,
    Throttled,
    Unreachable,
)
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai.credentials import Credentials, arn_form
from trainfleet_exporter.providers.canonical import (
    Query,
    Signed,
    canonical_query,
    canonical_request,
    hmac_sha256,
    sha256,
)
from trainfleet_exporter.providers.key_search import (
    METADATA,
    Environment,
    OpenDialect,
    SearchHttp,
    in_words,
    issued_keys,
    open_session,
    parse_ini,
    read_file,
    secret_of,
)
from trainfleet_exporter.providers.keys import Credential, FixedKeys, GivenKeys, Keys, SignedDialect
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest, TextForm
from trainfleet_exporter.transport.json_fields import flag, iso_time, number, printable, text, whole
from trainfleet_exporter.transport.payload import decode

# Credentials.

KEPT: Mapping[str, float] = {
    **dict.fromkeys(("AssumeRole", "AssumeRoleWithOIDC", "GetCredentialsUri"), 2700.0),
    **dict.fromkeys(("PutToken", "ListRamRoles", "GetRamRoleCredentials"), 6 * 3600 - 900.0),
}
"""Seconds for which the answer of an operation is used, as a rule."""
_PREFIX = "ALIBABA_CLOUD_"
_KEYS = (_PREFIX + "ACCESS_KEY_ID", _PREFIX + "ACCESS_KEY_SECRET")
_TOKEN = _PREFIX + "SECURITY_TOKEN"
_OIDC = (_PREFIX + "OIDC_PROVIDER_ARN", _PREFIX + "OIDC_TOKEN_FILE", _PREFIX + "ROLE_ARN")
_STS_VERSION = "2015-04-01"
_NOT_THERE = (NotFound, Unreachable, RequestTimedOut)
"""Errors of a metadata service that this machine does not have."""
_A_ROLE = TextForm("the name of a role", re.compile(r"[A-Za-z0-9._+=,@-]{1,64}"))
_A_CODE = re.compile(r"[A-Za-z]{1,15}(?:[. -][A-Za-z]{1,15}){0,3}")
_SESSION_NAME = re.compile(r"[A-Za-z0-9.@_-]{2,64}", re.ASCII)
_MODES = ("AK", "StsToken", "RamRoleArn", "EcsRamRole", "OIDC", "ChainableRamRoleArn")
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


class _Session(NamedTuple):
    """What a request for a role says besides the role."""

    name: str = "trainfleet-exporter"
    seconds: int = 3600
    policy: str = ""

    def fields(self) -> dict[str, str]:
        fields = {"RoleSessionName": self.name, "DurationSeconds": str(self.seconds)}
        return fields | ({"Policy": self.policy} if self.policy else {})


async def load(section: Credentials | None, environ: Mapping[str, str], http: SearchHttp) -> Keys:
    """The keys of a section, or of the vendor's chain without one. Raises CloudError."""
    env = Environment(environ)
    if section is None:
        return await _chain(env, http)
    if section.oidc is not None:
        return await _assume_with_oidc(http, section.oidc.provider_arn, section.oidc.role_arn, section.oidc.token)
    if section.ecs_ram_role is not None:
        return await _machine(env, http, "" if section.ecs_ram_role is True else section.ecs_ram_role)
    if section.profile is not None:
        return await _profile(env, http, section.profile)
    if section.access_key_id is not None and section.access_key_secret is not None:
        keys = GivenKeys(section.access_key_id, section.access_key_secret, section.security_token).current()
    else:
        keys = await _chain(env, http)
    if section.role_arn is None:
        return keys
    return await _assume(http, keys, section.role_arn, section.external_id, _Session())


async def _chain(env: Environment, http: SearchHttp) -> Keys:
    if env.all_or_none(*_KEYS):
        key_id, secret, token = (env.secret(name) for name in (*_KEYS, _TOKEN))
        return Keys(key_id, secret, token or None, origin="environment")
    if env.get(_TOKEN):
        raise AccessDenied(f"the environment sets {_TOKEN} without {' and '.join(_KEYS)}")
    if any(env.get(name) for name in _OIDC[:2]) and env.all_or_none(*_OIDC):  # a role alone says nothing
        name, token_file = env.get(_PREFIX + "ROLE_SESSION_NAME"), env.secret_file(_OIDC[1])
        session = _Session(name) if _SESSION_NAME.fullmatch(name) else _Session()
        return await _assume_with_oidc(http, env.get(_OIDC[0]), env.get(_OIDC[2]), token_file, session)
    chosen = env.get(_PREFIX + "PROFILE")
    if (keys := await _profile_of_files(env, http, chosen)) is not None:
        return keys
    if chosen:
        raise AccessDenied(f"no profile {show(chosen)}, which {_PREFIX}PROFILE names, in {_shown_files(env)}")
    passed = ["the environment sets no keys", f"{_shown_files(env)} have no profile"]
    uri = env.get(_PREFIX + "CREDENTIALS_URI")
    if env.is_true(_PREFIX + "ECS_METADATA_DISABLED"):
        passed.append("ECS metadata is disabled")
    else:
        wanted = env.get(_PREFIX + "ECS_METADATA")
        try:
            return await _machine(env, http, wanted)
        except _NOT_THERE as error:
            if wanted:
                raise (AccessDenied.of(error) if isinstance(error, NotFound) else error) from None
            passed.append(f"ECS metadata: {error.message}")
            if not uri and error.transient:
                raise type(error)(f"no credentials found: {'; '.join(passed)}", operation=error.operation) from None
    if uri:
        return await _credentials_uri(http, uri)
    raise AccessDenied(f"no credentials found: {'; '.join(passed)}; set {_KEYS[0]} or give the machine a RAM role")


async def _assume(http: SearchHttp, keys: Keys, role: str, external_id: Secret | None, session: _Session) -> Keys:
    origin = f"STS role {role}, with keys of {in_words(keys.origin)}"
    http.asks(origin)
    secret = () if external_id is None else (external_id.reveal(),)
    query = {"RoleArn": role, **session.fields(), **({"ExternalId": secret[0]} if secret else {})}
    call = Call(operation="AssumeRole", path="/", method="POST", query=query, secrets=secret)
    answer = await http.call(call, payloads.StsAnswer, PaiDialect("sts", _STS_VERSION, FixedKeys(keys)))
    return issued_keys(answer.credentials, call.operation, origin)


async def _assume_with_oidc(
    http: SearchHttp, provider: str, role: str, token: Secret, session: _Session | None = None
) -> Keys:
    origin, id_token = f"OIDC role {role}, with the token of {in_words(token.source)}", token.reveal()
    http.asks(origin)
    form = {"OIDCProviderArn": provider, "RoleArn": role, "OIDCToken": id_token}
    form |= (session or _Session()).fields()
    # In the body, because proxies log addresses.
    body, operation = urlencode(form).encode(), "AssumeRoleWithOIDC"
    call = Call(operation=operation, path="/", method="POST", body=body, secrets=(id_token,))
    answer = await http.call(call, payloads.StsAnswer, OpenDialect("sts", judge, _open_headers))
    return issued_keys(answer.credentials, operation, origin)


def _open_headers(call: Call) -> Mapping[str, str]:
    """The headers that STS requires of a caller without keys."""
    return {
        "content-type": "application/x-www-form-urlencoded",
        "x-acs-action": call.operation,
        "x-acs-date": iso_time(time.time()),
        "x-acs-signature-nonce": uuid.uuid4().hex,
        "x-acs-version": _STS_VERSION,
    }


async def _machine(env: Environment, http: SearchHttp, role: str) -> Keys:
    """The keys of the machine's RAM role. An old service has no sessions."""
    http.asks(f"ECS metadata, role {role}" if role else "ECS metadata")
    ttl = {"X-aliyun-ecs-metadata-token-ttl-seconds": "21600"}
    token = await open_session(http, "PutToken", "/latest/api/token", ttl, _judge_metadata, without=(403, 404))
    if not token and env.is_true(_PREFIX + "IMDSV1_DISABLED"):
        raise AccessDenied("the metadata service gives no tokens, and asking without one is disabled")
    headers = {"X-aliyun-ecs-metadata-token": token} if token else {}
    dialect = OpenDialect(METADATA, _judge_metadata, lambda call: headers, tuple(headers.values()))
    path = "/latest/meta-data/ram/security-credentials/"
    wanted = role
    try:
        if not role:
            call = Call(operation="ListRamRoles", path=path, text=_A_ROLE)
            role = str(await http.call(call, dict, dialect))
        call = Call(operation="GetRamRoleCredentials", path=path + quote(role, safe=""))
        answer = await http.call(call, payloads.MachineKeys, dialect)
    except NotFound as error:
        missing = f"this machine has no RAM role {wanted}".rstrip()
        raise NotFound(missing, operation=error.operation, status=error.status) from None
    return _machine_keys(answer, call.operation, f"ECS metadata, role {role}")


def _machine_keys(answer: payloads.MachineKeys, operation: str, origin: str) -> Keys:
    code = answer.code or ""
    if code != "Success":
        # A code is words. Anything else could quote the request, or be a key in a wrong place.
        is_word = _A_CODE.fullmatch(code.strip()) is not None
        shown = printable(code, 40) if is_word else "another code" if code else "no code"
        raise AccessDenied(f"no keys, but {shown}", operation=operation)
    return issued_keys(answer, operation, origin)


async def _credentials_uri(http: SearchHttp, uri: str) -> Keys:
    """The keys that an address answers. Its path and query can be secret."""
    name = _PREFIX + "CREDENTIALS_URI"
    try:
        parts = urlsplit(uri)
        base_url = parse_endpoint(f"{parts.scheme}://{parts.netloc}")
    except ValueError:
        raise AccessDenied(f"{name} is not an http or https address") from None
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    if not re.fullmatch(r"/[!-~]*", target, re.ASCII):
        raise AccessDenied(f"{name} is not an http or https address")
    if parts.scheme == "http" and not is_loopback(base_url):
        raise AccessDenied(f"{name} uses plain http to another machine")
    origin, call = f"the credentials URI at {base_url}", Call(operation="GetCredentialsUri", path="/")
    http.asks(origin)
    dialect = OpenDialect(METADATA, _judge_metadata, secrets=(target,), target=target)
    return _machine_keys(await http.call(call, payloads.MachineKeys, dialect, base_url), call.operation, origin)


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


@dataclass(frozen=True, slots=True)
class _File:
    """The profiles of a file by name, and the name of the one that is used without a choice."""

    path: Path
    shown: str
    profiles: Mapping[str, payloads.CliProfile]
    current: str
    is_ini: bool = False

    def whose(self, name: str) -> str:
        return f"profile {show(name)} of {self.shown}"


def _parse_json(raw: str) -> tuple[Mapping[str, payloads.CliProfile], str]:
    config = decode(raw.encode(), payloads.CliConfig)
    return {profile.name or "": profile for profile in config.profiles or ()}, config.current or ""


def _parse_ini(raw: str) -> tuple[Mapping[str, payloads.CliProfile], str]:
    found = {}
    for name, section in parse_ini(raw, comments=("#",)).items():
        fields = {_INI_KEYS.get(key, key): value for key, value in section.items()}
        kind = fields.get("type", "")
        found[name] = msgspec.convert(fields | {"mode": _INI_MODES.get(kind, kind)}, payloads.CliProfile)
    return found, "default" if "default" in found else ""


def _files(env: Environment) -> list[_File]:
    """The files that exist, in their order. AccessDenied for one of no use."""
    found = []
    path, shown = env.file("", ".aliyun", "config.json")
    if path is not None and not env.is_true(_PREFIX + "CLI_PROFILE_DISABLED"):
        config = read_file(path, shown, _parse_json, "a JSON file of the CLI", is_named=False)
        found += [] if config is None else [_File(path, shown, *config)]
    variable = _PREFIX + "CREDENTIALS_FILE"
    # The vendor's documentation and its Python client differ in the name.
    for name in ("credentials", "credentials.ini"):
        path, shown = env.file(variable, ".alibabacloud", name)
        is_named = bool(env.get(variable))
        if path is not None and (read := read_file(path, shown, _parse_ini, "an INI file", is_named=is_named)):
            found.append(_File(path, shown, *read, is_ini=True))
            break
    return found


def _shown_files(env: Environment) -> str:
    return f"~/.aliyun/config.json and {env.file(_PREFIX + 'CREDENTIALS_FILE', '.alibabacloud', 'credentials')[1]}"


async def _profile(env: Environment, http: SearchHttp, name: str) -> Keys:
    if (keys := await _profile_of_files(env, http, name)) is None:
        raise AccessDenied(f"no profile {show(name)} in {_shown_files(env)}")
    return keys


async def _profile_of_files(env: Environment, http: SearchHttp, name: str) -> Keys | None:
    """The keys of the first profile of that name, or else of the first that is current. None without any."""
    for file in _files(env):
        if not name and not file.current and file.profiles and not file.is_ini:
            raise AccessDenied(f"{file.shown} cannot be used: it has profiles, and none is current")
        if (wanted := name or file.current) and (not name or name in file.profiles):
            return await _use(env, http, file, wanted)
    return None


async def _use(env: Environment, http: SearchHttp, file: _File, name: str, seen: tuple[str, ...] = ()) -> Keys:
    """The keys of a profile. AccessDenied names file, profile and key if it cannot be used."""
    whose = file.whose(name)
    if name in seen:
        raise AccessDenied(f"{whose} cannot be used: source_profile leads back to it")
    if name not in file.profiles:
        raise AccessDenied(f"{file.shown} cannot be used: no profile {show(name)}")
    profile = file.profiles[name]
    need, mode = partial(_needed, file, name, profile), profile.mode or ""
    if mode in ("AK", "StsToken", "RamRoleArn"):
        # Permanent keys may be next to the token of earlier keys, which does not belong to them.
        token = need("sts_token") if mode == "StsToken" else None
        keys = Keys(need("access_key_id"), need("access_key_secret"), token, origin=whose)
        return keys if mode != "RamRoleArn" else await _assume_of(http, file, name, profile, keys)
    if mode == "ChainableRamRoleArn":
        keys = await _use(env, http, file, need("source_profile"), (*seen, name))
        return await _assume_of(http, file, name, profile, keys)
    if mode == "EcsRamRole":
        return await _machine(env, http, profile.ram_role_name or "")
    if mode == "OIDC":
        provider, role = _arn(file, name, profile, "oidc_provider_arn"), _arn(file, name, profile, "ram_role_arn")
        shown = f"oidc_token_file of {whose}"
        token_file = secret_of(file.path.parent / need("oidc_token_file"), shown)
        return await _assume_with_oidc(http, provider, role, token_file, _session(file, name, profile))
    reason = f"mode {show(mode)} is not supported; allowed: {', '.join(_MODES)}"
    raise AccessDenied(f"{whose} cannot be used: {reason}")


async def _assume_of(http: SearchHttp, file: _File, name: str, profile: payloads.CliProfile, keys: Keys) -> Keys:
    role, session = _arn(file, name, profile, "ram_role_arn"), _session(file, name, profile)
    external_id = Secret(profile.external_id, source=file.shown) if profile.external_id else None
    return await _assume(http, keys, role, external_id, session)


def _session(file: _File, name: str, profile: payloads.CliProfile) -> _Session:
    seconds = 3600
    # The CLI writes 0 and an empty name where its user chose nothing.
    if profile.expired_seconds not in (None, "", 0, "0"):
        seconds = whole({"seconds": profile.expired_seconds}, "seconds") or 0
    if not 900 <= seconds <= 43200:
        raise _unfit(file, name, "expired_seconds", "a whole number of seconds from 900 to 43200")
    names = {"ram_session_name": profile.ram_session_name, "role_session_name": profile.role_session_name}
    key = next((key for key, given in names.items() if given not in (None, "")), "")
    session_name = text(names, key) if key else _Session().name
    if not _SESSION_NAME.fullmatch(session_name):
        raise _unfit(file, name, key, "2 to 64 letters, digits and any of . @ _ -")
    return _Session(session_name, seconds, profile.policy or "")


def _needed(file: _File, name: str, profile: payloads.CliProfile, key: str) -> str:
    value: str = getattr(profile, key) or ""
    if reason := unusable_secret(value):
        raise AccessDenied(f"{_written(file, key)} of {file.whose(name)} cannot be used: {reason}")
    return value


def _arn(file: _File, name: str, profile: payloads.CliProfile, key: str) -> str:
    kind = "oidc-provider" if key == "oidc_provider_arn" else "role"
    value = _needed(file, name, profile, key)
    if not arn_form(kind).fullmatch(value):
        raise _unfit(file, name, key, f"an ARN such as acs:ram::1234567890123456:{kind}/name")
    return value


def _unfit(file: _File, name: str, key: str, allowed: str) -> AccessDenied:
    # Do not quote the value: it may be a secret in the wrong place, which must not be in a log.
    return AccessDenied(f"STS would refuse {_written(file, key)} of {file.whose(name)}; allowed: {allowed}")


def _written(file: _File, key: str) -> str:
    return {theirs: ours for ours, theirs in _INI_KEYS.items()}.get(key, key) if file.is_ini else key


# Signatures.

ALGORITHM = "ACS3-HMAC-SHA256"


def signature(
    *, method: str, path: str, query: Query, headers: Mapping[str, str], body_sha256: str, secret: str
) -> str:
    """The signature in lower-case hex, over `query` and exactly the `headers` given."""
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    return hmac_sha256(secret, string_to_sign(sha256(request)))


def string_to_sign(request_hash: str) -> str:
    """The string to sign for the hash of a canonical request."""
    return f"{ALGORITHM}\n{request_hash}"


def sign(
    *,
    method: str,
    path: str,
    query: Query,
    host: str,
    action: str,
    version: str,
    access_key_id: str,
    access_key_secret: str,
    security_token: str | None = None,
    now: datetime | float,
    nonce: str,
    body: bytes = b"",
) -> Signed:
    """Sign a request.

    `host` is the value of the Host header (with `:port` unless it is the scheme's default). `now` is an aware datetime
    or Unix seconds. `nonce` must differ for every attempt, including retries.
    """
    moment = now.astimezone(UTC) if isinstance(now, datetime) else datetime.fromtimestamp(now, UTC)
    headers = {
        "host": host,
        "x-acs-action": action,
        "x-acs-content-sha256": sha256(body),
        "x-acs-date": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "x-acs-signature-nonce": nonce,
        "x-acs-version": version,
    }
    if security_token:
        headers["x-acs-security-token"] = security_token
    request = canonical_request(
        method=method, path=path, query=query, headers=headers, body_sha256=headers["x-acs-content-sha256"]
    )
    request_hash = sha256(request)
    signed = hmac_sha256(access_key_secret, string_to_sign(request_hash))
    names = ";".join(sorted(headers))
    authorization = f"{ALGORITHM} Credential={access_key_id},SignedHeaders={names},Signature={signed}"
    return Signed(headers | {"Authorization": authorization}, (signed, request_hash))


VERSIONS = {
    "dlc": "2020-12-03",
    "paistudio": "2022-01-12",
    "aiworkspace": "2021-02-04",
    "cloudmonitor": "2019-01-01",
}
"""Of each API, by its label."""
# The meaning of responses.

_BAD_CLOCK = ("InvalidTimeStamp", "InvalidTimestamp", "IllegalTimestamp")
_ACCESS_CODES = (
    "InvalidAccessKeyId",
    "InvalidSecurityToken",
    "SignatureDoesNotMatch",
    "IncompleteSignature",
    "Forbidden",
    "NoPermission",
    "OperationForbidden",
    "RAMForbidden",
    "AuthenticationFail",
    "EntityNotExist",
)
_WRONG_ADDRESS_CODES = ("InvalidAction", "InvalidApi", "InvalidProduct", "InvalidVersion")
_GOOD_CODES = frozenset({"", "200", "OK", "Success"})
"""Codes of good responses of CloudMonitor and DLC GetMetrics, next to HTTP 200."""
_SERVICE_CODES = ("Internal", "ServiceUnavailable")
_SPENT = "user api quota limit"
"""CloudMonitor's text if the free calls of the month are spent. A pause of seconds does not help."""
_SPENT_PAUSE = 3600.0


_KEY_CODES = ("InvalidSecurityToken", "InvalidAccessKeyId", "SignatureDoesNotMatch")


class PaiDialect(SignedDialect[Keys]):
    """Signs the requests of an API of one version, and judges its responses (transport.Dialect)."""

    def __init__(self, api: str, version: str, credential: Credential[Keys]) -> None:
        super().__init__(api, credential)
        self.version = version

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt with a new nonce and date. The service rejects a repeated nonce."""
        keys = self.credential.current()
        keys.remember()
        # Send the canonical query itself, so that the request has the signed query.
        query = canonical_query(call.query)
        signed = sign(
            method=call.method,
            path=call.path,
            query=query,
            host=host,
            action=call.operation,
            version=self.version,
            access_key_id=keys.access_key_id,
            access_key_secret=keys.access_key_secret,
            security_token=keys.security_token,
            now=time.time(),
            nonce=uuid.uuid4().hex,
            body=call.body,
        )
        target = f"{call.path}?{query}" if query else call.path
        return SignedRequest(call.method, target, signed.headers, call.body, keys.quotable(), signed.proofs)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer (transport.Dialect)."""
        return judge(answer)

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether the rejection is about the key or its token."""
        return error.code.startswith(_KEY_CODES)


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its code first and its HTTP status second."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    code = text(payload, "Code") or text(payload, "code")
    status = answer.status
    if 200 <= status < 300:
        if flag(payload, "Success") is not False and code in _GOOD_CODES:
            return None
        status = _status_of(code)
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": printable(code, 80),
        "request_id": printable(text(payload, "RequestId") or text(payload, "requestId"), 64),
        "retry_after": retry_after(answer.headers),
    }
    message = printable(text(payload, "Message") or text(payload, "message"), 300)
    spent = _SPENT in message.lower()  # under which code is not known
    if code.startswith("Throttling") or status == 429 or spent:
        if spent:
            facts["retry_after"] = _SPENT_PAUSE
        return Throttled(message or "too many requests", **facts)
    if code.startswith(_BAD_CLOCK):
        return AccessDenied(_clock_message(answer.headers), **facts)
    if code.startswith("SignatureDoesNotMatch"):
        # The service's own message quotes the string that it signed; the reason is nearly always this one.
        return AccessDenied("the signature was refused: is the access key secret the right one?", **facts)
    if code.startswith(_ACCESS_CODES) or status in (401, 403):
        return AccessDenied(message or "access denied", **facts)
    if code.startswith(_WRONG_ADDRESS_CODES):
        return RequestRefused(f"{message or 'unknown operation'} (is the endpoint right?)", **facts)
    if status == 404:
        return NotFound(message or "not found", **facts)
    if status >= 500:
        return ServerTrouble(message or "the service failed", **facts)
    if status >= 400:
        return RequestRefused(message or "the request was refused", **facts)
    return None  # a redirect: the transport says so


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The service's wait hint in seconds.

    `x-acs-retry-after` is whole MILLISECONDS; the older `x-ratelimit-user-api` and `x-ratelimit-user` hold
    `...,TimeLeft:2000,...`, milliseconds as well. Anything not positive or not readable is no hint.
    """
    hints = [headers.get("x-acs-retry-after", "")]
    for name in ("x-ratelimit-user-api", "x-ratelimit-user"):
        for item in headers.get(name, "").split(","):
            key, _, value = item.partition(":")
            if key.strip() == "TimeLeft":
                hints.append(value)
    for hint in hints:
        milliseconds = whole({"hint": hint.strip()}, "hint")
        if milliseconds:
            return milliseconds / 1000
    return None


def _status_of(code: str) -> int:
    """The HTTP status that an answer ought to have had which says by its Code alone that it is an error."""
    if len(code) == 3 and code.isascii() and code.isdigit() and code[0] in "45":
        return int(code)
    return 500 if code.startswith(_SERVICE_CODES) else 400


def _clock_message(headers: Mapping[str, str]) -> str:
    """Say that the clock here is off: both times, and the difference if the service gives its own."""
    here, date = time.time(), headers.get("date", "")
    try:
        there = parsedate_to_datetime(date).timestamp()
        service = iso_time(there)
    except (ValueError, OverflowError):
        return f"the clock of this machine is off: here it is {iso_time(here)}, there it is unknown"
    minutes = round(abs(here - there) / 60)
    ahead = "ahead" if here > there else "behind"
    apart = f"off by {minutes} minutes ({ahead})" if minutes else "off"
    return f"the clock of this machine is {apart}: here it is {iso_time(here)}, there it is {service}"
