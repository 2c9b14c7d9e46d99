"""Huawei Cloud as seen from outside: how keys are found, endpoints, signatures, and the meaning of responses.

Without a config section, keys are found in the order of the vendor's clients; the first source that says something is
used:

    OIDC variables ──► access key variables ──► profile file ──► agency of the machine, by ECS metadata

Calls are signed with an access key, or they have an IAM token. Their project is the one in the config, else that of the
credential, else the one that IAM has for the region's name.

https://github.com/huaweicloud/huaweicloud-sdk-python-v3
https://support.huaweicloud.com/intl/en-us/api-iam5/AssumeAgencyWithOIDC.html
https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html (tokens)
https://support.huaweicloud.com/intl/en-us/usermanual-ecs/ecs_03_0166.html (metadata)
https://support.huaweicloud.com/intl/en-us/devg-apisign/api-sign-algorithm.html
https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.secrets import is_plain, show, unusable_secret
from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    CloudError,
    NotFound,
    RequestRefused,
    ServerTrouble,
    Throttled,
)
from trainfleet_exporter.providers.canonical import (
    Query,
    Signed,
    canonical_query,
    canonical_request,
    hmac_sha256,
    sha256,
)
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.credentials import Credentials
from trainfleet_exporter.providers.key_search import (
    METADATA,
    Environment,
    KeyHttp,
    NoHttp,
    OpenDialect,
    SearchHttp,
    in_words,
    issued_keys,
    open_credential,
    open_session,
    parse_ini,
    read_file,
    without_calls,
)
from trainfleet_exporter.providers.keys import BackOff, Credential, GivenKeys, Keys, SignedDialect
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import iso_time, mapping, number, printable, text, utc_time

# Credentials.

KEPT: Mapping[str, float] = {
    "KeystoneCreateUserTokenByPassword": 23.5 * 3600,
    "AssumeAgencyWithOIDC": 1800.0,
    "GetMetadataToken": 23 * 3600.0,
    "GetSecurityKey": 23 * 3600.0,
    "KeystoneListProjects": float("inf"),
}
"""Seconds for which the answer of an operation is used, as a rule."""
_KEYS_MARGIN, _TOKEN_MARGIN = 2400.0, 1800.0
"""Seconds before their end at which keys are refreshed, as in the vendor's own clients, and tokens, which may also end
up to half an hour early, when rights change."""
_SDK, _BY_OIDC = "HUAWEICLOUD_SDK_", "HUAWEICLOUD_OIDC_"
_KEYS, _TOKEN, _PROJECT = (_SDK + "AK", _SDK + "SK"), _SDK + "SECURITY_TOKEN", _SDK + "PROJECT_ID"
_PROJECT_ID = re.compile("[A-Za-z0-9-]{1,64}")
_WITHOUT_SESSIONS = (404, 405, 503)


@dataclass(frozen=True, slots=True)
class Token(Keys):
    """An IAM token, as the security token without a key; `project_id` is empty where IAM did not say."""

    def parts(self) -> tuple[str, ...]:
        """The token."""
        return (self.security_token or "",)


async def load(
    section: Credentials | None, environ: Mapping[str, str], http: SearchHttp, *, scope: Mapping[str, str] | None = None
) -> Keys:
    """The keys of a section, or of the vendor's chain without one. Raises CloudError. `scope` selects the project."""
    env = Environment(environ)
    if section is None:
        return await _chain(env, http)
    if section.oidc is not None:
        urns, token = (section.oidc.provider_urn, section.oidc.agency_urn), section.oidc.token
        return await _assume_with_oidc(http, urns, token.reveal(), token.source, session={})
    if section.ecs_agency:
        return await _machine(http)
    if section.profile is not None:
        keys = _profile(env, section.profile)
        if keys is None:
            raise AccessDenied(f"no profile {show(section.profile)} in {_file(env)[1]}")
        return keys
    if section.password is not None:
        return await _token_of(http, section, section.password, scope or {})
    return GivenKeys(*section.given_keys()).current()


