"""AWS as seen from outside: credentials by botocore, endpoints, signatures, and the meaning of responses.

Without a config section, botocore's own chain finds the keys: environment, role or web identity of the profile, web
identity of the environment, SSO, keys, login and process of the profile, container endpoint, EC2 metadata. Two rules
are added: a profile or variable that says something and cannot be used is an error; a chosen profile must have keys.

https://docs.aws.amazon.com/boto3/latest/guide/credentials.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
"""

from __future__ import annotations

import codecs
import hashlib
import hmac
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import yarl

from trainfleet_exporter.config import Http
from trainfleet_exporter.config.secrets import is_plain, show
from trainfleet_exporter.errors import (
    AccessDenied,
    CloudError,
    NotFound,
    RequestRefused,
    ServerTrouble,
    Throttled,
    Unreachable,
)
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.aws_sagemaker.credentials import Credentials
from trainfleet_exporter.providers.key_search import SearchHttp, in_words, known_origin, secrets_of
from trainfleet_exporter.providers.keys import (
    Credential,
    FetchedKeys,
    GivenKeys,
    Keys,
    SignedDialect,
    described,
    in_thread,
)
from trainfleet_exporter.transport import Attempt, Call, HttpAnswer, HttpSettings, SignedRequest
from trainfleet_exporter.transport.json_fields import number, printable, text
from trainfleet_exporter.transport.proxies import UnusableProxy, proxy_for

log = logging.getLogger(__name__)

# Credentials.

KEPT: Mapping[str, float] = {"GetCredentials": 2700.0}
"""Seconds for which the response of an operation is normally used."""
_SESSION_NAME = "trainfleet-exporter"
_SAYS_KEYS = (
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "role_arn", "source_profile"),
    *("credential_source", "credential_process", "web_identity_token_file", "login_session"),
    *("sso_session", "sso_start_url", "sso_account_id", "sso_role_name", "mfa_serial"),
)
"""Keys of a profile by which its author chose an identity."""
_FOUND = {"env": "environment", "container-role": "container credentials endpoint", "iam-role": "EC2 metadata"}
"""By botocore's name of a method, the origin for users. All other methods belong to a profile."""
_IS_AWAY = "EC2 metadata did not answer"
_METADATA_STATUS = re.compile(r"Received non 200 response (\d{3}) ")
_ASKED_LATER = ("assume-role", "assume-role-with-web-identity", "sso", "login")
"""Methods whose calls botocore makes when the keys are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a provider's credentials are asked for: its region, and the addresses that replace the public ones."""

    region: str
    fips: bool
    http: Http
    sts: str | None
    metadata: str | None


def open_credential(
    provider: str, section: Credentials | None, place: Place, observe: Callable[[Attempt], None]
) -> Credential[Keys]:
    """The credential of a section, or of botocore's chain without one. Makes no call."""
    if section is not None and (parts := section.given_keys()):
        return GivenKeys(*parts)
    fetch = in_thread(partial(_find, section, place), explain, observe, timeout=3 * place.http.request_timeout)
    return FetchedKeys(provider, known_origin(section, load, os.environ), fetch, basis=partial(secrets_of, section))


async def load(section: Credentials | None, environ: Mapping[str, str], http: SearchHttp) -> Keys:
    """The keys of a section that are known without a call; botocore itself makes the calls. Raises CloudError."""
    if section is not None and (parts := section.given_keys()):
        return GivenKeys(*parts).current()
    try:
        return _find(section, None, http.asks)
    except CloudError:
        raise
    except Exception as error:  # noqa: BLE001 - botocore raises anything
        raise explain(error) from None


