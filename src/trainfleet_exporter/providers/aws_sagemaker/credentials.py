"""Credentials of AWS: their config section, and how botocore finds the keys.

Without a config section, botocore's own chain finds the keys: environment, role or web identity of the profile, web
identity of the environment, SSO, keys, login and process of the profile, container endpoint, EC2 metadata. Two rules
are added: a profile or variable that says something and cannot be used is an error; a chosen profile must have keys.

https://docs.aws.amazon.com/boto3/latest/guide/credentials.html
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

import yarl
from pydantic import AfterValidator

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import SecretText, Text
from trainfleet_exporter.config.secrets import show
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, RequestTimedOut, Unreachable
from trainfleet_exporter.process.redaction import redact
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.providers.aws_sagemaker.api import AwsDialect, judge
from trainfleet_exporter.providers.key_search import (
    A_TOKEN,
    HOP_LIMIT,
    METADATA,
    CredentialsSection,
    Environment,
    KeyHttp,
    NoHttp,
    OpenDialect,
    ProfileFile,
    in_words,
    judge_metadata,
    parse_ini,
    secret_of,
)
from trainfleet_exporter.providers.keys import PROFILE, GivenKeys, Keys
from trainfleet_exporter.transport import Call, Dialect, TextForm
from trainfleet_exporter.transport.json_fields import printable, text

# The config section.

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

    forms = (
        (("access_key_id", "secret_access_key"), ("session_token",)),
        (("access_key_id", "secret_access_key", "role_arn"), ("session_token", "external_id")),
        (("role_arn",), ("profile", "external_id")),
        *(((key,), ()) for key in ("profile", "web_identity")),
    )
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


# The keys.

KEPT: Mapping[str, float] = {
    **dict.fromkeys(("AssumeRole", "AssumeRoleWithWebIdentity", "GetRoleCredentials", "CreateToken"), 2700.0),
    **dict.fromkeys(("PutToken", "ListRoles", "GetRoleKeys", "GetContainerKeys"), 20_700.0),
}
"""Seconds for which the response of an operation is normally used."""
_SAYS_KEYS = (
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "role_arn", "source_profile"),
    *("credential_source", "credential_process", "web_identity_token_file", "login_session"),
    *("sso_session", "sso_start_url", "sso_account_id", "sso_role_name", "mfa_serial"),
)
"""Keys of a profile by which its author chose an identity."""
_FOUND = {
    "env": "environment",
    "ec2-credentials-file": "file of AWS_CREDENTIAL_FILE",
    "boto-config": "boto config",
    "container-role": "container credentials endpoint",
    "iam-role": "EC2 metadata",
}
"""By botocore's name of a method, the origin for users. All other methods belong to a profile."""
_SESSION = {"RoleSessionName": "trainfleet-exporter"}
_SESSION_NAME, _OWN_SESSION_NAME = urlencode(_SESSION), re.compile(r"RoleSessionName=botocore-session-\d+")
_ROLES = "/latest/meta-data/iam/security-credentials/"
_TEXTS = {
    "PutToken": A_TOKEN,
    "ListRoles": TextForm("the name of a role", re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)),
    "AssumeRole": (_OF_STS := TextForm("of STS", re.compile(r"(<\?xml[^>]*>\s*)?<\w+Response[\s>].*", re.DOTALL))),
    "AssumeRoleWithWebIdentity": _OF_STS,
}
"""Operations whose responses are not JSON."""
_KEY_FIELDS = ("AccessKeyId", "SecretAccessKey", "Token", "Expiration")
_SECRET_NAMES = re.compile("token|secret|external|assertion|code|authorization", re.IGNORECASE)
_DROPPED_HEADERS = ("content-length", "user-agent", "x-amz-user-agent", "amz-sdk-invocation-id", "amz-sdk-request")
_SHORTEST = 0.5
"""Seconds that a search may take after the last call, also beyond the deadline."""
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|\([^)]*\)|\S*/\S*""")
_HANGS = "the search for credentials hangs: can this machine read the files of AWS profiles?"


class Load:
    """Finds the keys of a section, or of botocore's chain without one (key_search.Load). Calls need a `config`."""

    def __init__(self, config: Any = None) -> None:
        self._config = config
        self._running: asyncio.Future[Any] | None = None
        self._kept: dict[str, tuple[Any, Any]] = {}

    async def __call__(self, section: Credentials | None, environ: Mapping[str, str], http: NoHttp) -> Keys:
        """The keys. Raises CloudError."""
        if section is not None and (parts := section.given_keys()):
            return GivenKeys(*parts).current()
        search = _Search(section, self._config, http, self._kept)
        while True:
            found = await self._in_thread(search.run, http.deadline) if isinstance(http, KeyHttp) else search.run()
            if isinstance(found, Keys):
                return found
            if isinstance(found, CloudError):
                raise found
            question, ask = found
            try:
                search.answers[question] = await ask()
            except CloudError as error:  # botocore may know another way
                search.answers[question] = error.with_traceback(None)

    async def _in_thread(self, run: Callable[[], Any], deadline: float) -> Any:
        """Search in one daemon thread. A late result is as good as the next. RequestTimedOut beyond the deadline."""
        loop = asyncio.get_running_loop()
        if self._running is None or self._running.done():
            self._running = loop.run_in_executor(DaemonThreadExecutor(), run)
        await asyncio.wait({self._running}, timeout=max(_SHORTEST, deadline - loop.time()))
        if not self._running.done():
            raise RequestTimedOut(_HANGS)
        return self._running.result()


