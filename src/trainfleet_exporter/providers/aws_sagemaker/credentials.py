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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Annotated, Any, TypeAlias
from urllib.parse import parse_qsl

import yarl
from pydantic import AfterValidator

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import SecretText, Text
from trainfleet_exporter.config.secrets import show
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, RequestTimedOut
from trainfleet_exporter.process.redaction import redact
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.providers.aws_sagemaker.api import AwsDialect, judge
from trainfleet_exporter.providers.key_search import (
    METADATA,
    CredentialsSection,
    Environment,
    KeyHttp,
    MetadataService,
    NoHttp,
    OpenDialect,
    in_words,
    judge_metadata,
    parse_ini,
    secret_of,
)
from trainfleet_exporter.providers.keys import PROFILE, GivenKeys, Keys
from trainfleet_exporter.transport import Call, Dialect, TextForm
from trainfleet_exporter.transport.json_fields import printable

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
_SAYS = (
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_security_token", "role_arn"),
    *("source_profile", "credential_", "web_identity_", "login_session", "sso_", "mfa_serial"),
)
"""How keys of a profile begin by which its author chose an identity."""
_METADATA = MetadataService(
    origin="EC2 metadata",
    operations=("PutToken", "ListRoles", "GetRoleKeys"),
    carrier="x-aws-ec2-metadata-token",
    path="/latest/meta-data/iam/security-credentials/",
    names=("AccessKeyId", "SecretAccessKey", "Token", "Expiration"),
)
_FOUND = {
    "ec2-credentials-file": "file of AWS_CREDENTIAL_FILE",
    "boto-config": "boto config",
    "container-role": "container credentials endpoint",
    "iam-role": _METADATA.origin,
}
"""By botocore's name of a method, the origin for users. All other methods belong to a profile."""
_SESSION = {"RoleSessionName": "trainfleet-exporter"}
_OF_STS = TextForm("of STS", re.compile(r"(<\?xml[^>]*>\s*)?<\w+Response[\s>].*", re.DOTALL))
_SECRET_NAMES = re.compile("token|secret|external|assertion|code|authorization", re.IGNORECASE)
_SENT_HEADERS = ("content-type", "authorization", "x-amz-sso_bearer_token")
"""Those of botocore. With the transport's `accept: application/json`, STS answers in JSON, so calls accept anything."""
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|\([^)]*\)|\S*/\S*""")
_never = partial(datetime.fromtimestamp, 0.0, UTC)
"""The time for botocore, by which no keys are about to expire."""
_SEARCHES: dict[str, Any] = {}
"""The future of the latest search by the provider's name: none begins while another hangs, which costs two threads."""


async def load(section: Credentials | None, environ: Mapping[str, str], http: NoHttp, *, config: Any = None) -> Keys:
    """The keys of a section, or of botocore's chain without one (key_search.Load). Calls need the provider's config."""
    if section is not None and (parts := section.given_keys()):
        return GivenKeys(*parts).current()
    search = _Search(section, config, http)
    found = await _make_calls(search, config.name, http.deadline) if isinstance(http, KeyHttp) else search.run()
    if isinstance(found, CloudError):
        raise found
    return found


async def _make_calls(search: _Search, name: str, deadline: float) -> Keys | CloudError:
    """Run a search in a thread, and make its calls here."""
    loop, threads, hangs = asyncio.get_running_loop(), DaemonThreadExecutor(), "can this machine read AWS' profiles?"
    if name in _SEARCHES and not _SEARCHES[name].done():
        return RequestTimedOut(f"an earlier search for credentials still hangs: {hangs}").not_attempted()
    _SEARCHES[name] = threads.submit(lambda: search.asked.put(search.run()))
    try:
        while True:
            async with asyncio.timeout_at(max(deadline, loop.time()) + 0.5):  # wait_for can lose the end of a poll
                call = await loop.run_in_executor(threads, search.asked.get)
            if isinstance(call, Keys | CloudError):
                return call
            try:
                search.answers.put(await call())
            except Exception as error:  # noqa: BLE001 - the search reports it
                search.answers.put(error)
    except TimeoutError:
        return RequestTimedOut(f"the search for credentials hangs: {hangs}")
    finally:  # a thread that waits ends
        search.answers.put(RequestTimedOut("the poll has ended"))