async def _chain(env: Environment, http: SearchHttp) -> Keys:
    project_id = env.get(_PROJECT)
    if project_id and not _PROJECT_ID.fullmatch(project_id):
        raise AccessDenied(f"{_PROJECT} is not 1 to 64 letters, digits and hyphens")
    given = _BY_OIDC + "ID_TOKEN"
    token = given if env.get(given) else _BY_OIDC + "TOKEN_FILE"
    names = (_BY_OIDC + "PROVIDER_URN", _BY_OIDC + "AGENCY_URN", token)
    if env.all_or_none(*names):
        id_token = env.secret(given) or env.secret_file(token).reveal()
        source = "environment" if token == given else f"the file of {token}"
        urns, session = (env.get(names[0]), env.get(names[1])), _session(env)
        return await _assume_with_oidc(http, urns, id_token, source, session=session, project_id=project_id)
    if env.get(_SDK + "IDP_ID"):
        # The vendor's clients would use this way and no other: its author means another identity.
        raise AccessDenied(f"the environment sets {_SDK}IDP_ID, which is not supported")
    if env.all_or_none(*_KEYS):
        key, secret, security_token = (env.secret(name) for name in (*_KEYS, _TOKEN))
        return Keys(key, secret, security_token or None, origin="environment", project_id=project_id)
    if env.get(_TOKEN):
        raise AccessDenied(f"the environment sets {_TOKEN} without {' and '.join(_KEYS)}")
    keys = _profile(env, "basic")
    if keys is not None:
        return keys
    try:
        return await _machine(http, project_id)
    except CloudError as error:
        where = f"the environment sets no keys, {_file(env)[1]} has no section [basic], ECS metadata: {error.message}"
        kind = type(error) if error.transient else AccessDenied
        raise kind(f"no credentials found: {where}", operation=error.operation, status=error.status) from None


def _session(env: Environment) -> dict[str, object]:
    seconds = env.get(_BY_OIDC + "DURATION_SECONDS")
    if seconds and not re.fullmatch("[0-9]{1,6}", seconds):
        raise AccessDenied(f"{_BY_OIDC}DURATION_SECONDS is not a whole number of seconds")
    name, policy = env.get(_BY_OIDC + "SESSION_NAME"), env.get(_BY_OIDC + "POLICY")
    policy_ids = [part.strip() for part in env.get(_BY_OIDC + "POLICY_IDS").split(",") if part.strip()]
    return {
        **({"agency_session_name": name} if name else {}),
        **({"duration_seconds": int(seconds)} if seconds else {}),
        **({"policy": policy} if policy else {}),
        **({"policy_ids": policy_ids} if policy_ids else {}),
    }


async def _assume_with_oidc(
    http: SearchHttp,
    urns: tuple[str, str],
    token: str,
    source: str,
    *,
    session: Mapping[str, object],
    project_id: str = "",
) -> Keys:
    """Keys of an agency. Not signed: the ID token proves the identity."""
    provider, agency = urns
    origin = f"OIDC agency {agency}, with the token of {in_words(source)}"
    http.asks(origin)
    asked = {"provider_urn": provider, "agency_urn": agency, "id_token": token, "duration_seconds": 3600}
    asked |= {"agency_session_name": "trainfleet-exporter", **session}
    path, body = "/v5/agencies/assume-with-oidc", json.dumps(asked).encode()
    call = Call(operation="AssumeAgencyWithOIDC", path=path, method="POST", body=body, secrets=(token,))
    answer = await http.call(call, payloads.AgencyAnswer, _open("sts"))
    return issued_keys(answer.credentials, call.operation, origin, project_id)


async def _machine(http: SearchHttp, project_id: str = "") -> Keys:
    """The keys of the server's agency. An old service has no sessions."""
    http.asks("ECS metadata")
    ttl, operation = {"X-Metadata-Token-Ttl-Seconds": "21600"}, "GetSecurityKey"
    path = "/meta-data/latest/api/token"
    token = await open_session(http, "GetMetadataToken", path, ttl, _judge_session, without=_WITHOUT_SESSIONS)
    headers = {"X-Metadata-Token": token} if token else {}
    dialect = OpenDialect(METADATA, judge, lambda call: headers, tuple(headers.values()))
    try:
        call = Call(operation=operation, path="/openstack/latest/securitykey")
        answer = await http.call(call, payloads.ServerAnswer, dialect)
    except (NotFound, RequestRefused) as error:
        if error.status != 404:
            raise
        raise AccessDenied("this server has no agency", operation=operation, status=404) from None
    return issued_keys(answer.credential, operation, "ECS metadata", project_id)


def _judge_session(answer: HttpAnswer) -> CloudError | None:
    """If sessions are not served, treat 503 like 404: another attempt would only take time."""
    if answer.status in _WITHOUT_SESSIONS:
        return RequestRefused("sessions are not served", status=answer.status)
    return judge(answer)


