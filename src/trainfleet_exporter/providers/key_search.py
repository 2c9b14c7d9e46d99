"""The search for keys of every cloud: how `load` makes calls, and what is known without any.

`load` reads the config section, or without one the environment and the files of the vendor's tools. A link of a chain
that says something and cannot be used ends the chain with an error. Only what says nothing is passed over.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar, cast
from urllib.parse import quote

from pydantic import ValidationInfo, WrapValidator, model_validator
from pydantic import ValidatorFunctionWrapHandler as Handler

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import Surroundings
from trainfleet_exporter.config.secrets import is_plain, show, unusable_secret
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, RequestTimedOut, Unreachable
from trainfleet_exporter.process.files import read_regular_file
from trainfleet_exporter.providers.judging import ServerClock, error_of, kind_of
from trainfleet_exporter.providers.keys import Credential, FetchedKeys, GivenKeys, Keys
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Call, Dialect, HttpAnswer, HttpSettings, SignedRequest, TextForm, Transport
from trainfleet_exporter.transport.json_fields import mapping, text, utc_time

T = TypeVar("T")
METADATA = "metadata"
"""The label `api` of metadata services, which are on this machine or next to it: no proxy may answer for them."""
_A_TOKEN = TextForm("a token", re.compile(r"[!-~]{1,4096}"))
_A_ROLE = TextForm("the name of a role", re.compile(r"[\w+=,.@-]{1,64}", re.ASCII))
_MOST_BYTES = 1048576
"""A longer file is not a file of profiles."""

# How `load` makes calls.


class _CallNeeded(BaseException):
    """Says the source in words. Not an error: no handler of CloudError or Exception must catch it."""


class NoHttp:
    """How `load` makes calls: not at all."""

    clock = ServerClock()

    def asks(self, origin: str) -> None:
        """The next calls ask this source, in words. Say so before the first of them."""
        raise _CallNeeded(origin)

    async def call(self, call: Call, into: type[T], dialect: Dialect, url: str = "") -> T:
        """The answer of an API, or of the base URL if there is one. Raises CloudError."""
        raise _CallNeeded("")


class KeyHttp(NoHttp):
    """How `load` makes calls: by the provider's transport, or without a proxy to what is near.

    `endpoints` gets each URL.
    """

    def __init__(
        self, transport: Transport, context: BuildContext, endpoint: Callable[[str], str], endpoints: dict[str, str]
    ) -> None:
        self._transport, self._endpoint, self._endpoints = transport, endpoint, endpoints
        self.clock = context.clock
        self.deadline = 0.0
        """Of the fetch (loop time). There is one at a time."""
        near = HttpSettings(connect_timeout=1.0, request_timeout=3.0, trust_env=False)
        self._near = Transport(account=context.account, http=near, observe=context.observe)

    def asks(self, origin: str) -> None:
        """Nothing to do: the keys say their origin."""

    async def call(self, call: Call, into: type[T], dialect: Dialect, url: str = "") -> T:
        """The answer."""
        base_url = url or self._endpoint(dialect.api)
        self._endpoints.setdefault(dialect.api, base_url)
        client = (self._near if dialect.api == METADATA else self._transport).client(base_url, dialect)
        return await client.call(call, into, deadline=self.deadline)

    async def aclose(self) -> None:
        """Close the direct connections. The transport is the provider's to close."""
        await self._near.aclose()