def _find(given: Credentials | None, place: Place | None, asks: Callable[[str], None] = lambda origin: None) -> Keys:
    """The keys of a section by botocore, which blocks. Calls `asks` with the origin before the first call."""
    from botocore import credentials as vendor  # noqa: PLC0415 - 9 MiB, which keys of the config do not need

    is_own = given is not None and (given.web_identity or given.access_key_id)
    session = _session(place, is_own=bool(is_own), profile=None if given is None else given.profile)
    asked: dict[str, Any] = {"RoleSessionName": _SESSION_NAME}
    if given is not None and (web := given.web_identity):
        origin = f"web identity role {web.role_arn}, with the token of {in_words(web.token.source)}"
        web.token.reveal()
        asks(origin)
        web_role = vendor.AssumeRoleWithWebIdentityCredentialFetcher(
            session.create_client, web.token.reveal, web.role_arn, extra_args=asked
        )
        return _issued(web_role.fetch_credentials(), origin)
    if given is not None and given.access_key_id and given.secret_access_key:
        token = given.session_token.reveal() if given.session_token else None
        base = vendor.Credentials(given.access_key_id.reveal(), given.secret_access_key.reveal(), token)
        origin = given.access_key_id.source
    else:
        base, origin = _by_chain(session, None if given is None else given.profile, asks)
    if given is not None and given.role_arn:
        origin = f"STS role {given.role_arn}, with keys of {in_words(origin)}"
        asks(origin)
        asked |= {"ExternalId": given.external_id.reveal()} if given.external_id else {}
        role = vendor.AssumeRoleCredentialFetcher(session.create_client, base, given.role_arn, extra_args=asked)
        return _issued(role.fetch_credentials(), origin)
    if base.method in _ASKED_LATER:
        asks(origin)
    frozen = base.get_frozen_credentials()
    end = getattr(base, "_expiry_time", None)  # which botocore does not publish
    expires = None if end is None else end.timestamp()
    return Keys(frozen.access_key, frozen.secret_key, frozen.token, expires, origin)


def _by_chain(session: Any, profile: str | None, asks: Callable[[str], None]) -> tuple[Any, str]:
    """The first credentials of botocore's chain, and their origin."""
    chosen = profile or session.get_config_variable("profile")
    name = chosen or "default"
    if not profile:
        _refuse_half_of_environment()
    having = _files_with(session, name)
    profiles = session.full_config.get("profiles", {})
    says = [key for key in _SAYS_KEYS if key in profiles.get(name, {})]
    whose = f"profile {show(name)} of {having}"
    if chosen and name not in profiles:
        raise AccessDenied(f"no {whose}")
    sources = _sources(profiles, name)
    providers = session.get_component("credential_provider").providers
    statuses = _statuses_of(providers)
    for provider in providers:
        method = provider.METHOD
        is_machine, origin = method in ("container-role", "iam-role"), _FOUND.get(method, whose)
        if is_machine:
            _refuse_leftovers(session, whose, says, is_chosen=bool(chosen))
        elif method == "assume-role" and any({"mfa_serial", "role_arn"} <= set(source) for source in sources):
            raise AccessDenied(f"{whose} cannot be used: mfa_serial needs a person; use a role without MFA")
        if _calls_at_once(method, sources):
            asks(origin)
        roles = _roles_of(provider) if method == "iam-role" else []
        try:
            found = provider.load()
        except Exception as error:
            if method in _FOUND:
                raise
            problem = Unreachable(_IS_AWAY) if _is_away(statuses) else explain(error)
            problem.message = (
                f"{whose} cannot be used ({', '.join(says)}): {problem.message}" if says else problem.message
            )
            raise problem from None
        if found is not None:
            if method == "assume-role-with-web-identity" and "web_identity_token_file" not in says:
                origin = f"web identity role {os.environ.get('AWS_ROLE_ARN', '')}, by the environment"
            elif method.startswith("assume-role"):
                origin = f"STS role {profiles[name].get('role_arn', '')}, by {whose}"
            return found, origin + (f", role {roles[0]}" if roles else "")
    raise _none_found(whose, statuses)


def _none_found(whose: str, statuses: Sequence[int]) -> CloudError:
    if _is_away(statuses):
        return Unreachable(f"no credentials found in the environment or in {whose}, and {_IS_AWAY}")
    return AccessDenied(
        f"no credentials found in the environment, in {whose}, or from EC2 metadata; "
        "for a container, the hop limit of the metadata service must be 2 or more"
    )