async def _token_of(http: SearchHttp, section: Credentials, secret: Secret, scope: Mapping[str, str]) -> Token:
    """A token for a project. A HUAWEI ID account cannot have tokens this way."""
    origin = f"IAM password of user {section.username}, from {in_words(secret.source)}"
    http.asks(origin)
    password = secret.reveal()
    user = {"name": section.username, "password": password, "domain": {"name": section.domain_name}}
    identity = {"methods": ["password"], "password": {"user": user}}
    headers: dict[str, str] = {}
    call = Call(
        operation="KeystoneCreateUserTokenByPassword",
        path="/v3/auth/tokens",
        method="POST",
        query={"nocatalog": "true"},
        body=json.dumps({"auth": {"identity": identity, "scope": {"project": scope}}}).encode(),
        secrets=(password,),
        receive_headers=headers.update,
    )
    answer = (await http.call(call, payloads.TokenAnswer, _open("iam"))).token or payloads.IssuedToken()
    token, expires = headers.get("x-subject-token", ""), utc_time({"at": answer.expires_at}, "at")
    if not token or expires is None:
        message = "IAM's answer has no token, or does not say when it expires"
        raise BadAnswer(message, operation=call.operation)
    return Token("", "", token, expires, origin, (answer.project or payloads.Project()).id or "")


def _open(api: str) -> OpenDialect:
    return OpenDialect(api, judge, lambda call: {"content-type": "application/json"})


def _file(env: Environment) -> tuple[Any, str]:
    return env.file(_SDK + "CREDENTIALS_FILE", ".huaweicloud", "credentials")


def _profile(env: Environment, name: str) -> Keys | None:
    """The keys of a section as they are now; None without the section. AccessDenied names what cannot be used."""
    path, shown = _file(env)
    if path is None:
        return None
    is_named = bool(env.get(_SDK + "CREDENTIALS_FILE"))
    sections = read_file(path, shown, parse_ini, "an INI file", is_named=is_named)
    if sections is None or name not in sections:
        return None
    section, whose = sections[name], f"section [{name if is_plain(name) else '…'}] of {shown}"
    values = [section.get(key, "") for key in ("ak", "sk", "security_token", "project_id")]
    for key, value in zip(("ak", "sk", "security_token"), values, strict=False):
        if (reason := unusable_secret(value)) and (value or key != "security_token"):
            raise AccessDenied(f"{key} of {whose} cannot be used: {reason}")
    if values[3] and not _PROJECT_ID.fullmatch(values[3]):
        raise AccessDenied(f"project_id of {whose} is not 1 to 64 letters, digits and hyphens")
    origin = f"profile {name if is_plain(name) else '…'} of {shown}"
    return Keys(values[0], values[1], values[2] or None, origin=origin, project_id=values[3])


def open_identity(
    provider: str,
    section: Credentials | None,
    http: KeyHttp,
    environ: Mapping[str, str],
    *,
    region: str,
    project_id: str,
) -> Identity:
    """The identity of a provider. An empty `project_id` is found out. Makes no call."""
    find = partial(load, scope={"id": project_id} if project_id else {"name": region})
    is_user = section is not None and section.password is not None
    margin = _TOKEN_MARGIN if is_user else _KEYS_MARGIN
    credential = open_credential(provider, section, find, http, environ, margin=margin)
    with suppress(CloudError):  # the first poll reports it
        known = without_calls(find(section, environ, NoHttp()))
        project_id = project_id or ("" if isinstance(known, str) else known.project_id)
    return Identity(credential, region=region, project_id=project_id)


# Endpoints.

_DOMAINS = {"eu-west-101": ("myhuaweicloud.eu", ("iam",))}
"""By region that is not in the common domain: its own, and the APIs that are known to be there."""
_COMMON_DOMAIN = "myhuaweicloud.com"


def is_proven(api: str, region: str) -> bool:
    """Return whether the address of an API in a region is known."""
    return region not in _DOMAINS or api in _DOMAINS[region][1]


def public_endpoint(api: str, region: str) -> str:
    """The address of an API in a region. AccessDenied where it is not known."""
    if not is_proven(api, region):
        raise AccessDenied(f"the address of {api} in {region} is not known: set endpoints.{api}")
    domain = _DOMAINS[region][0] if region in _DOMAINS else _COMMON_DOMAIN
    return f"https://{api}.{region}.{domain}"


# Signatures.

ALGORITHM = "SDK-HMAC-SHA256"
DATE_FORMAT = "%Y%m%dT%H%M%SZ"
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"


def canonical_path(path: str) -> str:
    """The path as it is signed: with a slash at its end that is not sent, and each character encoded in one way."""
    return quote(unquote(path), safe="/").removesuffix("/") + "/"


