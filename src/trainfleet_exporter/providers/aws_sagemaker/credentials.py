"""Credentials of AWS: their config section, and how botocore finds the keys.

Without a config section, botocore's own chain finds the keys: environment, role or web identity of the profile, web
identity of the environment, SSO, keys, login and process of the profile, container endpoint, EC2 metadata. Two rules
are added: a profile or variable that says something and cannot be used is an error; a chosen profile must have keys.

    botocore, in a daemon thread ──call──► the provider's transport, in the poll's task ──answer──► the thread

https://docs.aws.amazon.com/boto3/latest/guide/credentials.html
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
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
_SAYS = ("aws_", "role_arn", "source_profile", "credential_", "web_identity_", "login_session", "sso_", "mfa_serial")
"""How keys of a profile begin by which its author chose an identity."""
_FOUND = {
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
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|\([^)]*\)|\S*/\S*""")


class Load:
    """Finds the keys of a section, or of botocore's chain without one (key_search.Load). Calls need a `config`."""

    def __init__(self, config: Any = None) -> None:
        self._config = config
        self._running: asyncio.Future[Any] | None = None

    async def __call__(self, section: Credentials | None, environ: Mapping[str, str], http: NoHttp) -> Keys:
        """The keys. Raises CloudError."""
        if section is not None and (parts := section.given_keys()):
            return GivenKeys(*parts).current()
        found = await self._found(section, http) if isinstance(http, KeyHttp) else _Search(section, None, http).run()
        if isinstance(found, CloudError):
            raise found
        return found

    async def _found(self, section: Credentials | None, http: KeyHttp) -> Keys | CloudError:
        """Make the calls of a search, until it ends. None begins while an earlier one hangs, which costs one thread."""
        go_on: Callable[[], object] = (search := _Search(section, self._config, http)).start
        try:
            while self._running is None or await self._rests(self._running, http):
                self._running = asyncio.get_running_loop().run_in_executor(search, go_on)
                if not await self._rests(self._running, http):
                    break
                if isinstance(found := self._running.result(), Keys | CloudError):
                    return found
                try:
                    go_on = partial(search.answers.put, await found())
                except CloudError as error:  # botocore may know another way
                    go_on = partial(search.answers.put, error)
            return RequestTimedOut("the search for credentials hangs: can this machine read the files of AWS profiles?")
        finally:  # a thread that waits goes on, and cannot ask again: its future is done
            search.answers.put(RequestTimedOut("the poll has ended"))

    async def _rests(self, running: asyncio.Future[Any], http: KeyHttp) -> bool:
        await asyncio.wait({running}, timeout=max(0.0, http.deadline - asyncio.get_running_loop().time()) + 0.5)
        return running.done()