def _sources(profiles: Mapping[str, Mapping[str, str]], name: str) -> list[Mapping[str, str]]:
    """A profile, its source profile, and so on."""
    seen: list[str] = []
    while name in profiles and name not in seen:
        seen.append(name)
        name = profiles[name].get("source_profile", "")
    return [profiles[name] for name in seen]


def _calls_at_once(method: str, sources: Sequence[Mapping[str, str]]) -> bool:
    """Return whether botocore asks a service or runs a program as soon as a method is tried."""
    match method:
        case "iam-role":
            return os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true"
        case "container-role":
            return any(f"AWS_CONTAINER_CREDENTIALS_{which}_URI" in os.environ for which in ("RELATIVE", "FULL"))
        case "custom-process":
            return any("credential_process" in source for source in sources[:1])
        case "assume-role":
            return any(
                source.get("credential_source") in ("Ec2InstanceMetadata", "EcsContainer")
                or "credential_process" in source
                for source in sources
                if "role_arn" in sources[0]
            )
    return False


def _refuse_leftovers(session: Any, whose: str, says: Sequence[str], *, is_chosen: bool) -> None:
    """Refuse to go on to the machine's role after a profile or a file that was meant and cannot be used."""
    if says or is_chosen:
        reason = f"{' and '.join(says)} cannot be used alone" if says else "it has no keys"
        raise AccessDenied(f"{whose} cannot be used: {reason}")
    for path, shown in _files(session):
        if shown != f"~/.aws/{path.name}" and not path.is_file():
            raise AccessDenied(f"{shown} cannot be used: no such file, and the environment names it")


def _refuse_half_of_environment() -> None:
    """Refuse what botocore passes over. A key without its secret is an error of its own."""
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        if os.environ.get(name) and not os.environ.get("AWS_ACCESS_KEY_ID"):
            raise AccessDenied(f"the environment sets {name} without AWS_ACCESS_KEY_ID")


def _roles_of(provider: Any) -> list[str]:
    """A list that gets the name of the machine's role, which botocore only logs."""
    roles: list[str] = []
    fetcher = provider._role_fetcher
    fetch = fetcher.retrieve_iam_role_credentials

    def fetch_and_note() -> dict[str, Any]:
        found: dict[str, Any] = fetch()
        roles.extend(printable(str(found[key]), 64) for key in ("role_name",) if key in found)
        return found

    fetcher.retrieve_iam_role_credentials = fetch_and_note
    return roles


def _statuses_of(providers: Sequence[Any]) -> list[int]:
    """A list that gets the HTTP status of each answer of EC2 metadata, and 0 for none: botocore only logs them."""
    statuses: list[int] = []
    # A credential_source uses the same fetcher.
    (http,) = [provider._role_fetcher._session for provider in providers if provider.METHOD == "iam-role"]
    send = http.send

    def send_and_note(request: Any) -> Any:
        statuses.append(0)
        answer = send(request)
        statuses[-1] = answer.status_code
        return answer

    http.send = send_and_note
    return statuses


def _is_away(statuses: Sequence[int]) -> bool:
    """Return whether EC2 metadata was asked, and did not answer in the end."""
    return bool(statuses) and (statuses[-1] in (0, 429) or statuses[-1] >= 500)


