"""The web config file: TLS, users and headers, in the format of the official exporters.

It is checked like the config file, with all errors at once. Two things differ. A `$` has no special meaning, because
password hashes have many. Settings that this exporter does not support are errors.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from trainfleet_exporter.config import Source
from trainfleet_exporter.config.load import unknown_key
from trainfleet_exporter.config.secrets import near, show, unusable
from trainfleet_exporter.config.source import Loc
from trainfleet_exporter.errors import ConfigError, Fault
from trainfleet_exporter.process.files import read_regular_file
from trainfleet_exporter.process.redaction import HoldsSecrets
from trainfleet_exporter.web.tls import Strict, TlsServer, make_context, tls_problems

_LONGEST_FILE = 1_000_000
_TLS, _USERS = "tls_server_config", "basic_auth_users"
_HASH = re.compile(r"\$2[aby]\$(0[4-9]|1[0-8])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
"""Each step of the cost doubles the time, and 18 takes some ten seconds. The last character of the salt has only two
bits; bcrypt rejects a hash with more of them."""
_PARTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _hash(text: object) -> object:
    if not isinstance(text, str) or not _HASH.fullmatch(text):
        raise ValueError(
            "a bcrypt hash ($2a$, $2b$ or $2y$) with a cost of 4 to 18, "
            "as htpasswd -nBC 10 USER prints it after the colon"
        )
    return text


def _interval(text: object) -> float:
    parts = _PARTS.findall(text) if isinstance(text, str) else []
    if text != "0" and (not parts or "".join(map("".join, parts)) != text):
        raise ValueError("a duration such as 100ms, 1s or 1m, or 0 for no limit")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _header(text: object) -> object:
    if isinstance(text, str) and not (text.isascii() and (text.isprintable() or not text)):
        raise ValueError("printable ASCII characters, or nothing to leave it unset")
    return text.strip() if isinstance(text, str) else text or ""


_Hash: TypeAlias = Annotated[str, BeforeValidator(_hash)]
_Header: TypeAlias = Annotated[str, BeforeValidator(_header)]


class HeadersToSet(Strict):
    """Headers of every response; empty ones are left unset."""

    model_config = ConfigDict(alias_generator=lambda name: name.title().replace("_", "-").replace("Xss", "XSS"))

    content_security_policy: _Header = ""
    strict_transport_security: _Header = ""
    x_content_type_options: Annotated[Literal["", "nosniff"], BeforeValidator(_header)] = ""
    x_frame_options: Annotated[Literal["", "deny", "sameorigin"], BeforeValidator(_header)] = ""
    x_xss_protection: _Header = ""


class HttpServer(Strict):
    """The section about HTTP; http2 has no effect."""

    http2: bool = False
    headers: HeadersToSet = HeadersToSet()


class RateLimit(Strict):
    """A token bucket for all requests: one each `interval` seconds, `burst` of them at once."""

    interval: Annotated[float, BeforeValidator(_interval)] = 0.0
    burst: Annotated[int, Field(ge=1)] | None = None


class WebFile(Strict):
    """The file as a whole."""

    tls_server_config: TlsServer = TlsServer()
    http_server_config: HttpServer = HttpServer()
    basic_auth_users: Annotated[dict[str, _Hash], BeforeValidator(lambda given: given or {})] = Field({}, repr=False)
    """bcrypt hashes by user; empty if there are no logins."""
    rate_limit: RateLimit = RateLimit()


_ALLOWED_BY_TYPE = {
    "bool": "true or false",
    "dict": "a mapping",
    "greater": "a whole number, 1 or more",
    "int": "a whole number, 1 or more",
    "model": "a mapping",
    "path": "the path of a PEM file",
    "string": "a text",
    "tuple": "a list",
}
"""By the first word of the type of pydantic's error, where its own words are not clear."""


@dataclass(frozen=True, slots=True)
class WebConfig(HoldsSecrets):
    """The content of a valid file and of the files that it names."""

    file: WebFile = field(repr=False)
    context: ssl.SSLContext | None
    """None for plain HTTP."""
    headers: Mapping[str, str]
    files: tuple[Path, ...]
    """The files that it was read from, the web config file first."""


def read_web_config(path: Path) -> WebConfig:
    """Read a web config file and the files that it names; relative paths in it start from its folder.

    Raises ConfigError with all errors.
    """
    try:
        _, text = read_regular_file(path, _LONGEST_FILE)
    except OSError as error:
        message = f"found a file that cannot be read ({error.strerror}); allowed: a readable YAML file"
        raise ConfigError([Fault(str(path), None, "", message)]) from None
    source = Source(text, str(path))
    problems: dict[Loc, str] = dict(_contradictions(source.data))
    context = None
    try:
        given = WebFile.model_validate(source.data)
    except ValidationError as error:
        problems |= {detail["loc"]: _in_words(source, detail) for detail in error.errors(include_url=False)}
    if (tls := source.data.get(_TLS)) and not any(loc[0] == _TLS for loc in problems):
        context, found = make_context(TlsServer.model_validate(tls), path.parent)
        problems |= {(_TLS, key): message for key, message in found.items()}
    for loc, message in problems.items():
        if loc not in source.spoilt:
            source.fault(loc, message)
    source.raise_faults()
    headers = {
        name: value for name, value in given.http_server_config.headers.model_dump(by_alias=True).items() if value
    }
    own = given.tls_server_config
    named = [path.parent / file for file in (own.cert_file, own.key_file, own.client_ca_file) if file is not None]
    return WebConfig(given, context, headers, (path, *named))


def _contradictions(raw: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
    tls, users, rate = raw.get(_TLS), raw.get(_USERS), raw.get("rate_limit")
    if isinstance(tls, dict) and tls:
        yield from (((_TLS, key), message) for key, message in tls_problems(tls).items())
    for user in users if isinstance(users, dict) else ():
        if ":" in user or unusable(user):
            found = "found an invalid user name"
            yield (_USERS, user), f"{found}; allowed: a name without : and without control characters"
    if isinstance(rate, dict) and rate.get("interval", "0") != "0" and "burst" not in rate:
        message = "required, but missing; allowed: how many requests may come at once, 1 or more"
        yield ("rate_limit", "burst"), message


def _in_words(source: Source, detail: ErrorDetails) -> str:
    """Return the message of one of pydantic's errors, without secrets."""
    loc = detail["loc"]
    value = detail["input"]
    if detail["type"] == "extra_forbidden" and loc[-1] == "curve_preferences":
        return "found curves, which this exporter cannot choose; allowed: no such key: remove it"
    if detail["type"] == "extra_forbidden":
        section: Any = WebFile
        for step in loc[:-1]:
            section = section.model_fields[step].annotation
        keys = [given.alias or name for name, given in section.model_fields.items()]
        return unknown_key(str(loc[-1]), keys, near(str(loc[-1]), keys))
    is_hidden = loc[0] == _USERS or loc[-1] in ("cert", "key", "client_ca")
    found = "<secret>" if is_hidden and isinstance(value, str) else show(value)
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")  # what is allowed
    return f"found {found}; allowed: {_ALLOWED_BY_TYPE.get(detail['type'].partition('_')[0], message)}"