def signature(
    *, method: str, path: str, query: Query, headers: Mapping[str, str], date: str, body_sha256: str, secret: str
) -> str:
    """The signature in lower-case hex, over the decoded `query` and exactly the `headers` given; `date` as it is sent.

    `body_sha256` is the hex hash of the body, or the text that `x-sdk-content-sha256` gives in its stead.
    """
    path = canonical_path(path)
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    return hmac_sha256(secret, string_to_sign(sha256(request), date))


def string_to_sign(request_hash: str, date: str) -> str:
    """The string to sign for the hash of a canonical request; `date` as it is sent."""
    return f"{ALGORITHM}\n{date}\n{request_hash}"


def sign(
    *,
    method: str,
    path: str,
    query: Query,
    host: str,
    access_key: str,
    secret_key: str,
    security_token: str | None = None,
    project_id: str | None = None,
    now: datetime | float,
    content_type: str | None = None,
    body: bytes = b"",
) -> Signed:
    """Sign a request.

    `host` is as the Host header will say it (with `:port` unless it is the scheme's default); `now` is an aware
    datetime or Unix seconds. Bodies are JSON or empty: for other types the vendor's clients leave the body unsigned.
    """
    moment = now.astimezone(UTC) if isinstance(now, datetime) else datetime.fromtimestamp(now, UTC)
    optional = {"content-type": content_type, "x-project-id": project_id, "x-security-token": security_token}
    headers = {
        "host": host,
        "x-sdk-date": moment.strftime(DATE_FORMAT),
        **{name: value for name, value in optional.items() if value},
    }
    path = canonical_path(path)
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=sha256(body))
    request_hash = sha256(request)
    signed = hmac_sha256(secret_key, string_to_sign(request_hash, headers["x-sdk-date"]))
    names = ";".join(sorted(headers))
    authorization = f"{ALGORITHM} Access={access_key}, SignedHeaders={names}, Signature={signed}"
    return Signed(headers | {"Authorization": authorization}, (signed, request_hash))


# The caller, and the project of its calls.


class Identity:
    """The caller and the project (providers.registry.Identity). An empty `project_id` is looked up."""

    def __init__(self, credential: Credential[Keys], *, region: str, project_id: str) -> None:
        self.credential = credential
        self.project_id = project_id
        """Empty while it is not known."""
        self._region = region
        self._iam: ApiClient | None = None
        self._finding = asyncio.Lock()
        self._back_off = BackOff()

    def use(self, iam: ApiClient) -> None:
        """Set the client that asks IAM for projects, which asks as this very identity."""
        self._iam = iam

    @property
    def origin(self) -> str:
        """The source of the credential, for users."""
        return self.credential.origin

    @property
    def expires(self) -> float | None:
        """When the latest credential expires or expired (Unix seconds); None if it does not."""
        return self.credential.expires

    async def project(self, deadline: float) -> str:
        """The project's id: the configured one, the token's, or IAM's by the region's name. Raises CloudError."""
        if not self.project_id:
            async with self._finding:
                if not self.project_id:
                    keys = await self.credential.keys(deadline)
                    self.project_id = keys.project_id
                if not self.project_id:
                    self._back_off.check(keys)
                    try:
                        self.project_id = await self._find_project(deadline)
                    except CloudError as error:
                        self._back_off.note(keys, error)
                        raise
        return self.project_id

    async def _find_project(self, deadline: float) -> str:
        assert self._iam is not None
        call = Call(operation="KeystoneListProjects", path="/v3/projects", query={"name": self._region})
        try:
            answer = await self._iam.call(call, payloads.ProjectsAnswer, deadline=deadline)
        except (NotFound, RequestRefused) as error:
            raise AccessDenied.of(error) from None  # no statement about what the call in the project asks for
        if answer.projects is None:
            raise BadAnswer("the answer has no list of projects", operation=call.operation)
        found = list(dict.fromkeys(project.id or "" for project in answer.projects if project is not None))
        if len(found) != 1 or not found[0]:
            raise AccessDenied(
                f"{len(found)} projects are named {self._region}; set project_id to one of them",
                operation=call.operation,
            )
        return found[0]


# The meaning of responses.

_JOB_NOT_FOUND = "ModelArts.2775"
_CREDENTIAL_REFUSED = (".0307", "ModelArts.0203", "ModelArts.2784")
_RATE_LIMIT = re.compile(r"limit: ?(\d{1,9}), ?time: ?(\d{1,9}) ?(second|minute|hour|day)", re.ASCII)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_MAX_SKEW = 900.0
"""Seconds that a clock may be off, either way, before the gateway refuses every signature."""
_ACCESS_KEY = re.compile(r"\b((?i:ak))\s+[A-Z0-9]{16,}")
"""The gateway names the key that it does not know."""
_WRONG_CLOCK = "the clock of this machine is off"