def _files(session: Any) -> list[tuple[Path, str]]:
    """The shared files, and their names for users."""
    found = []
    for setting, variable, usual in (
        ("config_file", "AWS_CONFIG_FILE", "~/.aws/config"),
        ("credentials_file", "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ):
        path = os.environ.get(variable, "")
        shown = usual if not path else path if is_plain(path) else f"the file of {variable}"
        found.append((Path(os.path.expandvars(session.get_config_variable(setting))).expanduser(), shown))
    return found


def _files_with(session: Any, name: str) -> str:
    """The shared files that have a profile, for users; both if none has it. AccessDenied for a file of no use."""
    from botocore.configloader import load_config, raw_config_parse  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ConfigNotFound  # noqa: PLC0415

    having = []
    for (path, shown), parse in zip(
        _files(session), (lambda path: load_config(path)["profiles"], raw_config_parse), strict=True
    ):
        try:
            if path.exists() and not os.access(path, os.R_OK):  # which botocore takes for an empty file
                raise AccessDenied(f"{shown} cannot be used: it cannot be read")
            if path.is_file() and path.read_bytes().startswith(codecs.BOM_UTF8):
                raise AccessDenied(f"{shown} cannot be used: it begins with a byte order mark; save it without one")
            having += [shown] if name in parse(str(path)) else []
        except ConfigNotFound:
            continue
        except (BotoCoreError, OSError, ValueError):
            raise AccessDenied(f"{shown} cannot be used: it is not a readable INI file") from None
    return " and ".join(having or [shown for _, shown in _files(session)])


def _session(place: Place | None, *, is_own: bool, profile: str | None) -> Any:
    """A session of botocore with the provider's region, addresses, proxy, authorities and timeouts.

    With credentials of its own (`is_own`), AWS_PROFILE has no effect.
    """
    from botocore.config import Config  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    session = Session({"profile": (None, None, None, None)} if is_own else {}, profile=profile)
    session.register_component("data_loader", _loader())
    if place is None:
        return session
    http = place.http
    chosen = {
        "region": place.region,
        "use_fips_endpoint": place.fips or None,
        "ca_bundle": None if http.ca_file is None else str(http.ca_file),
        "ec2_metadata_service_endpoint": place.metadata,
    }
    for name, value in chosen.items():
        if value is not None:
            session.set_config_variable(name, value)
    proxy = None if http.proxy_url is None else http.proxy_url.reveal()
    client_config = Config(
        proxies=None if proxy is None else {"http": proxy, "https": proxy},
        connect_timeout=http.connect_timeout,
        read_timeout=http.request_timeout,
        retries={"total_max_attempts": 1},
    )
    session.set_default_client_config(client_config)
    if place.sts is not None:  # for profiles, too, whose clients botocore itself creates
        create, urls = session.create_client, {"sts": place.sts}
        session.create_client = lambda service, *args, **given: create(
            service, *args, **{"endpoint_url": urls.get(service), **given}
        )
    _keep_tokens(session)
    return session


def _keep_tokens(session: Any) -> None:
    """Keep refreshed SSO tokens in memory where the home directory cannot be written."""
    from botocore.utils import JSONFileCache  # noqa: PLC0415

    for provider in session.get_component("credential_provider").providers:
        cache = getattr(getattr(provider, "_token_provider", None), "_cache", None)
        if provider.METHOD == "sso" and isinstance(cache, JSONFileCache):
            kept = _TokenCache(cache)
            provider._token_provider._cache = provider._token_provider._token_loader._cache = kept


class _TokenCache:
    """Files of SSO tokens, and in memory the tokens that could not be written."""

    _unwritten: dict[str, Any] = {}  # noqa: RUF012 - shared by all sessions, which end with each fetch

    def __init__(self, files_: Any) -> None:
        self._files = files_

    def __contains__(self, key: str) -> bool:
        return key in self._unwritten or key in self._files

    def __getitem__(self, key: str) -> Any:
        return self._unwritten[key] if key in self._unwritten else self._files[key]

    def __setitem__(self, key: str, value: Any) -> None:
        try:
            self._files[key] = value
            self._unwritten.pop(key, None)
        except OSError:
            end = value["expiresAt"]
            self._unwritten[key] = value | {"expiresAt": end.isoformat() if isinstance(end, datetime) else end}


@cache
def _loader() -> Any:
    """The reader of the files of AWS' services: reading them again takes 100 ms, and leaves 10 MiB of garbage."""
    from botocore.loaders import create_loader  # noqa: PLC0415

    # It logs the errors that it raises, with their traces.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    _keep_promises()
    return create_loader()


def _keep_promises() -> None:
    """Replace what botocore has no setting for, in the whole process: its choice of proxies, files of session keys."""
    from botocore import endpoint, httpsession, utils  # noqa: PLC0415

    # Only metadata services get their proxies here. A proxy would answer with the role of its own machine.
    utils.get_environ_proxies = lambda url: {}
    endpoint.get_environ_proxies = _proxies_of_environment
    httpsession.create_urllib3_context = _without_key_log(httpsession.create_urllib3_context)
    # TLS of botocore's connection to a proxy.
    connection: Any = sys.modules["urllib3.connection"]
    connection.create_urllib3_context = _without_key_log(connection.create_urllib3_context)


def _proxies_of_environment(url: str) -> dict[str, str]:
    """The proxy for an address, by its scheme, as for all calls to clouds."""
    target = yarl.URL(url)
    proxy = proxy_for(target, HttpSettings())
    return {} if proxy is None else {target.scheme: str(proxy)}


def _without_key_log(create: Callable[..., Any]) -> Callable[..., Any]:
    def created(*args: Any, **given: Any) -> Any:
        context = create(*args, **given)
        context.keylog_filename = None  # else each session's keys go to the file that SSLKEYLOGFILE names
        return context

    return created


def _issued(found: Mapping[str, Any], origin: str) -> Keys:
    end = datetime.fromisoformat(found["expiry_time"]).timestamp()
    return Keys(found["access_key"], found["secret_key"], found["token"], end, origin)


def explain(error: Exception) -> CloudError:
    """Return the meaning of an error of botocore. Its own texts name no secret; those of others are not shown."""
    from botocore import exceptions as vendor  # noqa: PLC0415

    if isinstance(error, vendor.ClientError):
        facts: dict[str, Any] = error.response.get("Error", {})
        code, status = str(facts.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        said = described(error)  # without the service's message, which may quote the signature of botocore's request
        if code.startswith((*_THROTTLED_CODES, "IDPCommunicationError")) or status == 429:
            return Throttled(said, operation=error.operation_name, status=status, code=code)
        kind = ServerTrouble if (status or 0) >= 500 else AccessDenied
        return kind(said, operation=error.operation_name, status=status, code=code)
    if isinstance(error, vendor.HTTPClientError | vendor.ConnectionError | UnusableProxy):
        return Unreachable(described(error, str(error) if isinstance(error, UnusableProxy) else ""))
    method = error.kwargs.get("provider") if isinstance(error, vendor.CredentialRetrievalError) else ""
    if method == "custom-process":
        # The error quotes what the program wrote.
        return AccessDenied("the program of credential_process failed, or its output is not that of version 1")
    if method in ("container-role", "iam-role") or isinstance(error, vendor.MetadataRetrievalError):
        status = _METADATA_STATUS.search(str(error))  # the rest quotes what the service wrote
        problem = f"the {_FOUND.get(str(method), 'metadata service')} gave no credentials"
        return Unreachable(f"{problem} (HTTP {status[1]})" if status else problem)
    return AccessDenied(described(error, str(error) if isinstance(error, vendor.BotoCoreError) else ""))


# Endpoints and signatures.

_HOSTS = {"sagemaker": "api.sagemaker", "cloudwatch": "monitoring", "sts": "sts"}
_FIPS_HOSTS = {("sagemaker", "aws"): "api-fips.sagemaker", ("sagemaker", "aws-us-gov"): "api-fips.sagemaker"}
"""Names that do not only end in `-fips`, by API and partition."""
_FIPS_IS_USUAL = {("cloudwatch", "aws-us-gov"), ("sts", "aws-us-gov")}
"""APIs and partitions in which the usual address of a region is that of FIPS."""


def public_endpoint(api: str, region: str, *, fips: bool) -> str:
    """The address of an API in a region of any partition that botocore knows; else of the partition `aws`."""
    known = [found for found in _partitions() if re.match(found["regionRegex"], region)]
    partition = (known or _partitions())[0]
    host = _HOSTS[api]
    if fips and (api, partition["id"]) not in _FIPS_IS_USUAL:
        host = _FIPS_HOSTS.get((api, partition["id"]), f"{host}-fips")
    return f"https://{host}.{region}.{partition['outputs']['dnsSuffix']}"


@cache
def _partitions() -> list[dict[str, Any]]:
    found: dict[str, Any] = json.loads(files("botocore").joinpath("data", "partitions.json").read_bytes())
    return list(found["partitions"])


ALGORITHM = "AWS4-HMAC-SHA256"
SERVICES = {"sagemaker": "sagemaker", "cloudwatch": "monitoring"}
"""Service names in signatures, by API."""
_JSON = {
    "sagemaker": ("application/x-amz-json-1.1", "SageMaker"),
    "cloudwatch": ("application/x-amz-json-1.0", "GraniteServiceVersion20100801"),
}
"""By API: the content type of its bodies, and the prefix of the operation in `x-amz-target`."""


def sign(
    keys: Keys, call: Call, headers: Mapping[str, str], *, region: str, service: str, now: float
) -> tuple[dict[str, str], tuple[str, str]]:
    """The headers of a request without a query, and the parts of them that no log may show. `now` in Unix seconds.

    `headers` have lower-case names, and values without spaces at their ends or several in a row.
    """
    date = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {**headers, "x-amz-date": date}
    if keys.security_token:
        signed["x-amz-security-token"] = keys.security_token
    signed = dict(sorted(signed.items()))
    names = ";".join(signed)
    lines = "".join([f"{name}:{value}\n" for name, value in signed.items()])
    request = "\n".join((call.method, call.path, "", lines, names, hashlib.sha256(call.body).hexdigest()))
    request_hash = hashlib.sha256(request.encode()).hexdigest()
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    key = f"AWS4{keys.access_key_secret}".encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"{ALGORITHM}\n{date}\n{scope}\n{request_hash}".encode(), "sha256").hex()
    authorization = f"{ALGORITHM} Credential={keys.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return signed | {"Authorization": authorization}, (signature, request_hash)


# The meaning of responses.

_SKEW = 60.0
"""If our clock differs by more than these seconds, the date is the cause of a rejection. The services allow minutes."""
_CLOCK_CODES = ("RequestTimeTooSkewed", "RequestExpired", "InvalidSignature", "SignatureDoesNotMatch", "AuthFailure")
"""Codes of rejections that a wrong date can cause."""
_KEY_CODES = (
    *("ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId"),
    *("InvalidAccessKeyId", "InvalidSignature", "SignatureDoesNotMatch", "AuthFailure"),
)
"""Codes of rejections that are about the key or its token."""
_ACCESS_CODES = (
    *("RequestTimeTooSkewed", "RequestExpired", "AccessDenied", "NotAuthorized", "MissingAuthenticationToken"),
    *("IncompleteSignature", "OptInRequired", "InvalidIdentityToken", "IDPRejectedClaim", "RegionDisabled"),
    *_KEY_CODES,
)
_THROTTLED_CODES = ("Throttl", "TooManyRequests", "RequestLimitExceeded", "PriorRequestNotComplete")
_NOT_FOUND = ("requested resource not found", "could not find", "does not exist")
"""Texts of a ValidationException by which SageMaker reports that an object does not exist."""
_XML = re.compile(r"<(Code|Message|RequestId)>([^<]{0,2000})</")


@dataclass(slots=True)
class ServerClock:
    """The clock of the cloud, by the dates of its errors. All APIs of a provider share it. `ahead` is in seconds."""

    ahead: float = 0.0

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return time.time() + self.ahead


class AwsDialect(SignedDialect[Keys]):
    """Signs the requests of an API in one region, and judges its responses (transport.Dialect).

    If a request is rejected because of its date, it is signed once more, by the date of the response.
    """

    def __init__(self, api: str, region: str, credential: Credential[Keys], clock: ServerClock) -> None:
        super().__init__(api, credential)
        self._region = region
        self._clock = clock

    async def prepare(self, call: Call, deadline: float) -> object:
        """Make the credential valid. The returned mark has the clock that signs the call."""
        return self._clock.ahead, await self.credential.keys(deadline)

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Return whether the clock was corrected after the mark, or another credential is left to try."""
        assert isinstance(mark, tuple)
        ahead, edition = mark
        if error.code.startswith(_CLOCK_CODES) and ahead != self._clock.ahead:
            return True
        return super().refused(error, edition)

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt."""
        keys = self.credential.current()
        keys.remember()
        kind, target = _JSON[self.api]
        headers = {"host": host, "content-type": kind, "x-amz-target": f"{target}.{call.operation}"}
        signed, proofs = sign(
            keys, call, headers, region=self._region, service=SERVICES[self.api], now=self._clock.now()
        )
        return SignedRequest(call.method, call.path, signed, call.body, keys.quotable(), proofs)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """Return None for a good response (transport.Dialect)."""
        error = judge(answer)
        if isinstance(error, AccessDenied) and error.code.startswith(_CLOCK_CODES):
            self._compare_clocks(answer.headers.get("date", ""), error)
        return error

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether the rejection is about the key or its token."""
        return error.code.startswith(_KEY_CODES)

    def _compare_clocks(self, date: str, error: AccessDenied) -> None:
        try:
            there = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):  # no date, or one beyond the year 9999
            return
        off = there - self._clock.now()
        if abs(off) < _SKEW:
            return
        self._clock.ahead += off
        facts = fields(api=self.api, seconds=round(-self._clock.ahead), error=error)
        log.warning("clock of this machine is off; requests carry the cloud's time", extra=facts)


def judge(answer: HttpAnswer) -> CloudError | None:
    """Return None for a good response, else the error, by its code first and its HTTP status second."""
    status = answer.status
    if 200 <= status < 400:
        return None  # a redirect: the transport reports it
    code, message, request_id = _said(answer)
    facts: dict[str, Any] = {
        "status": status,
        "code": printable(code, 80),
        "request_id": printable(request_id, 64),
        "retry_after": number({"s": answer.headers.get("retry-after", "")}, "s"),
    }
    message = printable(message, 300)
    if code.startswith(_THROTTLED_CODES) or status == 429 or "rate exceeded" in message.lower():
        return Throttled(message or "too many requests", **facts)
    if code.startswith(("SignatureDoesNotMatch", "InvalidSignature")):
        # The service's own message may quote the text that it signed.
        return AccessDenied("the signature was refused: is the secret access key the right one?", **facts)
    if code.startswith(_ACCESS_CODES) or status in (401, 403):
        return AccessDenied(message or "access denied", **facts)
    if code.startswith("ResourceNotFound") or (
        code.startswith("Validation") and any(words in message.lower() for words in _NOT_FOUND)
    ):
        return NotFound(message or "not found", **facts)
    if code.startswith("UnknownOperation") or status == 404:
        return RequestRefused(f"{message or 'unknown operation'} (is it served in this region?)", **facts)
    if status >= 500:
        return ServerTrouble(message or "the service failed", **facts)
    return RequestRefused(message or "the request was refused", **facts)


def _said(answer: HttpAnswer) -> tuple[str, str, str]:
    """Return the code, the message and the id of the request from JSON, or from the XML of STS."""
    if isinstance(answer.payload, dict):
        payload = answer.payload
        code = answer.headers.get("x-amzn-errortype", "") or text(payload, "__type") or text(payload, "code")
        message = text(payload, "message") or text(payload, "Message")
        request_id = answer.headers.get("x-amzn-requestid", "")
        # `com.amazonaws.sagemaker#ThrottlingException`; in a header, `ThrottlingException:http://...`.
        return code.rpartition("#")[2].partition(":")[0].strip(), message, request_id
    found = dict(_XML.findall(answer.body[:65536].decode("utf-8", errors="replace")))
    request_id = answer.headers.get("x-amzn-requestid", "") or found.get("RequestId", "")
    return found.get("Code", ""), found.get("Message", ""), request_id