class _NextCall(BaseException):
    """Ends a run of botocore, which catches each Exception."""


class _Search:
    """A search by botocore. It stops at each call, and runs again with the answers so far."""

    def __init__(self, given: Credentials | None, config: Any, http: NoHttp, kept: dict[str, tuple[Any, Any]]) -> None:
        self._given, self._config, self._http, self._kept = given, config, http, kept
        self.answers: dict[tuple[str, ...], Any] = {}
        """By request (method, URL and body) or command, what was answered, or the error; SSO tokens as first read."""
        self._token_error: CloudError | None = None
        """Why EC2 metadata or SSO gave no token."""
        self._role = ""
        self._origin = ""

    def run(self) -> Any:
        """Return the keys, a CloudError, or the next request with the call that answers it."""
        try:
            return self._keys()
        except _NextCall as needed:
            return needed.args
        except Exception as error:  # noqa: BLE001 - botocore raises anything
            meaning = self._meaning(error)
            if self._origin and not isinstance(error, CloudError):
                meaning.message = f"{self._origin} cannot be used: {meaning.message}"
            meaning.__context__ = None  # frames of botocore hold secrets
            return meaning.with_traceback(None)

    def _keys(self) -> Keys:
        from botocore import credentials as vendor  # noqa: PLC0415 - 9 MiB, which keys of the config do not need

        given = self._given or Credentials.model_construct()
        session = self._session(is_own=bool(given.web_identity or given.access_key_id), profile=given.profile)
        base: Any = None
        fetch: Callable[[], Mapping[str, Any]] | None = None
        if web := given.web_identity:
            web.token.reveal()
            self._origin = f"web identity role {web.role_arn}, with the token of {in_words(web.token.source)}"
            fetch = vendor.AssumeRoleWithWebIdentityCredentialFetcher(
                session.create_client, web.token.reveal, web.role_arn, extra_args=_SESSION
            ).fetch_credentials
        elif given.access_key_id and given.secret_access_key:
            keys = GivenKeys(*filter(None, (given.access_key_id, given.secret_access_key, given.session_token)))
            self._origin, base = keys.origin, vendor.Credentials(*keys.current().parts())
        else:
            base = self._by_chain(session, given.profile)
        if given.role_arn:
            self._origin = f"STS role {given.role_arn}, with keys of {in_words(self._origin)}"
            asked = _SESSION | ({"ExternalId": given.external_id.reveal()} if given.external_id else {})
            role = vendor.AssumeRoleCredentialFetcher(session.create_client, base, given.role_arn, extra_args=asked)
            fetch = role.fetch_credentials
        elif isinstance(base, vendor.DeferredRefreshableCredentials):
            fetch = base._refresh_using  # `get_frozen_credentials` goes by the clock of this machine
        if fetch is not None:
            self._http.asks(self._origin)
            base = vendor.RefreshableCredentials.create_from_metadata(fetch(), fetch, "")
        frozen = getattr(base, "_frozen_credentials", base)  # to freeze them again may ask again
        end = getattr(base, "_expiry_time", None)
        parts = (frozen.access_key, frozen.secret_key, frozen.token)
        return Keys(*parts, None if end is None else end.timestamp(), self._origin)

    def _by_chain(self, session: Any, profile: str | None) -> Any:
        env = Environment(os.environ)
        for token in () if profile else ("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"):
            env.keys("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", token)  # botocore passes over a part of a key
        chosen = profile or session.get_config_variable("profile")
        name = "default" if chosen is None else chosen
        files, having = _files(env, name)
        whose = f"{PROFILE}{show(name)} of {' and '.join(file.shown for file in having or files)}"
        if chosen is not None and not having:
            raise AccessDenied(f"no {whose}")
        self._origin = whose
        profiles = session.full_config["profiles"]
        says = [key for key in _SAYS_KEYS if key in profiles.get(name, {})]
        nothing = f"no credentials found in the environment or in {whose}, and EC2 metadata"
        keys = f" ({', '.join(says)})" if says else ""
        for link in self._links(session):
            method = link.METHOD
            self._origin = _FOUND.get(method, whose)
            if method in ("container-role", "iam-role"):
                if says or chosen is not None:
                    reason = f"{' and '.join(says)} cannot be used alone" if says else "it has no keys"
                    raise AccessDenied(f"{whose} cannot be used: {reason}")
                for file in files:
                    file.read(str, "an INI file")  # one that the environment names must exist
            elif method == "assume-role-with-web-identity" and "web_identity_token_file" not in says:
                self._origin = f"web identity role {env.get('AWS_ROLE_ARN')}, by the environment"
            elif method.startswith("assume-role"):
                self._origin = f"STS role {profiles.get(name, {}).get('role_arn', '')}, by {whose}"
            usual = f"the {self._origin} cannot be used" if method in _FOUND else f"{self._origin} cannot be used{keys}"
            beginning = f"{nothing} has none" if method == "iam-role" else usual
            try:
                if method == "login" and "login_session" in says:
                    raise AccessDenied("a login needs a person; use sso_session")
                found = link.load()
                visited = [profiles.get(each, ()) for each in getattr(link, "_visited_profiles", ())]
                if any("mfa_serial" in each and "role_arn" in each for each in visited):
                    raise AccessDenied("mfa_serial needs a person; use a role without MFA")
            except Exception as error:  # noqa: BLE001 - botocore raises anything
                problem = self._meaning(error)
                problem.message = f"{beginning}: {problem.message}"
                raise problem from None
            if found is not None:
                self._origin += f", role {self._role}" if method == "iam-role" else ""
                return found
        raise AccessDenied(f"{nothing} is switched off")

    def _session(self, *, is_own: bool, profile: str | None) -> Any:
        """A session of botocore with the provider's region and addresses, whose clients neither sign nor send.

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
        # For profiles, too, whose clients botocore itself creates.
        session.create_client = partial(self._client, session.create_client)
        return session

    def _client(self, create: Callable[..., Any], service: str, *args: Any, **given: Any) -> Any:
        from botocore import UNSIGNED  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415

        if service == "sts" and self._config.endpoints.sts is not None:
            given["endpoint_url"] = self._config.endpoints.sts
        key = [given.pop(f"aws_{name}", None) for name in ("access_key_id", "secret_access_key", "session_token")]
        signer = GivenKeys(*map(Secret, filter(None, key))) if key[0] else None
        given["config"] = (given.get("config") or Config()).merge(Config(signature_version=UNSIGNED))
        client = create(service, *args, **given)
        client.meta.events.register_first("before-send", partial(self._send, signer))
        return client

    def _links(self, session: Any) -> Sequence[Any]:
        """The links of botocore's chain, which neither send nor run programs."""
        from botocore.credentials import ProcessProvider  # noqa: PLC0415
        from botocore.tokens import SSOTokenProvider  # noqa: PLC0415

        links: list[Any] = session.get_component("credential_provider").providers
        tokens = _TokenFiles(SSOTokenProvider(session)._cache, self._kept, self.answers)
        for link in links:
            match link.METHOD:
                case "iam-role":
                    link._role_fetcher._session = self
                    link._role_fetcher._evaluate_expiration = lambda keys: None  # a guess that extends their life
                case "container-role":
                    link._fetcher._session = self
                case "custom-process":
                    link._popen = self._popen
                case "assume-role-with-web-identity":
                    link._token_loader_cls = lambda path: secret_of(Path(path), "the token file").reveal
                case "sso":
                    link._token_provider._token_loader._cache = tokens
                case "assume-role":  # makes links of its own for the source profile
                    builder = link._profile_provider_builder
                    builder._sso_token_cache = tokens
                    builder._create_process_provider = partial(
                        ProcessProvider, load_config=lambda: session.full_config, popen=self._popen
                    )
        return links

    def _popen(self, command: Sequence[str], **_: Any) -> Any:
        """Run a program once, in the place of subprocess.Popen. It may take as long as a request.

        https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html
        """
        if (question := tuple(command)) in self.answers:
            return self.answers[question]
        self._http.asks(self._origin)
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:  # the user's own profile names the program
            process = subprocess.Popen(command, start_new_session=True, **given)  # noqa: S603
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", "") or "it cannot be run"
            raise AccessDenied(f"the program of credential_process: {reason}") from None
        seconds = self._config.http.request_timeout
        with process:  # its end closes the pipe, which what the program started may keep open
            try:
                written, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with its children
                late = f"the program of credential_process did not end within {seconds:.0f} s (http.request_timeout)"
                raise RequestTimedOut(f"{late} and was killed") from None
        done = SimpleNamespace(communicate=lambda: (written, b""), returncode=process.returncode)
        return self.answers.setdefault(question, done)

    def _send(self, signer: GivenKeys | None, request: Any, event_name: str, **_: Any) -> Any:
        api, operation = event_name.split(".")[1:]
        return self._response(request, self._call(api, operation, request, signer))

    def send(self, request: Any) -> Any:
        """Answer a request to a metadata service: the place of botocore.httpsession.URLLib3Session."""
        operation = "PutToken" if request.method == "PUT" else "GetContainerKeys"
        if _ROLES in request.url:
            self._role = request.url.rpartition("/")[2]
            operation = "GetRoleKeys" if self._role else "ListRoles"
        try:
            answer = self._call(METADATA, operation, request)
        except CloudError as error:
            if operation == "PutToken":
                if isinstance(error, RequestTimedOut | Unreachable):
                    error.message += HOP_LIMIT
                self._token_error = error
                return self._response(request, "", 404)  # botocore asks without a token, if that is allowed
            if isinstance(error, NotFound) and operation == "ListRoles":
                error.message = "this machine has no role"
            elif self._token_error is not None:
                raise self._token_error from None
            raise
        if operation in ("GetRoleKeys", "GetContainerKeys") and any(
            not isinstance(answer.get(name), str) or not answer[name] for name in _KEY_FIELDS
        ):
            code, missing = printable(text(answer, "Code"), 80), "lacks keys, or does not say when they expire"
            raise BadAnswer(f"the answer {missing}", operation=operation, code=code)
        return self._response(request, answer)

    def _call(self, api: str, operation: str, request: Any, signer: GivenKeys | None = None) -> Any:
        """Return the answer to a request of botocore. Raises CloudError."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        url, body = yarl.URL(request.url, encoded=True), request.body or b""
        body = _OWN_SESSION_NAME.sub(_SESSION_NAME, body if isinstance(body, str) else body.decode())
        given = {name.lower(): v.decode() if isinstance(v, bytes) else v for name, v in request.headers.items()}
        # With the transport's `accept: application/json`, STS answers in JSON.
        headers = {"accept": "*/*"} | {name: value for name, value in given.items() if name not in _DROPPED_HEADERS}
        is_near, judging = api == METADATA, judge_metadata if api == METADATA else judge
        dialect: Dialect = OpenDialect(api, judging, lambda call: headers, target=url.raw_path_qs, is_near=is_near)
        if signer is not None:
            region = "us-east-1" if url.host == "sts.amazonaws.com" else self._config.region
            dialect = AwsDialect(api, region, signer, self._http.clock, lambda call: headers)
        fields = [*headers.items(), *(json.loads(body).items() if body.startswith("{") else parse_qsl(body))]
        call = Call(
            operation=operation,
            path=url.raw_path,
            method=request.method,
            body=body.encode(),
            text=_TEXTS.get(operation),
            secrets=tuple(str(value) for key, value in fields if _SECRET_NAMES.search(key) and len(str(value)) >= 8),
        )
        question = call.method, request.url, body
        if question not in self.answers:
            self._http.asks(self._origin)
            raise _NextCall(question, lambda: self._http.call(call, dict, dialect, str(url.origin())))
        answer = self.answers[question]
        if isinstance(answer, CloudError):
            answer = copy.copy(answer)  # each run writes to it
            if operation == "CreateToken":  # botocore uses the token that it has, until that expires
                self._token_error = answer
                raise ClientError({}, operation)
            raise answer
        return answer

    def _response(self, request: Any, answer: Any, status: int = 200) -> Any:
        from botocore.awsrequest import AWSResponse  # noqa: PLC0415

        body = answer if isinstance(answer, str) else json.dumps(answer)
        return AWSResponse(request.url, status, {}, SimpleNamespace(stream=lambda: [body.encode()]))

    def _meaning(self, error: Exception) -> CloudError:
        """The meaning of an error of botocore. Its own texts name no secret; those of others are not shown."""
        from botocore import exceptions as vendor  # noqa: PLC0415

        if isinstance(error, CloudError):
            return error
        if self._token_error and isinstance(error, vendor.MetadataRetrievalError | vendor.TokenRetrievalError):
            return self._token_error
        if isinstance(error, vendor.CredentialRetrievalError) and error.kwargs.get("provider") == "custom-process":
            # The error quotes what the program wrote.
            return AccessDenied("the program of credential_process failed, or its output is not that of version 1")
        said = ""
        if isinstance(error, vendor.BotoCoreError):  # without names and paths, which may be secrets
            said = ": " + _QUOTED.sub("…", str(error).replace("\n", "; "))
        elif isinstance(error, OSError) and error.strerror:
            said = f": {error.strerror}"
        # An error of Python after an answer is about the answer. A token in a file, with a key of one word, is none.
        kind = BadAnswer if not said and any(len(each) > 1 for each in self.answers) else AccessDenied
        return kind(printable(redact(f"{type(error).__name__}{said}"), 300))


def _files(env: Environment, name: str) -> tuple[list[ProfileFile], list[ProfileFile]]:
    """The shared files, and those that have a profile. AccessDenied for one of no use."""
    from botocore.configloader import build_profile_map  # noqa: PLC0415

    parsers: dict[ProfileFile, Callable[[str], Mapping[str, Any]]] = {
        env.file("AWS_CONFIG_FILE", ".aws", "config"): lambda raw: build_profile_map(parse_ini(raw))["profiles"],
        env.file("AWS_SHARED_CREDENTIALS_FILE", ".aws", "credentials"): parse_ini,
    }
    # One that the environment names may be missing here: its profile may not be needed.
    found = {file: file._replace(is_named=False).read(parse, "an INI file") for file, parse in parsers.items()}
    return list(parsers), [file for file, profiles in found.items() if name in (profiles or ())]


class _TokenFiles:
    """A cache of botocore. Tokens that cannot be written are kept in memory until their files change."""

    def __init__(self, files: Any, kept: dict[str, tuple[Any, Any]], answers: dict[tuple[str, ...], Any]) -> None:
        self._files, self._kept, self._answers = files, kept, answers

    def __contains__(self, key: str) -> bool:
        return key in self._files

    def __getitem__(self, key: str) -> Any:
        written = self._files[key]
        before, renewed = self._kept.get(key, (None, None))
        return self._answers.setdefault((key,), renewed if before == written else written)

    def __setitem__(self, key: str, token: Any) -> None:
        try:
            self._files[key] = token
        except OSError:
            self._kept[key] = self._files[key], json.loads(json.dumps(token, default=str))  # as if read from a file


@cache
def _loader() -> Any:
    """The reader of the files of AWS' services: reading them again takes 100 ms, and leaves 10 MiB of garbage."""
    from botocore.loaders import create_loader  # noqa: PLC0415

    # It logs the errors that it raises, with their traces.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    return create_loader()
