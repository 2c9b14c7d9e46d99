"""Credentials of AWS: their config section, and how botocore finds the keys.

Without a config section, botocore's own chain finds the keys: environment, role or web identity of the profile, web
identity of the environment, SSO, keys, login and process of the profile, container endpoint, EC2 metadata. Two rules
are added: a profile or variable that says something and cannot be used is an error; a chosen profile must have keys.

https://docs.aws.amazon.com/boto3/latest/guide/credentials.html
"""

from __future__ import annotations

import asyncio
import configparser
import copy
import json
import logging
import os
import re
import signal
import subprocess
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Self, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import yarl
from pydantic import AfterValidator, model_validator

from trainfleet_exporter.config import Section
from trainfleet_exporter.config.kinds import SecretText, Text
from trainfleet_exporter.config.secrets import is_plain, show
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, RequestTimedOut, Unreachable
from trainfleet_exporter.process.redaction import HoldsSecrets, redact
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.providers.aws_sagemaker.api import AwsDialect, judge
from trainfleet_exporter.providers.key_search import (
    METADATA,
    CredentialsSection,
    Environment,
    KeyHttp,
    NoHttp,
    OpenDialect,
    in_words,
    judge_metadata,
    known_origin,
)
from trainfleet_exporter.providers.keys import PROFILE, Credential, FetchedKeys, GivenKeys, Keys
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Call, Dialect, TextForm, Transport
from trainfleet_exporter.transport.json_fields import printable, text

# The config section.

_ALLOWED = (
    "allowed: access_key_id and secret_access_key, perhaps with session_token; role_arn, perhaps "
    "with external_id, with them or a profile or alone; or web_identity; or profile; "
    "or no credentials for those of the vendor's own chain"
)
_ROLE = ("role_arn", "external_id")
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]{1,512}", re.ASCII)


def _role_arn(text: str) -> str:
    if not _ROLE_ARN.fullmatch(text):
        raise ValueError("allowed: an IAM role's ARN, such as arn:aws:iam::123456789012:role/trainfleet")
    return text


RoleArn: TypeAlias = Annotated[Text, AfterValidator(_role_arn)]


class WebIdentity(Section):
    """A role that trusts the tokens of an identity provider, usually of a Kubernetes cluster (IRSA)."""

    role_arn: RoleArn
    """ARN of the role to assume."""
    token: SecretText
    """Token of the identity provider. Set `token_file` if Kubernetes mounts and renews the token."""