@dataclass(frozen=True, slots=True)
class OpenDialect:
    """An API that is asked without a credential (transport.Dialect)."""

    api: str
    judge: Callable[[HttpAnswer], CloudError | None]
    headers: Callable[[Call], Mapping[str, str]] = lambda call: {}
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Parts of the headers to redact."""

    async def prepare(self, call: Call, deadline: float) -> object:
        """Nothing to prepare."""
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """There is no credential to replace."""
        return False

    def sign(self, call: Call, host: str) -> SignedRequest:
        """The request as it is."""
        return SignedRequest(call.method, call.path, {"host": host, **self.headers(call)}, call.body, self.secrets)


class MetadataService(NamedTuple):
    """How a metadata service issues the keys of the machine's role or agency."""

    origin: str
    operations: tuple[str, str, str]
    """What begins a session, lists the roles (empty if there is no list), and gives the keys."""
    carrier: str
    """The header with the token of a session."""
    path: str
    names: Sequence[str]
    """See issued_keys, also for `inside`."""
    inside: str = ""
    session_path: str = "/latest/api/token"

    async def keys(self, http: NoHttp, role: str = "", *, url: str = "", is_required: bool = False) -> Keys:
        """The keys of a role, or of the one that the machine has. Without a session unless that `is_required`."""
        http.asks(f"{self.origin}, role {role}" if role else self.origin)
        call = Call(operation=self.operations[0], path=self.session_path, method="PUT", text=_A_TOKEN)
        ttl = {f"{self.carrier}-ttl-seconds": "21600"}
        try:
            token = str(await http.call(call, dict, OpenDialect(METADATA, judge_metadata, lambda _: ttl), url))
        except CloudError as error:
            if isinstance(error, RequestTimedOut | Unreachable):
                error.message += " (in a container, the hop limit of the metadata service must be 2 or more)"
            if is_required:
                raise
            try:
                return await self._ask(http, OpenDialect(METADATA, judge_metadata), role, url)
            except CloudError as other:
                raise (error if error.transient or isinstance(other, AccessDenied) else other) from None
        session = OpenDialect(METADATA, judge_metadata, lambda _: {self.carrier: token}, (token,))
        return await self._ask(http, session, role, url)

    async def _ask(self, http: NoHttp, session: OpenDialect, role: str, url: str) -> Keys:
        _, list_roles, get_keys = self.operations
        try:
            if list_roles and not role:
                call = Call(operation=list_roles, path=self.path, text=_A_ROLE)
                role = str(await http.call(call, dict, session, url))
            call, origin = Call(operation=get_keys, path=self.path + quote(role, safe="+=,@")), self.origin
            origin += f", role {role}" if role else ""
            return await issued_keys(http, call, session, origin, self.names, inside=self.inside, url=url)
        except NotFound as error:
            error.message = f"this machine has no role or agency {role}".rstrip()
            raise