class _Search:
    """One search by botocore, in a thread that blocks while others make its calls."""

    def __init__(self, given: Credentials | None, config: Any, http: NoHttp) -> None:
        self._given, self._config, self._http = given or Credentials.model_construct(), config, http
        self.asked: SimpleQueue[Any] = SimpleQueue()
        """Functions that make a call, and at last what `run` returns."""
        self.answers: SimpleQueue[Any] = SimpleQueue()
        """To each call, the answer or an error."""
        self._before, self._source, self._keys_said = "", "the default chain", ""
        """The beginning of an error: what was searched in vain, what is being searched, and keys of the profile."""
        self._called = ""
        """The latest operation, whose answer is read."""

    def run(self) -> Keys | CloudError:
        """Return the keys, or why there are none."""
        try:
            return self._keys()
        except Exception as error:  # noqa: BLE001 - botocore raises anything
            meaning = _meaning(error)
            meaning.message = f"{self._before}{self._origin}{self._keys_said} cannot be used: {meaning.message}"
            meaning.operation = meaning.operation or (self._called if isinstance(meaning, BadAnswer) else "")
            meaning.__context__ = None  # frames of botocore hold secrets
            return meaning.with_traceback(None)

    @property
    def _origin(self) -> str:
        role = self._given.role_arn
        return f"STS role {role}, with keys of {in_words(self._source)}" if role else self._source

    def _keys(self) -> Keys:
        given = self._given
        session = self._session(given.profile)
        if web := given.web_identity:
            self._source = f"web identity role {web.role_arn}, with the token of {in_words(web.token.source)}"
            asked = {"RoleArn": web.role_arn, "WebIdentityToken": web.token.reveal(), **_SESSION}
            return self._issued(session.create_client("sts").assume_role_with_web_identity(**asked))
        if given.access_key_id and given.secret_access_key:
            parts = given.access_key_id, given.secret_access_key, given.session_token
            keys = GivenKeys(*filter(None, parts)).current()
        else:
            keys = self._by_chain(session, given.profile)
        if not given.role_arn:
            return keys
        self._before, self._source, self._keys_said = "", keys.origin, ""
        names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        client = session.create_client("sts", **dict(zip(names, keys.parts(), strict=False)))
        external = {"ExternalId": given.external_id.reveal()} if given.external_id else {}
        return self._issued(client.assume_role(RoleArn=given.role_arn, **_SESSION, **external))

    def _issued(self, answer: Mapping[str, Any]) -> Keys:
        found = answer["Credentials"]
        parts = (found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        return Keys(*parts, found["Expiration"].timestamp(), self._origin)

    def _by_chain(self, session: Any, profile: str | None) -> Keys:
        """Return the keys of the first link of botocore's chain that has some. An error ends the chain."""
        env = Environment(os.environ)
        token = "AWS_SECURITY_TOKEN" if env.get("AWS_SECURITY_TOKEN") else "AWS_SESSION_TOKEN"
        # botocore passes over a part of a key.
        if profile is None and (keys := env.keys("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", token)):
            self._source = keys.origin
            return self._of(session.get_component("credential_provider").get_provider("env").load())  # with their end
        chosen = profile or session.get_config_variable("profile")
        name = "default" if chosen is None else chosen
        names = ("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")
        files = [env.file(variable, ".aws", file) for variable, file in names]
        whose = self._source = f"{PROFILE}{show(name)} of {' or '.join(file.shown for file in files)}"
        for file in files:
            file.read(parse_ini, "an INI file")  # botocore ignores bad ones
        if name not in (profiles := session.full_config["profiles"]) and chosen is not None:
            raise AccessDenied("there is no such profile")
        says = [key for key in profiles.get(name, ()) if key.startswith(_SAYS)]
        self._keys_said = f" ({', '.join(says)})" if says else ""
        for link in self._links(session, name):
            method, self._source = link.METHOD, whose
            if method in ("container-role", "iam-role") and (says or chosen is not None):
                raise AccessDenied("its keys are not enough" if says else "it has no keys")
            if method == "login" and "login_session" in says:
                raise AccessDenied("a login needs a person; use sso_session")
            self._source = _FOUND.get(method, whose)
            if method == "iam-role":
                self._before = f"no credentials found in the environment or in {whose}, and "
            elif method == "assume-role-with-web-identity" and "web_identity_token_file" not in says:
                self._source = f"web identity role {env.get('AWS_ROLE_ARN')}, by the environment"
            elif method.startswith("assume-role"):
                self._source = f"STS role {profiles.get(name, {}).get('role_arn', '')}, by {whose}"
            found = link.load()
            if any("mfa_serial" in profiles.get(each, ()) for each in getattr(link, "_visited_profiles", ())):
                raise AccessDenied("mfa_serial needs a person; use a role without MFA")
            if found is not None:
                self._source = found.method if method == "iam-role" else self._source
                return self._of(found)
        raise AccessDenied("it is switched off")

    def _of(self, found: Any) -> Keys:
        """The keys of credentials of botocore, which are asked for now if that was not done yet."""
        found._time_fetcher = _never  # the clock of this machine may be wrong, and the cloud's decides
        frozen = found.get_frozen_credentials()
        end = getattr(found, "_expiry_time", None)
        parts = (frozen.access_key, frozen.secret_key, frozen.token)
        return Keys(*parts, None if end is None else end.timestamp(), self._source)

    def _session(self, profile: str | None) -> Any:
        """A session of botocore with the provider's region and addresses, whose clients neither sign nor send."""
        from botocore.session import Session  # noqa: PLC0415 - 9 MiB, which keys of the config do not need

        is_own = self._given.web_identity or self._given.access_key_id  # then AWS_PROFILE has no effect
        session = Session({"profile": (None,) * 4} if is_own else {}, profile=profile)
        session.register_component("data_loader", _loader())
        session.set_config_variable("defaults_mode", "legacy")  # others ask EC2 metadata for the region
        session.set_config_variable("sts_regional_endpoints", "regional")
        if self._config is not None:
            session.set_config_variable("region", self._config.region)
            if self._config.fips:
                session.set_config_variable("use_fips_endpoint", True)
        # For profiles, too, whose clients botocore itself creates.
        session.create_client = partial(self._client, session.create_client)
        return session

    def _client(self, create: Callable[..., Any], service: str, *args: Any, **given: Any) -> Any:
        from botocore import UNSIGNED  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415

        self._http.asks(self._origin)
        if service == "sts" and self._config.endpoints.sts is not None:
            given["endpoint_url"] = self._config.endpoints.sts
        key = [given.pop(f"aws_{name}", None) for name in ("access_key_id", "secret_access_key", "session_token")]
        signer = GivenKeys(*map(Secret, filter(None, key))) if key[0] else None
        given["config"] = (given.get("config") or Config()).merge(Config(signature_version=UNSIGNED))
        client = create(service, *args, **given)
        client.meta.events.register_first("before-send", partial(self._send, signer))
        return client

    def _links(self, session: Any, profile: str) -> Sequence[Any]:
        """The links of botocore's chain, which neither send nor ask a person, and run programs for a limited time."""
        from botocore import credentials as vendor  # noqa: PLC0415
        from botocore.utils import ContainerMetadataFetcher  # noqa: PLC0415

        process = partial(vendor.ProcessProvider, load_config=lambda: session.full_config, popen=self._popen)
        links: list[Any] = session.get_component("credential_provider").providers
        for link in links:
            match link.METHOD:
                case "iam-role":
                    link.load = partial(self._machine, session)
                case "container-role":
                    link.load = vendor.ContainerProvider(fetcher=ContainerMetadataFetcher(session=self)).load
                case "custom-process":
                    link.load = process(profile).load
                case "assume-role-with-web-identity":
                    link._token_loader_cls = lambda path: secret_of(Path(path), "the token file").reveal
                case "assume-role":  # makes links of its own for the source profile
                    getattr(link, "_profile_provider_builder", link)._create_process_provider = process
        return links

    def _machine(self, session: Any) -> Any:
        """The link of EC2 metadata: credentials of botocore, or None if it is switched off."""
        from botocore.credentials import RefreshableCredentials  # noqa: PLC0415

        if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            return None
        self._http.asks(self._origin)
        url = self._config.endpoints.metadata or session.get_config_variable("ec2_metadata_service_endpoint")
        url, is_required = url or self._config.metadata_service, session.get_config_variable("ec2_metadata_v1_disabled")
        keys = self._ask(partial(_METADATA.keys, self._http, url=url.rstrip("/"), is_required=is_required))
        end = datetime.fromtimestamp(keys.expires, UTC)
        return RefreshableCredentials(*keys.parts(), end, None, keys.origin, _never)

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
        """Answer a request of a client of botocore."""
        api, operation = event_name.split(".")[1:]
        return self._answer(api, operation, request, signer)

    def send(self, request: Any) -> Any:
        """Answer a request to the container endpoint: the place of botocore.httpsession.URLLib3Session."""
        return self._answer(METADATA, "GetContainerKeys", request, None)

    def _answer(self, api: str, operation: str, request: Any, signer: GivenKeys | None) -> Any:
        """Return the answer to a request of botocore. Raises CloudError."""
        from botocore.awsrequest import AWSResponse  # noqa: PLC0415

        self._called = operation
        url, body = yarl.URL(request.url, encoded=True), request.body or b""
        body = body if isinstance(body, str) else body.decode()
        given = {name.lower(): v.decode() if isinstance(v, bytes) else v for name, v in request.headers.items()}
        headers = {"accept": "*/*"} | {name: given[name] for name in _SENT_HEADERS if name in given}
        dialect: Dialect = OpenDialect(api, judge_metadata if api == METADATA else judge, lambda call: headers)
        if signer is not None:
            region = "us-east-1" if url.host == "sts.amazonaws.com" else self._config.region
            dialect = AwsDialect(api, region, signer, self._http.clock, lambda call: headers)
        fields = [*headers.items(), *(json.loads(body).items() if body.startswith("{") else parse_qsl(body))]
        call = Call(
            operation=operation,
            path=url.raw_path_qs,
            method=request.method,
            body=body.encode(),
            text=_OF_STS if api == "sts" else None,
            secrets=tuple(str(value) for key, value in fields if _SECRET_NAMES.search(key) and len(str(value)) >= 8),
        )
        answer = self._ask(lambda: self._http.call(call, dict, dialect, str(url.origin())))
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return AWSResponse(request.url, 200, {}, SimpleNamespace(stream=lambda: [text.encode()]))

    def _ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Have a call made, and wait for its answer. Raises CloudError."""
        self._http.asks(self._origin)
        self.asked.put(call)
        answer = self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _meaning(error: Exception) -> CloudError:
    """The meaning of an error of botocore. Its own texts name no secret; those of others are not shown."""
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    if isinstance(error, CloudError):
        return error
    said = ""
    if isinstance(error, BotoCoreError):  # without names, paths and what a program wrote: may be secrets
        said = ": " + _QUOTED.sub("…", str(error).replace("\n", "; "))
    elif isinstance(error, OSError) and error.strerror:
        said = f": {error.strerror}"
    kind = AccessDenied if said else BadAnswer  # another error of Python is about what was read
    return kind(printable(redact(f"{type(error).__name__}{said}"), 300))


@cache
def _loader() -> Any:
    """The reader of the files of AWS' services: reading them again takes 100 ms, and leaves 10 MiB of garbage."""
    from botocore.loaders import create_loader  # noqa: PLC0415

    # It logs the errors that it raises, with their traces.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    return create_loader()