class Credentials(CredentialsSection):
    """Credentials of one form."""

    key_names = ("access_key_id", "secret_access_key", "session_token")
    other_names = {  # noqa: RUF012 - a class variable of the base
        "access_key": "access_key_id",
        "ak": "access_key_id",
        "access_key_secret": "secret_access_key",
        "secret_key": "secret_access_key",
        "sk": "secret_access_key",
        "security_token": "session_token",
        "oidc": "web_identity",
    }

    access_key_id: SecretText | None = None
    """Access key id of an IAM user or role."""
    secret_access_key: SecretText | None = None
    """Secret of `access_key_id`."""
    session_token: SecretText | None = None
    """Token of a temporary access key."""
    role_arn: RoleArn | None = None
    """Role to assume, with the access key, the profile or the credentials of the default chain."""
    external_id: SecretText | None = None
    """External id, if the role requires one."""
    web_identity: WebIdentity | None = None
    """Role that trusts tokens of an identity provider, such as a Kubernetes cluster (IRSA)."""
    profile: Text | None = None
    """Profile in `~/.aws/credentials` or `~/.aws/config`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_form(
            _ALLOWED,
            (("access_key_id", "secret_access_key"), ("session_token", *_ROLE)),
            (("profile",), _ROLE),
            (("role_arn",), ("external_id",)),
            (("web_identity",), ()),
        )
        if self.external_id is not None and self.role_arn is None:
            raise ValueError(f"found external_id without role_arn; {_ALLOWED}")
        return self


# The keys.

_HOUR = 3600.0
KEPT: Mapping[str, float] = {
    **dict.fromkeys(("AssumeRole", "AssumeRoleWithWebIdentity", "GetRoleCredentials", "CreateToken"), 0.75 * _HOUR),
    **dict.fromkeys(("PutToken", "ListRoles", "GetRoleKeys", "GetContainerKeys"), 5.75 * _HOUR),
}
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
_MACHINE = ("container-role", "iam-role")
_ASKED_LATER = ("assume-role", "assume-role-with-web-identity", "sso", "login")
"""Methods whose calls botocore makes when the keys are needed."""
_HOP_LIMIT = "in a container, the hop limit of the metadata service must be 2 or more"
_MOST_QUESTIONS = 20
"""The longest chain of roles that botocore follows has fewer."""
_SEARCH_SECONDS = 0.5
"""What a search by botocore takes at most, usually."""
_ROLES = "/latest/meta-data/iam/security-credentials/"
_TEXTS = {
    "PutToken": TextForm("a token", re.compile(r"[!-~]{1,4096}")),
    "ListRoles": TextForm("the name of a role", re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)),
    "AssumeRole": (_OF_STS := TextForm("of STS", re.compile(r"(<\?xml[^>]*>\s*)?<\w+Response[\s>].*", re.DOTALL))),
    "AssumeRoleWithWebIdentity": _OF_STS,
}
"""Operations whose responses are not JSON."""
_KEY_FIELDS = ("AccessKeyId", "SecretAccessKey", "Token", "Expiration")
_SECRET_NAMES = re.compile("token|secret|external|assertion|code|authorization", re.IGNORECASE)
_DROPPED_HEADERS = ("content-length", "user-agent", "x-amz-user-agent", "amz-sdk-invocation-id", "amz-sdk-request")
"""Headers of botocore about itself."""
_OWN_SESSION_NAME = re.compile(rb"RoleSessionName=botocore-session-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(HoldsSecrets):
    """What botocore needs to know: the response to a request, or the output of a program. Equal ones have one answer.

    https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html
    """

    origin: str = field(compare=False)
    """The source that is asked, in words."""
    operation: str = ""
    api: str = METADATA
    method: str = "GET"
    url: str = field(default="", repr=False)
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    signer: Keys | None = field(default=None, repr=False, compare=False)
    """Signs the request; None if no keys sign it."""
    command: tuple[str, ...] = field(default=(), repr=False)
    """The program and its arguments."""

    def secrets(self) -> tuple[str, ...]:
        """Parts of the headers and of the body to redact."""
        parts: list[tuple[str, object]] = [*self.headers.items()]
        if self.body.startswith(b"{"):
            parts += json.loads(self.body).items()
        else:
            parts += parse_qsl(self.body.decode())
        return tuple(str(value) for name, value in parts if _SECRET_NAMES.search(name) and len(str(value)) >= 8)


Answers: TypeAlias = dict[Question, bytes | CloudError]


class KeyFetch:
    """Fetches keys by botocore, which finds what to ask and reads the answers. It makes no call itself.

    search in a thread ──► Keys, or a Question ──► the provider's transport ──► search again with its answer

    `config` is that of the provider. `endpoints` gets the address of each API that is asked.
    """

    def __init__(self, config: Any, transport: Transport, context: BuildContext, endpoints: dict[str, str]) -> None:
        self._config, self._transport, self._context, self._endpoints = config, transport, context, endpoints
        self.clock = context.clock
        self._running: asyncio.Future[Keys | Question | CloudError] | None = None

    async def __call__(self, deadline: float) -> Keys:
        """The keys, by a deadline (loop time). Raises CloudError."""
        answers: Answers = {}
        while len(answers) < _MOST_QUESTIONS:
            found = await self._search(answers, deadline)
            if isinstance(found, Keys):
                return found
            if isinstance(found, CloudError):
                raise found
            try:
                answers[found] = await (self._run(found, deadline) if found.command else self._ask(found, deadline))
            except CloudError as error:
                if asyncio.get_running_loop().time() > deadline - _SEARCH_SECONDS:
                    raise
                # botocore may know another way.
                answers[found] = error.with_traceback(None)
        raise AccessDenied(f"the chain of credentials asks more than {_MOST_QUESTIONS} questions")

    async def _search(self, answers: Answers, deadline: float) -> Keys | Question | CloudError:
        """Search in a thread, because botocore computes for 100 ms, and reading files may hang. Never in two."""
        loop = asyncio.get_running_loop()
        if self._running is None or self._running.done():
            work = partial(search, self._config.credentials, self._config, dict(answers))
            self._running = in_thread(work)
            await asyncio.wait({self._running}, timeout=max(0.0, deadline - loop.time()))
            if self._running.done():
                return self._running.result()
        return RequestTimedOut("the search for credentials hangs: can this machine read the files of AWS profiles?")

    async def _ask(self, question: Question, deadline: float) -> bytes:
        url = yarl.URL(question.url, encoded=True)
        base_url = str(url.origin())
        call = Call(
            operation=question.operation,
            path=url.raw_path,
            method=question.method,
            body=question.body,
            text=_TEXTS.get(question.operation),
            secrets=question.secrets(),
        )
        # Without a URL of its own, a call to metadata never uses a proxy, which would answer with its machine's role.
        http = KeyHttp(self._transport, self._context, lambda api: base_url, self._endpoints)
        http.deadline = deadline
        try:
            answer: Any = await http.call(call, dict, self._dialect(question, url))
        finally:
            await http.aclose()
        return answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()

    def _dialect(self, question: Question, url: yarl.URL) -> Dialect:
        if question.signer is not None:
            region = "us-east-1" if url.host == "sts.amazonaws.com" else self._config.region
            signer = GivenKeys.of(question.signer)
            return AwsDialect(question.api, region, signer, self.clock, lambda call: question.headers)
        judging = judge_metadata if question.api == METADATA else judge
        return OpenDialect(question.api, judging, lambda call: question.headers, target=url.raw_path_qs)

    async def _run(self, question: Question, deadline: float) -> bytes:
        seconds = min(self._transport.http.request_timeout, deadline - asyncio.get_running_loop().time())
        return await in_thread(partial(_output_of, question.command, seconds))


def _output_of(command: Sequence[str], seconds: float) -> bytes:
    """The output of a program, which may take as long as a request. Errors never quote it: it holds keys."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own profile names it
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or "it cannot be run"
        raise AccessDenied(f"the program of credential_process: {reason}") from None
    with process:  # its end closes the pipe, which what the program started may keep open
        try:
            written, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with its children
            late = f"the program of credential_process did not end within {seconds:.0f} s (http.request_timeout)"
            raise RequestTimedOut(f"{late} and was killed") from None
    if process.returncode:
        raise AccessDenied("the program of credential_process failed")
    return written