class _Search(Executor):
    """One search by botocore, in a thread that blocks while others make its calls.

    It is an executor: what is submitted lets the search go on, and results in its next call, or in its end.
    """

    def __init__(self, given: Credentials | None, config: Any, http: NoHttp) -> None:
        self._given, self._config, self._http = given, config, http
        self.answers: SimpleQueue[Any] = SimpleQueue()
        """To each call, the answer or a CloudError."""
        self._next: Future[Any] = Future()
        self._token_error: CloudError | None = None
        """Why EC2 metadata gave no token."""
        self._role = ""
        self._before, self._origin, self._keys_said = "", "the default chain", ""
        """The beginning of an error: what was searched in vain, what is being searched, and keys of the profile."""

    def submit(self, fn: Callable[..., object], /, *args: Any, **given: Any) -> Future[Any]:
        """Go on by `fn`. The result is a function that makes the next call, or what `run` returns."""
        self._next = Future()
        fn(*args, **given)
        return self._next

    def start(self) -> None:
        """Begin the search in its thread."""
        found = DaemonThreadExecutor().submit(self.run)
        found.add_done_callback(lambda done: self._next.done() or self._next.set_result(done.result()))  # type: ignore[func-returns-value]

    def run(self) -> Keys | CloudError:
        """Return the keys, or why there are none."""
        try:
            return self._keys()
        except Exception as error:  # noqa: BLE001 - botocore raises anything
            meaning = self._meaning(error)
            meaning.message = f"{self._before}{self._origin}{self._keys_said} cannot be used: {meaning.message}"
            meaning.__context__ = None  # frames of botocore hold secrets
            return meaning.with_traceback(None)

    def _keys(self) -> Keys:
        from botocore import credentials as vendor  # noqa: PLC0415 - 9 MiB, which keys of the config do not need

        given = self._given or Credentials.model_construct()
        session = self._session(is_own=bool(given.web_identity or given.access_key_id), profile=given.profile)
        base: Any = None
        fetch: Callable[[], Mapping[str, Any]] | None = None
        if web := given.web_identity:
            self._origin = f"web identity role {web.role_arn}, with the token of {in_words(web.token.source)}"
            web.token.reveal()
            fetch = vendor.AssumeRoleWithWebIdentityCredentialFetcher(
                session.create_client, web.token.reveal, web.role_arn, extra_args=_SESSION
            ).fetch_credentials
        elif given.access_key_id and given.secret_access_key:
            keys = GivenKeys(*filter(None, (given.access_key_id, given.secret_access_key, given.session_token)))
            self._origin, base = keys.origin, vendor.Credentials(*keys.current().parts())
        else:
            base = self._by_chain(session, given.profile)
        if given.role_arn:
            self._before, self._keys_said = "", ""
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
        """Return the credentials of the first link that has some. An error ends the chain."""
        env = Environment(os.environ)
        token = "AWS_SECURITY_TOKEN" if env.get("AWS_SECURITY_TOKEN") else "AWS_SESSION_TOKEN"
        # botocore passes over a part of a key.
        if profile is None and (keys := env.keys("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", token)):
            self._origin = keys.origin
            return session.get_component("credential_provider").get_provider("env").load()  # with their end
        chosen = profile or session.get_config_variable("profile")
        name = "default" if chosen is None else chosen
        names = ("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")
        files = [env.file(variable, ".aws", file) for variable, file in names]
        whose = self._origin = f"{PROFILE}{show(name)} of {' or '.join(file.shown for file in files)}"
        for file in files:  # botocore ignores bad ones
            file._replace(is_named=False).read(parse_ini, "an INI file")
        if name not in (profiles := session.full_config["profiles"]) and chosen is not None:
            raise AccessDenied("there is no such profile")
        says = [key for key in profiles.get(name, ()) if key.startswith(_SAYS)]
        self._keys_said = f" ({', '.join(says)})" if says else ""
        for link in self._links(session):
            method, self._origin = link.METHOD, whose
            is_machine = method in ("container-role", "iam-role")
            if is_machine and (says or chosen is not None):
                raise AccessDenied("its keys are not enough" if says else "it has no keys")
            for file in files if is_machine else ():  # one that the environment names must exist
                file.read(str, "an INI file")
            if method == "login" and "login_session" in says:
                raise AccessDenied("a login needs a person; use sso_session")
            self._origin = _FOUND.get(method, whose)
            if method == "iam-role":
                self._before = f"no credentials found in the environment or in {whose}, and "
            elif method == "assume-role-with-web-identity" and "web_identity_token_file" not in says:
                self._origin = f"web identity role {env.get('AWS_ROLE_ARN')}, by the environment"
            elif method.startswith("assume-role"):
                self._origin = f"STS role {profiles.get(name, {}).get('role_arn', '')}, by {whose}"
            found = link.load()
            if any("mfa_serial" in profiles.get(each, ()) for each in getattr(link, "_visited_profiles", ())):
                raise AccessDenied("mfa_serial needs a person; use a role without MFA")
            if found is not None:
                self._origin += f", role {self._role}" if method == "iam-role" else ""
                return found
        raise AccessDenied("it is switched off")

    def _session(self, *, is_own: bool, profile: str | None) -> Any:
        """A session of botocore with the provider's region and addresses, whose clients neither sign nor send.

        With credentials of its own (`is_own`), AWS_PROFILE has no effect.
        """
        from botocore.session import Session  # noqa: PLC0415

        session = Session({"profile": (None, None, None, None)} if is_own else {}, profile=profile)
        session.register_component("data_loader", _loader())
        session.set_config_variable("defaults_mode", "legacy")  # others ask EC2 metadata for the region
        session.set_config_variable("sts_regional_endpoints", "regional")
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
        """The links of botocore's chain, which neither send nor ask a person, and run programs for a limited time."""
        from botocore.credentials import ProcessProvider  # noqa: PLC0415

        links: list[Any] = session.get_component("credential_provider").providers
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
                case "assume-role":  # makes links of its own for the source profile
                    link._profile_provider_builder._create_process_provider = partial(
                        ProcessProvider, load_config=lambda: session.full_config, popen=self._popen
                    )
        return links

    def _popen(self, command: Sequence[str], **_: Any) -> Any:
        """Run a program in the place of subprocess.Popen, for as long as a request may take.

        https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html
        """
        self._http.asks(self._origin)
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        seconds = self._config.http.request_timeout
        # The user's own profile names the program. Its end closes the pipe, which what it started may keep open.
        with subprocess.Popen(command, start_new_session=True, **given) as process:  # noqa: S603
            try:
                written, _errors = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with its children
                late = f"the program of credential_process did not end within {seconds:.0f} s (http.request_timeout)"
                raise RequestTimedOut(f"{late} and was killed") from None
        return SimpleNamespace(communicate=lambda: (written, b""), returncode=process.returncode)

    def _send(self, signer: GivenKeys | None, request: Any, event_name: str, **_: Any) -> Any:
        api, operation = event_name.split(".")[1:]
        return _response(request, self._call(api, operation, request, signer))

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
                return _response(request, "", 404)  # botocore asks without a token, if that is allowed
            if isinstance(error, NotFound) and operation == "ListRoles":
                error.message = "this machine has no role"
                raise
            raise self._token_error or error from None
        if operation in ("GetRoleKeys", "GetContainerKeys") and any(
            not isinstance(answer.get(name), str) or not answer[name] for name in _KEY_FIELDS
        ):
            code, missing = printable(text(answer, "Code"), 80), "lacks keys, or does not say when they expire"
            raise BadAnswer(f"the answer {missing}", operation=operation, code=code)
        return _response(request, answer)

    def _call(self, api: str, operation: str, request: Any, signer: GivenKeys | None = None) -> Any:
        """Return the answer to a request of botocore. Raises CloudError."""
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
        self._http.asks(self._origin)
        self._next.set_result(lambda: self._http.call(call, dict, dialect, str(url.origin())))
        answer = self.answers.get()
        if isinstance(answer, CloudError):
            raise answer
        return answer

    def _meaning(self, error: Exception) -> CloudError:
        """The meaning of an error of botocore. Its own texts name no secret; those of others are not shown."""
        from botocore import exceptions as vendor  # noqa: PLC0415

        if isinstance(error, CloudError):
            return error
        if self._token_error and isinstance(error, vendor.MetadataRetrievalError):
            return self._token_error
        said = ""
        if isinstance(error, vendor.BotoCoreError):  # without names, paths and what a program wrote: may be secrets
            said = ": " + _QUOTED.sub("…", str(error).replace("\n", "; "))
        elif isinstance(error, OSError) and error.strerror:
            said = f": {error.strerror}"
        kind = AccessDenied if said else BadAnswer  # another error of Python is about what was read
        return kind(printable(redact(f"{type(error).__name__}{said}"), 300))


def _response(request: Any, answer: Any, status: int = 200) -> Any:
    from botocore.awsrequest import AWSResponse  # noqa: PLC0415

    body = answer if isinstance(answer, str) else json.dumps(answer)
    return AWSResponse(request.url, status, {}, SimpleNamespace(stream=lambda: [body.encode()]))


@cache
def _loader() -> Any:
    """The reader of the files of AWS' services: reading them again takes 100 ms, and leaves 10 MiB of garbage."""
    from botocore.loaders import create_loader  # noqa: PLC0415

    # It logs the errors that it raises, with their traces.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    return create_loader()
