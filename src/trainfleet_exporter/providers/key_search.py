"""The search for keys of every cloud: how `load` makes calls, and what is known without any.

`load` reads the config section, or without one the environment and the files of the vendor's tools. A link of a chain
that says something and cannot be used ends the chain with an error. Only what says nothing is passed over.
"""

from __future__ import annotations

import asyncio
import configparser
import os
import re
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from pydantic import SerializerFunctionWrapHandler, ValidationInfo, WrapValidator, model_serializer
from pydantic import ValidatorFunctionWrapHandler as Handler

from trainfleet_exporter.config import Secret, Section
from trainfleet_exporter.config.kinds import Surroundings
from trainfleet_exporter.config.secrets import is_plain, unusable_secret
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, RequestTimedOut, Unreachable
from trainfleet_exporter.process.files import read_regular_file
from trainfleet_exporter.providers.judging import ServerClock, error_of, kind_of
from trainfleet_exporter.providers.keys import REFRESH_MARGIN, Credential, FetchedKeys, GivenKeys, Keys
from trainfleet_exporter.providers.registry import BuildContext, open_direct_transport
from trainfleet_exporter.transport import Call, Dialect, HttpAnswer, SignedRequest, TextForm, Transport
from trainfleet_exporter.transport.json_fields import number, utc_time

T = TypeVar("T")
METADATA = "metadata"
"""The label `api` of metadata services."""
HOP_LIMIT = " (in a container, the hop limit of the metadata service must be 2 or more)"
_INSTEAD = "allowed: credentials here, or sources without that fault"
_NEAR_SECONDS = 5.0
"""Metadata services are near, or they are not there at all."""
A_TOKEN = TextForm("a token", re.compile(r"[!-~]{1,4096}"))
_MOST_BYTES = 1048576
"""A longer file is not a file of profiles."""
_NO_SECTION = "\n"
"""A name for the section of defaults that no file can have."""


class _CallNeeded(BaseException):
    """Not an error: no handler of CloudError or Exception must catch it."""

    def __init__(self, origin: str) -> None:
        self.origin = origin


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
        self._near = open_direct_transport(context)

    def asks(self, origin: str) -> None:
        """Nothing to do: the keys say their origin."""

    async def call(self, call: Call, into: type[T], dialect: Dialect, url: str = "") -> T:
        """The answer."""
        base_url = url or self._endpoint(dialect.api)
        self._endpoints.setdefault(dialect.api, base_url)
        transport, deadline = self._transport, self.deadline
        if isinstance(dialect, OpenDialect) and dialect.is_near:
            near_deadline = asyncio.get_running_loop().time() + _NEAR_SECONDS
            transport, deadline = self._near, min(deadline, near_deadline)
        return await transport.client(base_url, dialect).call(call, into, deadline=deadline)

    async def aclose(self) -> None:
        """Close the direct connections. The transport is the provider's to close."""
        await self._near.aclose()


Load: TypeAlias = Callable[[Any, Mapping[str, str], NoHttp], Coroutine[Any, Any, Keys]]
"""Finds the keys of a config section, or of the vendor's chain without one. Raises CloudError."""


def without_calls(found: Coroutine[Any, Any, Keys]) -> Keys | str:
    """Run `load` with NoHttp: return the keys, or the source that would be asked, in words. Raises CloudError."""
    try:
        found.send(None)
    except StopIteration as done:
        keys: Keys = done.value
        return keys
    except _CallNeeded as needed:
        return needed.origin
    finally:
        found.close()
    raise AssertionError("a search without calls never waits")


def known_origin(section: object, load: Load, environ: Mapping[str, str]) -> str:
    """Where the keys come from, in words, as far as it is known without a call."""
    try:
        known = without_calls(load(section, environ, NoHttp()))
    except CloudError:  # it was good when the config was checked; the first fetch reports what is wrong now
        return "the default chain" if section is None else "the config file"
    return known if isinstance(known, str) else known.origin


def open_credential(
    provider: str,
    section: CredentialsSection | None,
    load: Load,
    http: KeyHttp,
    environ: Mapping[str, str],
    *,
    margin: float = REFRESH_MARGIN,
) -> Credential:
    """The credential of a section, or of the vendor's chain without one. Makes no call. `margin` in seconds."""
    if section is not None and (parts := section.given_keys()):
        return GivenKeys(*parts)

    async def fetch(deadline: float) -> Keys:
        http.deadline = deadline
        return await load(section, environ, http)

    return FetchedKeys(provider, known_origin(section, load, environ), fetch, clock=http.clock.now, margin=margin)