def open_credential(provider: str, section: Credentials | None, fetch: KeyFetch) -> Credential[Keys]:
    """The credential of a section, or of botocore's chain without one. Makes no call."""
    if section is not None and (parts := section.given_keys()):
        return GivenKeys(*parts)
    return FetchedKeys(provider, known_origin(section, load, os.environ), fetch, clock=fetch.clock.now)


async def load(section: Credentials | None, environ: Mapping[str, str], http: NoHttp) -> Keys:
    """The keys of a section that are known without a call. Raises CloudError."""
    if section is not None and (parts := section.given_keys()):
        return GivenKeys(*parts).current()
    found = search(section, None, {})
    if isinstance(found, CloudError):
        raise found
    if isinstance(found, Question):
        http.asks(found.origin)
        raise AccessDenied("these credentials are known after a call")
    return found


def search(section: Credentials | None, config: Any, answers: Answers) -> Keys | Question | CloudError:
    """The keys of a section by botocore, or the first question without an answer. Without `config`, ask no service."""
    try:
        return _Search(section, config, answers).keys()
    except _Needed as needed:
        return needed.question
    except CloudError as error:
        error.__context__ = None  # frames of botocore hold secrets
        return error.with_traceback(None)
    except Exception as error:  # noqa: BLE001 - botocore raises anything
        return explain(error, is_answered=bool(answers))