def judge_metadata(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its HTTP status alone: the bodies of errors are pages."""
    kind = kind_of(answer.status)
    return None if kind is None else error_of(kind, "", status=answer.status)


async def issued_keys(
    http: NoHttp, call: Call, dialect: Dialect, origin: str, names: Sequence[str], *, inside: str = "", url: str = ""
) -> Keys:
    """Ask for temporary keys. `names` are those of key id, secret, token and end (ISO 8601) in the answer.

    `inside` is the field of the answer with them. Raises BadAnswer if one is missing, AccessDenied if one is unusable.
    """
    http.asks(origin)
    answer = await http.call(call, dict, dialect, url)
    found = mapping(answer, inside) if inside else answer
    key_id, secret, token = (text(found, name) for name in names[:3])
    expires = utc_time(found, names[3])
    if expires is None or not (key_id and secret and token):
        code = f" (code {show(answer['Code'])})" if "Code" in answer else ""
        raise BadAnswer(f"the answer lacks keys, or does not say when they expire{code}", operation=call.operation)
    return Keys(key_id, secret, token, expires, origin)


# What is known without a call.

Load: TypeAlias = Callable[[Any, Mapping[str, str], NoHttp], Coroutine[Any, Any, Keys]]
"""Finds the keys of a config section, or of the vendor's chain without one. Raises CloudError."""


def without_calls(found: Coroutine[Any, Any, Keys]) -> Keys | str:
    """Run `load` with NoHttp: return the keys, or the source that would be asked, in words. Raises CloudError."""
    try:
        found.send(None)
    except StopIteration as done:
        return cast("Keys", done.value)
    except _CallNeeded as needed:
        return str(needed)
    raise AssertionError("a search without calls never waits")


def checked(load: Load) -> WrapValidator:
    """Return the validator of an optional `credentials` section: what cannot be used without a call is a fault."""

    def validate(given: object, handler: Handler, info: ValidationInfo) -> object:
        section = None if given is None else handler(given)
        try:
            without_calls(load(section, Surroundings.of(info).environ, NoHttp()))
        except CloudError as error:
            found = "no credentials here, and none usable elsewhere" if section is None else "unusable credentials"
            raise ValueError(f"found {found} ({error.message}); allowed: credentials without that fault") from None
        return section

    return WrapValidator(validate)


def open_credential(
    provider: str, section: CredentialsSection | None, load: Load, http: KeyHttp, environ: Mapping[str, str]
) -> Credential:
    """The credential of a section, or of the vendor's chain without one. Makes no call."""
    if section is not None and (parts := section.given_keys()):
        return GivenKeys(*parts)
    try:
        known = without_calls(load(section, environ, NoHttp()))
    except CloudError:  # it was good when the config was checked; the first fetch reports what is wrong now
        known = "the default chain" if section is None else "the config file"

    async def fetch(deadline: float) -> Keys:
        http.deadline = deadline
        return await load(section, environ, http)

    return FetchedKeys(provider, known if isinstance(known, str) else known.origin, fetch, clock=http.clock.now)


# Sources: the environment, files, and the section of the config.


def in_words(source: str) -> str:
    """A source within a sentence."""
    return f"the {source}" if source in ("config file", "environment") else source


class Environment:
    """The variables and files that a chain reads. Whatever cannot be used is an AccessDenied that names it."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def get(self, name: str) -> str:
        """The value of a variable; empty if it is not set."""
        return self._variables.get(name, "")

    def all_or_none(self, *names: str, optional: str = "") -> bool:
        """Return whether all of the variables are set. Some of them without the others are an error."""
        there = [name for name in (*names, optional) if self.get(name)]
        if there and (missing := [name for name in names if not self.get(name)]):
            raise AccessDenied(f"the environment sets {' and '.join(there)} without {' and '.join(missing)}")
        return bool(there)

    def keys(self, key_id: str, secret: str, token: str) -> Keys | None:
        """The keys of three variables, of which the token is optional; None if none of them is set."""
        if not self.all_or_none(key_id, secret, optional=token):
            return None
        parts = [usable(self.get(name), name) for name in (key_id, secret, token) if self.get(name)]
        return Keys(parts[0], parts[1], parts[2] if parts[2:] else None, origin="environment")

    def file(self, variable: str, *default: str) -> ProfileFile:
        """The file that a variable names, or `default` in the home directory."""
        if path := self.get(variable):
            shown = path if is_plain(path) else f"the file of {variable}"
            return ProfileFile(Path(os.path.expanduser(os.path.expandvars(path))), shown, is_named=True)  # noqa: PTH111
        home = self.get("HOME") or "/nonexistent"
        return ProfileFile(Path(home, *default), "/".join(("~", *default)), is_named=False)


class ProfileFile(NamedTuple):
    """A file of profiles, its name in texts, and whether a variable names it."""

    path: Path
    shown: str
    is_named: bool

    def read(self, parse: Callable[[str], T], kind: str) -> T | None:
        """The content; None if no variable names the file and there is none.

        AccessDenied names the file. It never quotes the file, because that holds secrets.
        """
        try:
            return parse(read_regular_file(self.path, _MOST_BYTES)[1].decode("utf-8-sig"))
        except OSError as error:
            # In a home directory of another user, no file is there for this process. Containers often have such a HOME.
            is_away = isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError)
            if is_away and not self.is_named and not os.path.exists(self.path):  # noqa: PTH110 - Path's raises
                return None
            reason = error.strerror or "it cannot be read"
        except (configparser.Error, ValueError) as error:
            line = getattr(error, "lineno", None) or next(iter(getattr(error, "errors", ())), (None,))[0]
            reason = f"it is not {kind}" + (f" (line {line})" if line else "")
        raise AccessDenied(f"{self.shown} cannot be used: {reason}")


def usable(value: str, name: str) -> str:
    """The value. AccessDenied if it cannot be a secret, or a part of one."""
    if reason := unusable_secret(value):
        raise AccessDenied(f"{name} cannot be used: {reason}")
    return value


def secret_of(path: Path, shown: str) -> Secret:
    """The secret in a file. The path stays out of the error, because it may be the secret itself."""
    try:
        return Secret.from_file(path)
    except AccessDenied as error:
        raise AccessDenied(f"{shown} cannot be used: {error.message.rpartition(' cannot be used: ')[2]}") from None


def parse_ini(text: str) -> dict[str, dict[str, str]]:
    """The sections of an INI file. Raises configparser.Error."""
    parser = configparser.RawConfigParser(default_section="\n")  # a name that no section can have
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


class CredentialsSection(Section):
    """The credentials in one of several forms; without the section, the vendor's default chain."""

    forms: ClassVar[Sequence[tuple[tuple[str, ...], tuple[str, ...]]]]
    """The keys that each form needs, and those that it may have. The first form is an access key and its token."""

    def given_keys(self) -> tuple[Secret, ...]:
        """The key id, its secret and its token, if the section has keys that sign calls as they are; else nothing."""
        if getattr(self, "role_arn", None) is not None:
            return ()
        needed, perhaps = self.forms[0]
        return tuple(part for name in (*needed, *perhaps) if (part := getattr(self, name)) is not None)

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name)]
        if not any(set(needed) <= set(given) <= {*needed, *perhaps} for needed, perhaps in self.forms):
            shown = [
                ", ".join(needed) + (f" (perhaps {', '.join(perhaps)})" if perhaps else "")
                for needed, perhaps in self.forms
            ]
            allowed = f"allowed: {'; or '.join(shown)}; or no credentials for those of the vendor's own chain"
            raise ValueError(f"found {', '.join(given) or 'no credentials in it'}; {allowed}")
        return self