def in_words(source: str) -> str:
    """A source within a sentence."""
    return f"the {source}" if source in ("config file", "environment") else source


async def open_session(
    http: NoHttp, operation: str, path: str, ttl: Mapping[str, str], carrier: str, *, without: Collection[int]
) -> OpenDialect:
    """The metadata service with a token of a session in the header `carrier`.

    An old service has no sessions: it answers with one of the HTTP statuses `without`, and is asked without a token.
    """
    headers: dict[str, str] = {}
    try:
        call = Call(operation=operation, path=path, method="PUT", text=A_TOKEN)
        dialect = OpenDialect(METADATA, judge_metadata, lambda call: ttl, is_near=True)
        headers[carrier] = str(await http.call(call, dict, dialect))
    except CloudError as error:
        if isinstance(error, RequestTimedOut | Unreachable):
            error.message += HOP_LIMIT
        if error.status not in without:
            raise
    return OpenDialect(METADATA, judge_metadata, lambda call: headers, tuple(headers.values()), is_near=True)


def judge_metadata(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its HTTP status alone: the bodies of errors are pages."""
    kind = kind_of(answer.status)
    wait = number({"s": answer.headers.get("retry-after", "")}, "s")
    return None if kind is None else error_of(kind, "", status=answer.status, retry_after=wait)


def issued_keys(answer: Any, operation: str, origin: str, project_id: str = "") -> Keys:
    """The temporary keys of the struct of an answer, whose expiration is an ISO 8601 time.

    Raises BadAnswer if a part is missing, and AccessDenied if one cannot be used.
    """
    names = ("access_key_id", "access_key_secret", "security_token", "expiration")
    *parts, end = [getattr(answer, name, None) or "" for name in names]
    expires = utc_time({"at": end}, "at")
    if expires is None or not all(parts):
        raise BadAnswer("the answer lacks keys, or does not say when they expire", operation=operation)
    try:
        return Keys(parts[0], parts[1], parts[2], expires, origin, project_id)
    except CloudError as error:
        error.operation = operation
        raise


def checked(load: Load) -> WrapValidator:
    """Return the validator of an optional `credentials` section: what cannot be used without a call is a fault."""

    def validate(given: object, handler: Handler, info: ValidationInfo) -> object:
        section = None if given is None else handler(given)
        try:
            without_calls(load(section, Surroundings.of(info).environ, NoHttp()))
        except CloudError as error:
            none_here = "no credentials here, and those of the environment are not usable"
            found = none_here if section is None else "credentials that cannot be used"
            raise ValueError(f"found {found} ({error.message}); {_INSTEAD}") from None
        return section

    return WrapValidator(validate)


@dataclass(frozen=True, slots=True)
class OpenDialect:
    """An API that is asked without a credential (transport.Dialect). `headers` and `target` may be secrets."""

    api: str
    judge: Callable[[HttpAnswer], CloudError | None]
    headers: Callable[[Call], Mapping[str, str]] = lambda call: {}
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Parts of the headers and of the target to redact."""
    target: str = field(default="", repr=False)
    """Path and query in place of the call's."""
    is_near: bool = False
    """Whether the service is on this machine or next to it, so that no proxy may answer in its place."""

    async def prepare(self, call: Call, deadline: float) -> object:
        """Nothing to prepare."""
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """There is no credential to replace."""
        return False

    def sign(self, call: Call, host: str) -> SignedRequest:
        """The request as it is."""
        query = urlencode(call.query, quote_via=quote)
        target = self.target or (f"{call.path}?{query}" if query else call.path)
        return SignedRequest(call.method, target, {"host": host, **self.headers(call)}, call.body, self.secrets)


class Environment:
    """The variables and files that a chain reads. Whatever cannot be used is an AccessDenied that names it."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def get(self, name: str) -> str:
        """The value of a variable; empty if it is not set."""
        return self._variables.get(name, "")

    def is_true(self, name: str) -> bool:
        """Return whether a variable is `true`."""
        return self.get(name).strip().lower() == "true"

    def all_or_none(self, *names: str) -> bool:
        """Return whether all of the variables are set. Some of them without the others are an error."""
        missing = [name for name in names if not self.get(name)]
        if missing and len(missing) < len(names):
            there = " and ".join(name for name in names if name not in missing)
            raise AccessDenied(f"the environment sets {there} without {' and '.join(missing)}")
        return not missing

    def keys(self, key_id: str, secret: str, token: str, project_id: str = "") -> Keys | None:
        """The keys of three variables, of which the token is optional; None if none of them is set."""
        if self.all_or_none(key_id, secret):
            parts = [self.secret(name) for name in (key_id, secret, token)]
            return Keys(parts[0], parts[1], parts[2] or None, origin="environment", project_id=project_id)
        if self.get(token):
            raise AccessDenied(f"the environment sets {token} without {key_id} and {secret}")
        return None

    def secret(self, name: str) -> str:
        """The value of a variable; empty if it is not set."""
        value = self.get(name)
        return usable(value, name) if value else ""

    def secret_file(self, name: str) -> Secret:
        """The secret in the file that a variable names."""
        return secret_of(Path(self.get(name)), f"the file of {name}")

    def file(self, variable: str, *default: str) -> ProfileFile:
        """The file that a variable names, or `default` in the home directory."""
        if path := self.get(variable):
            shown = path if is_plain(path) else f"the file of {variable}"
            try:
                return ProfileFile(Path(os.path.expandvars(path)).expanduser(), shown, is_named=True)
            except RuntimeError:
                raise AccessDenied(f"{variable} cannot be used: there is no such home directory") from None
        home = self.get("HOME")
        return ProfileFile(Path(home, *default) if home else None, "/".join(("~", *default)), is_named=False)


class ProfileFile(NamedTuple):
    """A file of profiles, its name in texts, and whether a variable names it. `path` is None without a home."""

    path: Path | None
    shown: str
    is_named: bool

    def read(self, parse: Callable[[str], T], kind: str) -> T | None:
        """The content; None if no variable names the file and there is none.

        AccessDenied names the file. It never quotes the file, because that holds secrets.
        """
        if self.path is None:
            return None
        try:
            return parse(read_regular_file(self.path, _MOST_BYTES)[1].decode("utf-8-sig"))
        except configparser.Error as error:
            line = getattr(error, "lineno", None) or next(iter(getattr(error, "errors", ())), (None,))[0]
            reason = f"it is not {kind}" + (f" (line {line})" if line else "")
        except OSError as error:
            # In a home directory of another user, no file is there for this process. Containers often have such a HOME.
            is_away = isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError)
            if is_away and not self.is_named and not os.path.exists(self.path):  # noqa: PTH110 - Path's raises
                return None
            reason = error.strerror or "it cannot be read"
        except ValueError:
            reason = f"it is not {kind}"
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
    except ValueError:
        raise AccessDenied(f"{shown} cannot be used: it is not a path") from None


def parse_ini(text: str, *, comments: tuple[str, ...] = ()) -> dict[str, dict[str, str]]:
    """The sections of an INI file. `comments` may follow a value. Raises configparser.Error."""
    parser = configparser.RawConfigParser(default_section=_NO_SECTION, inline_comment_prefixes=comments)
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


class CredentialsSection(Section):
    """The credentials in one of several forms; without the section, the vendor's default chain."""

    key_names: ClassVar[tuple[str, ...]] = ()
    """The keys of the section for the key id, its secret and its token."""

    def given_keys(self) -> tuple[Secret, ...]:
        """The key id, its secret and its token, if the section has keys that sign calls as they are; else nothing."""
        if getattr(self, "role_arn", None) is not None:
            return ()
        return tuple(part for name in self.key_names if (part := getattr(self, name)) is not None)

    def check_form(self, allowed: str, *forms: tuple[tuple[str, ...], tuple[str, ...]]) -> list[str]:
        """Return the given keys. ValueError if they are not one form: its keys, and then those that it may have."""
        given = [name for name in type(self).model_fields if getattr(self, name)]
        touched = [form for form in forms if set(given) & {*form[0], *form[1]}]
        whole = [form for form in touched if set(given) <= {*form[0], *form[1]}]
        if not whole:
            found = f"{', '.join(given)}, which are parts of several forms" if given else "no credentials in it"
            raise ValueError(f"found {found}; {allowed}")
        if missing := min(([key for key in form[0] if key not in given] for form in whole), key=len):
            raise ValueError(f"found {' and '.join(given)} without {' and '.join(missing)}; {allowed}")
        return given

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}