def _beginning(method: str, whose: str, says: Sequence[str]) -> str:
    """How the error of a link of the chain begins."""
    if method == "iam-role":
        return f"no credentials found in the environment or in {whose}, and EC2 metadata has none: "
    if method in _FOUND:
        return f"the {_FOUND[method]} cannot be used: "
    return f"{whose} cannot be used ({', '.join(says)}): " if says else ""


class _Needed(BaseException):
    """Not an error: no handler of botocore must catch it."""

    def __init__(self, question: Question) -> None:
        self.question = question


class _Search:
    """One search, which ends with keys, an error or a question."""

    def __init__(self, given: Credentials | None, config: Any, answers: Answers) -> None:
        self._given, self._config, self._answers = given, config, answers
        self._origin = ""
        self._role = ""
        """The name of the machine's role, if it has been asked."""
        self._token_error: CloudError | None = None

    def keys(self) -> Keys:
        """The keys. Raises _Needed, CloudError, or any error of botocore."""
        from botocore import credentials as vendor  # noqa: PLC0415 - 9 MiB, which keys of the config do not need

        given = self._given
        is_own = given is not None and (given.web_identity or given.access_key_id)
        session = self._session(is_own=bool(is_own), profile=None if given is None else given.profile)
        asked: dict[str, Any] = {"RoleSessionName": _SESSION_NAME}
        if given is not None and (web := given.web_identity):
            web.token.reveal()
            self._asks(f"web identity role {web.role_arn}, with the token of {in_words(web.token.source)}")
            web_role = vendor.AssumeRoleWithWebIdentityCredentialFetcher(
                session.create_client, web.token.reveal, web.role_arn, extra_args=asked
            )
            return self._issued(web_role.fetch_credentials())
        if given is not None and given.access_key_id and given.secret_access_key:
            token = given.session_token.reveal() if given.session_token else None
            base = vendor.Credentials(given.access_key_id.reveal(), given.secret_access_key.reveal(), token)
            self._origin = given.access_key_id.source
        else:
            base = self._by_chain(session, None if given is None else given.profile)
        if given is not None and given.role_arn:
            self._asks(f"STS role {given.role_arn}, with keys of {in_words(self._origin)}")
            asked |= {"ExternalId": given.external_id.reveal()} if given.external_id else {}
            role = vendor.AssumeRoleCredentialFetcher(session.create_client, base, given.role_arn, extra_args=asked)
            return self._issued(role.fetch_credentials())
        if base.method in _ASKED_LATER:
            self._asks(self._origin)
        frozen = base.get_frozen_credentials()
        end = getattr(base, "_expiry_time", None)  # which botocore does not publish
        expires = None if end is None else end.timestamp()
        return Keys(frozen.access_key, frozen.secret_key, frozen.token, expires, self._origin)

    def _issued(self, found: Mapping[str, Any]) -> Keys:
        end = datetime.fromisoformat(found["expiry_time"]).timestamp()
        return Keys(found["access_key"], found["secret_key"], found["token"], end, self._origin)

    def _asks(self, origin: str) -> None:
        """The next calls ask this source."""
        self._origin = origin
        if self._config is None:  # a client of botocore takes 50 ms to make, and a region
            raise _Needed(Question(origin=origin))

    def _by_chain(self, session: Any, profile: str | None) -> Any:
        """The first credentials of botocore's chain."""
        chosen = profile or session.get_config_variable("profile")
        name = chosen or "default"
        if not profile:
            # botocore passes over a secret or a token without its key.
            Environment(os.environ).keys("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        having = _files_with(session, name)
        profiles = session.full_config.get("profiles", {})
        says = [key for key in _SAYS_KEYS if key in profiles.get(name, {})]
        whose = f"{PROFILE}{show(name)} of {having}"
        if chosen and name not in profiles:
            raise AccessDenied(f"no {whose}")
        for provider in self._providers(session):
            method = provider.METHOD
            self._origin = _FOUND.get(method, whose)
            if method in _MACHINE:
                _refuse_leftovers(session, whose, says, is_chosen=bool(chosen))
            elif method == "assume-role-with-web-identity" and "web_identity_token_file" not in says:
                self._origin = f"web identity role {os.environ.get('AWS_ROLE_ARN', '')}, by the environment"
            elif method.startswith("assume-role"):
                if any({"mfa_serial", "role_arn"} <= set(source) for source in _sources(profiles, name)):
                    raise AccessDenied(f"{whose} cannot be used: mfa_serial needs a person; use a role without MFA")
                self._origin = f"STS role {profiles.get(name, {}).get('role_arn', '')}, by {whose}"
            try:
                found = provider.load()
            except Exception as error:  # noqa: BLE001 - botocore raises anything
                problem = (
                    error
                    if isinstance(error, CloudError)
                    else self._token_error or explain(error, is_answered=bool(self._answers))
                )
                problem.message = _beginning(method, whose, says) + problem.message
                raise problem from None
            if found is not None:
                self._origin += f", role {self._role}" if method == "iam-role" else ""
                return found
        raise AccessDenied(f"no credentials found in the environment or in {whose}, and EC2 metadata is switched off")

    def _session(self, *, is_own: bool, profile: str | None) -> Any:
        """A session of botocore with the provider's region and addresses, which asks for each response.

        With credentials of its own (`is_own`), AWS_PROFILE has no effect.
        """
        from botocore.session import Session  # noqa: PLC0415

        session = Session({"profile": (None, None, None, None)} if is_own else {}, profile=profile)
        session.register_component("data_loader", _loader())
        session.set_config_variable("defaults_mode", "legacy")  # others ask EC2 metadata for the region
        if self._config is not None:
            session.set_config_variable("region", self._config.region)
            if self._config.fips:
                session.set_config_variable("use_fips_endpoint", True)
            if self._config.endpoints.metadata is not None:
                session.set_config_variable("ec2_metadata_service_endpoint", self._config.endpoints.metadata)
        create = session.create_client
        # For profiles, too, whose clients botocore itself creates.
        session.create_client = lambda service, *args, **given: self._client(create, service, *args, **given)
        return session

    def _client(self, create: Callable[..., Any], service: str, *args: Any, **given: Any) -> Any:
        """A client of botocore that neither signs nor sends."""
        from botocore import UNSIGNED  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415

        if service == "sts" and self._config is not None and self._config.endpoints.sts is not None:
            given["endpoint_url"] = self._config.endpoints.sts
        parts = [given.pop(f"aws_{name}", None) for name in ("access_key_id", "secret_access_key", "session_token")]
        signer = Keys(parts[0], parts[1], parts[2], origin=self._origin) if parts[0] and parts[1] else None
        unsigned = Config(signature_version=UNSIGNED)
        given["config"] = unsigned if given.get("config") is None else given["config"].merge(unsigned)
        client = create(service, *args, **given)

        def send(request: Any, event_name: str, **others: Any) -> Any:
            _, api, operation = event_name.split(".")
            return _response(request.url, 200, self._answer(self._question(api, operation, request, signer)))

        client.meta.events.register_first("before-send", send)
        return client

    def _providers(self, session: Any) -> Sequence[Any]:
        """The links of botocore's chain, which neither send nor run programs."""
        providers: list[Any] = session.get_component("credential_provider").providers
        for provider in providers:
            match provider.METHOD:
                case "iam-role":
                    provider._role_fetcher._session = self
                    # botocore extends the life of keys by a guess.
                    provider._role_fetcher._evaluate_expiration = lambda credentials: None
                case "container-role":
                    provider._fetcher._session, provider._fetcher._sleep = self, lambda seconds: None
                case "custom-process":
                    provider._popen = self._popen
                case "sso":
                    tokens = provider._token_provider
                    tokens._cache = tokens._token_loader._cache = _TokenCache(_UNWRITTEN, tokens._cache)
                case "assume-role":  # makes links of its own for the source profile
                    builder = provider._profile_provider_builder
                    make = builder._create_process_provider
                    builder._create_process_provider = lambda name, make=make: self._with_popen(make(name))
        return providers

    def _with_popen(self, provider: Any) -> Any:
        provider._popen = self._popen
        return provider

    def _popen(self, command: Sequence[str], **_: Any) -> Any:
        """The place of subprocess.Popen."""
        question = Question(origin=self._origin, operation="credential_process", command=tuple(command))
        output = self._answer(question)
        return SimpleNamespace(communicate=lambda: (output, b""), returncode=0)

    def send(self, request: Any) -> Any:
        """Answer a request to a metadata service: the place of botocore.httpsession.URLLib3Session."""
        path = yarl.URL(request.url, encoded=True).raw_path
        if request.method == "PUT":
            operation = "PutToken"
        elif _ROLES in path:
            self._role = path.rpartition("/")[2]
            operation = "GetRoleKeys" if self._role else "ListRoles"
        else:
            operation = "GetContainerKeys"
        try:
            body = self._answer(self._question(METADATA, operation, request, None))
        except CloudError as error:
            if isinstance(error, RequestTimedOut | Unreachable) and operation != "GetContainerKeys":
                error.message += f" ({_HOP_LIMIT})"
            if operation == "PutToken":
                self._token_error = error
                return _response(request.url, 404, b"")  # then botocore asks without a token, if that is allowed
            if isinstance(error, AccessDenied) and self._token_error is not None:
                raise self._token_error from None
            if isinstance(error, NotFound) and operation == "ListRoles":
                error.message = "this machine has no role"
            raise
        if operation in ("GetRoleKeys", "GetContainerKeys"):
            found = json.loads(body)
            if not all(isinstance(found.get(name), str) and found[name] for name in _KEY_FIELDS):
                code = printable(text(found, "Code"), 80)
                raise BadAnswer(
                    "the answer lacks keys, or does not say when they expire", operation=operation, code=code
                )
        return _response(request.url, 200, body)

    def _question(self, api: str, operation: str, request: Any, signer: Keys | None) -> Question:
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else bytes(body)
        headers = {str(name).lower(): _as_text(value) for name, value in request.headers.items()}
        return Question(
            origin=self._origin,
            operation=operation,
            api=api,
            method=request.method,
            url=request.url,
            # The time would make each search another question.
            body=_OWN_SESSION_NAME.sub(f"RoleSessionName={_SESSION_NAME}".encode(), body),
            # With the transport's `accept: application/json`, STS answers in JSON.
            headers={"accept": "*/*"}
            | {name: value for name, value in headers.items() if name not in _DROPPED_HEADERS},
            signer=signer,
        )

    def _answer(self, question: Question) -> bytes:
        if question not in self._answers:
            raise _Needed(question)
        answer = self._answers[question]
        if isinstance(answer, CloudError):
            raise copy.copy(answer)
        return answer


def _as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _response(url: str, status: int, body: bytes) -> Any:
    from botocore.awsrequest import AWSResponse  # noqa: PLC0415

    return AWSResponse(url, status, {}, SimpleNamespace(stream=lambda: [body]))


def _sources(profiles: Mapping[str, Mapping[str, str]], name: str) -> list[Mapping[str, str]]:
    """A profile, its source profile, and so on."""
    seen: list[str] = []
    while name in profiles and name not in seen:
        seen.append(name)
        name = profiles[name].get("source_profile", "")
    return [profiles[name] for name in seen]


def _refuse_leftovers(session: Any, whose: str, says: Sequence[str], *, is_chosen: bool) -> None:
    """Refuse to go on to the machine's role after a profile or a file that was meant and cannot be used."""
    if says or is_chosen:
        reason = f"{' and '.join(says)} cannot be used alone" if says else "it has no keys"
        raise AccessDenied(f"{whose} cannot be used: {reason}")
    for path, shown in _files(session):
        if shown != f"~/.aws/{path.name}" and not path.is_file():
            raise AccessDenied(f"{shown} cannot be used: no such file, and the environment names it")


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
            having += [shown] if name in parse(str(path)) else []
        except ConfigNotFound:
            continue
        except (BotoCoreError, OSError, ValueError):
            raise AccessDenied(f"{shown} cannot be used: it is not a readable INI file") from None
    return " and ".join(having or [shown for _, shown in _files(session)])


_UNWRITTEN: dict[str, Any] = {}
"""SSO tokens that could not be written, for all sessions: each fetch has another."""


class _TokenCache(ChainMap[str, Any]):
    """The unwritten tokens, then the files of tokens."""

    def __setitem__(self, key: str, value: Any) -> None:
        unwritten, files_ = self.maps
        try:
            files_[key] = value
            unwritten.pop(key, None)
        except OSError:
            end = value["expiresAt"]
            unwritten[key] = value | {"expiresAt": end.isoformat() if isinstance(end, datetime) else end}


@cache
def _loader() -> Any:
    """The reader of the files of AWS' services: reading them again takes 100 ms, and leaves 10 MiB of garbage."""
    from botocore import configloader  # noqa: PLC0415
    from botocore.loaders import create_loader  # noqa: PLC0415

    # It logs the errors that it raises, with their traces.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    configloader.configparser = SimpleNamespace(RawConfigParser=_ProfileParser, Error=configparser.Error)
    return create_loader()


class _ProfileParser(configparser.RawConfigParser):
    """Reads files in UTF-8, also those with a byte order mark."""

    def read(self, filenames: Any, encoding: str | None = None) -> list[Any]:
        return super().read(filenames, "utf-8-sig")


T = TypeVar("T")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|\([^)]*\)|\S*/\S*""")


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Start a call that blocks and may hang, in a daemon thread of its own."""
    return asyncio.get_running_loop().run_in_executor(DaemonThreadExecutor(), work)


def described(error: Exception, said: str = "") -> str:
    """Return the type of a library's error and its text, without names and paths, which may be secrets."""
    said = _QUOTED.sub("…", said.replace("\n", "; "))
    return printable(redact(f"{type(error).__name__}: {said}" if said else type(error).__name__), 300)


def explain(error: Exception, *, is_answered: bool) -> CloudError:
    """Return the meaning of an error of botocore. Its own texts name no secret; those of others are not shown.

    `is_answered`: whether it has read answers, so that an error of Python is about one of them.
    """
    from botocore import exceptions as vendor  # noqa: PLC0415

    method = error.kwargs.get("provider") if isinstance(error, vendor.CredentialRetrievalError) else ""
    if method == "custom-process":
        # The error quotes what the program wrote.
        return AccessDenied("the program of credential_process failed, or its output is not that of version 1")
    if isinstance(error, vendor.BotoCoreError):
        return AccessDenied(described(error, str(error)))
    if is_answered:
        return BadAnswer(f"botocore cannot read the answer ({described(error)})")
    return AccessDenied(described(error))