class HuaweiDialect(SignedDialect[Keys]):
    """Signs the requests of an API for an identity, and judges its responses (transport.Dialect)."""

    def __init__(self, api: str, identity: Identity) -> None:
        super().__init__(api, identity.credential)
        self._identity = identity

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt, or let it carry the token."""
        # Send the canonical query itself, so that the request has the signed query.
        target = f"{call.path}?{query}" if (query := canonical_query(call.query)) else call.path
        credential = self.credential.current()
        credential.remember()
        content_type = "application/json" if call.body else None
        if isinstance(credential, Token):
            token = credential.security_token or ""
            headers = {"host": host, "X-Auth-Token": token}
            headers |= {"content-type": content_type} if content_type else {}
            return SignedRequest(call.method, target, headers, call.body, (token,))
        signed = sign(
            method=call.method,
            path=call.path,
            query=call.query,
            host=host,
            access_key=credential.access_key_id,
            secret_key=credential.access_key_secret,
            security_token=credential.security_token,
            project_id=self._identity.project_id or None,
            now=time.time(),
            content_type=content_type,
            body=call.body,
        )
        return SignedRequest(call.method, target, signed.headers, call.body, credential.quotable(), signed.proofs)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer; else what went wrong."""
        return judge(answer)

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether the rejection is about the credential. With a wrong clock, another one would be rejected as
        well."""
        about_credential = error.status == 401 or error.code.endswith(_CREDENTIAL_REFUSED)
        return about_credential and not error.message.startswith(_WRONG_CLOCK)


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its HTTP status first and its code second."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    if 200 <= answer.status < 300:
        if payload.get("is_success") is False:  # v1 says so even with 200
            code, message = _code_and_message(payload)
            return RequestRefused(message or "the service says that it failed", status=answer.status, code=code)
        return None
    code, message = _code_and_message(payload)
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": code,
        "request_id": printable(answer.headers.get("x-request-id", "") or text(payload, "request_id"), 64),
        "retry_after": number({"s": answer.headers.get("retry-after", "")}, "s"),
    }
    if answer.status == 429 or code.endswith(".0308"):
        return Throttled(message or "too many requests", pace=_pace(message), **facts)
    if answer.status in (401, 403):
        return AccessDenied(
            _wrong_clock(message, answer.headers.get("date", "")) or message or "access denied", **facts
        )
    if code == _JOB_NOT_FOUND or (answer.status == 404 and code.startswith("ModelArts.")):
        return NotFound(message or "not found", **facts)
    if answer.status == 404:
        return RequestRefused(f"{message or 'unknown operation'} (is it served in this region?)", **facts)
    if answer.status >= 500:
        return ServerTrouble(message or "the service failed", **facts)
    return RequestRefused(message or "the request was refused", **facts) if answer.status >= 400 else None


def _wrong_clock(message: str, date: str) -> str:
    """Say that the clock here is off, with both times, if a refusal is about that; else return an empty text.

    The gateway has several wordings for it; the time at which it answered decides in any case.
    """
    now = time.time()
    off = 0.0
    try:
        there = parsedate_to_datetime(date).timestamp()
        service = iso_time(there)
    except (ValueError, OverflowError):  # no date, or one beyond the year 9999
        service = "unknown"
    else:
        off = abs(there - now)
    if off > _MAX_SKEW:
        minutes = f" by {off / 60:.0f} minutes"
    elif "timestamp" in message.lower() or "x-sdk-date" in message.lower():
        minutes = ""
    else:
        return ""
    return f"{_WRONG_CLOCK}{minutes}: here it is {iso_time(now)}, there it is {service}"


def _pace(message: str) -> float | None:
    """The requests a second that the gateway's own words allow: `...over ratelimit,limit:60,time:1 minute`."""
    match = _RATE_LIMIT.search(message)
    if match is None or not int(match[2]):
        return None
    return int(match[1]) / (int(match[2]) * _UNITS[match[3]])


def _code_and_message(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Code and message of an error body, in any of the forms that ModelArts, the gateway and IAM have for it."""
    inner = mapping(payload, "error")
    code = text(payload, "error_code") or text(payload, "errorCode") or text(payload, "code") or text(inner, "code")
    message = ""
    for fields in (payload, inner):
        for key in ("error_msg", "error_message", "errorMsg", "message"):
            message = message or text(fields, key)
    return printable(code, 80), printable(_ACCESS_KEY.sub(r"\1 <secret>", message), 300)
