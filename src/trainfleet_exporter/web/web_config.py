"""The web config file: TLS, users and headers, in the format of the official exporters.

It is checked like the config file, with all errors at once. Two things differ. A `$` has no special meaning, because
password hashes have many. Settings that this exporter does not support are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, PlainValidator

from trainfleet_exporter.config import Section, Source, load_yaml, validate
from trainfleet_exporter.config.kinds import CountFrom1, Flag, Surroundings
from trainfleet_exporter.config.plain import show
from trainfleet_exporter.config.secrets import unusable
from trainfleet_exporter.errors import ConfigError, Fault
from trainfleet_exporter.process.redaction import HoldsSecrets
from trainfleet_exporter.web.tls import Problem, TlsServer, tls_problems

_SETTABLE_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""The headers that may be set, and their values where these are a closed list."""
_HASH = re.compile(r"\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
"""The last character of the salt has only two bits; bcrypt rejects a hash with more of them."""
_TLS = "tls_server_config"
_COSTS = range(4, 19)
"""Of bcrypt; each step doubles the time, and 18 takes some ten seconds."""
_HASH_RULE = (
    "found {found}; allowed: a bcrypt hash ($2a$, $2b$ or $2y$) with a cost of 4 to 18, "
    "as htpasswd -nBC 10 USER prints it after the colon"
)
_PARTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _hash(value: object) -> bytes:
    text = value if isinstance(value, str) else ""
    match = _HASH.fullmatch(text)
    if match is None or int(match[1]) not in _COSTS:
        raise ValueError(_HASH_RULE.format(found="<secret>" if isinstance(value, str) else show(value)))
    return text.encode()


def _interval(value: object) -> float:
    text = value if isinstance(value, str) else ""
    parts = _PARTS.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(
            f"found {show(value, quantity=True)}; allowed: a duration such as 100ms, 1s or 1m, or 0 for no limit"
        )
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _mapping(value: object) -> object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"found {show(value, shape_only=True)}; allowed: a mapping")
    return value


def _header(value: object) -> str:
    text = "" if value is None else value
    if not isinstance(text, str) or not text.isascii() or (text and not text.isprintable()):
        raise ValueError(
            "found characters that a header cannot contain; "
            "allowed: printable ASCII characters, or nothing to leave it unset"
        )
    return text.strip()


_Hash: TypeAlias = Annotated[bytes, PlainValidator(_hash)]
_Header: TypeAlias = Annotated[str, PlainValidator(_header)]
_Headers: TypeAlias = Annotated[dict[str, _Header], BeforeValidator(_mapping)]
_Users: TypeAlias = Annotated[dict[str, _Hash], BeforeValidator(_mapping)]


class HttpServer(Section):
    """The section about HTTP."""

    http2: Flag | None = None
    headers: _Headers = Field(default={})


class RateLimit(Section):
    """A token bucket for all requests: one each `interval` seconds, `burst` of them at once."""

    interval: Annotated[float, PlainValidator(_interval)] = 0.0
    burst: CountFrom1 | None = None


class WebFile(Section):
    """The file as a whole."""

    tls_server_config: TlsServer = TlsServer()
    http_server_config: HttpServer = HttpServer()
    basic_auth_users: _Users = Field(default={}, repr=False)
    rate_limit: RateLimit = RateLimit()


@dataclass(frozen=True, slots=True)
class WebConfig(HoldsSecrets):
    """The content of a valid file."""

    tls: TlsServer | None = None
    """None for plain HTTP."""
    users: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    """bcrypt hashes by user; empty if there are no logins."""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds_each: float = 0.0
    """Seconds between two requests; 0 where they are not limited."""
    burst: int = 1
    files: tuple[Path, ...] = ()
    """The files that it was read from, the web config file first."""
    notes: tuple[str, ...] = ()
    """Warnings about settings without effect."""


@dataclass(frozen=True, slots=True)
class WebFileRead:
    """A file that was read, valid or not."""

    source: Source
    tls: TlsServer | None
    """Its TLS section, if that is valid and not empty."""
    config: WebConfig | None
    """None if it has faults."""
    faults: tuple[Fault, ...]


def read_web_config(path: Path) -> WebFileRead:
    """Read a web config file, but not the files that it names. Relative paths in it start from its folder.

    Raises ConfigError if it is not a YAML mapping at all.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        message = f"found a file that cannot be read ({error.strerror}); allowed: a readable YAML file"
        raise ConfigError([Fault(str(path), None, "", message)]) from None
    source = load_yaml(text, str(path))
    given, tls = validate(WebFile, source.data, source, (), Surroundings(path.parent, {})), None
    if given is not None:
        section = source.data.get(_TLS)
        written = frozenset(section) if isinstance(section, dict) else frozenset[str]()
        spoilt = {key for key in written if not source.is_sound(_TLS, key)}
        for problem in [*tls_problems(given.tls_server_config, written, spoilt), *_other_problems(given)]:
            if source.is_sound(*problem.loc):  # one for each place: an invalid value comes before a missing one
                source.fault(problem.loc, problem.message)
        if written and source.is_sound(_TLS):
            tls = given.tls_server_config
    faults = tuple(source.faults)
    config = None if faults or given is None else _config(path, given, tls)
    return WebFileRead(source, tls, config, faults)


def _config(path: Path, given: WebFile, tls: TlsServer | None) -> WebConfig:
    notes = []
    if given.http_server_config.http2:
        notes.append("http_server_config.http2: HTTP/2 is not supported; clients are served by HTTP/1.1")
    if tls is not None and tls.client_auth_type == "RequestClientCert":
        notes.append("client_auth_type RequestClientCert: certificates would be optional, so none is requested")
    return WebConfig(
        tls=tls,
        users={user.encode(): hashed for user, hashed in given.basic_auth_users.items()},
        headers={name: value for name, value in given.http_server_config.headers.items() if value},
        seconds_each=given.rate_limit.interval,
        burst=given.rate_limit.burst or 1,
        files=(path, *(tls.files if tls is not None else ())),
        notes=tuple(notes),
    )


def _other_problems(given: WebFile) -> Iterator[Problem]:
    for name, value in given.http_server_config.headers.items():
        at = ("http_server_config", "headers", name)
        if name not in _SETTABLE_HEADERS:
            yield Problem(at, f"found a header that cannot be set here; allowed: {', '.join(_SETTABLE_HEADERS)}")
        elif _SETTABLE_HEADERS[name] and value and value not in _SETTABLE_HEADERS[name]:
            yield Problem(at, f"found {show(value)}; allowed: {' or '.join(_SETTABLE_HEADERS[name])}")
    for user in given.basic_auth_users:
        if ":" in user or unusable(user):
            message = "found an invalid user name; allowed: a name without : and without control characters"
            yield Problem(("basic_auth_users", user), message)
    if given.rate_limit.interval and given.rate_limit.burst is None:
        yield Problem(
            ("rate_limit", "burst"), "required, but missing; allowed: how many requests may come at once, 1 or more"
        )
