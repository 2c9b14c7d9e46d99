"""The types of the config's values, which take texts of the file, or ready values of code that builds a config.

Where pydantic's own message would not help, they raise ValueError with what is allowed.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WrapValidator,
)
from pydantic import ValidatorFunctionWrapHandler as Handler

from trainfleet_exporter.config.secrets import EnvironmentText, ProxyUrl, Secret, mean, show, unusable, unusable_secret
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process.files import read_regular_file
from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)
_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,8}(?:\.[0-9]+)?) ?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)?")
_UNIT_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
# Each unit at most once, the largest first. Nine digits hold 3650d in seconds.
_DURATION = re.compile("(?=.)" + "".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _UNIT_SECONDS))
MAX_DURATION = 3650 * 86400
"""The longest duration in seconds, ten years: beyond it lies a typing error, and in the end an overflow."""
_HTTP_URL = re.compile(
    r"https?://(([!-~](?<![/?#\\]))*@)?([a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_.])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?/?",
    re.ASCII | re.IGNORECASE,
)


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `1h30m`; ValueError if it is not one, or longer than `MAX_DURATION`."""
    match = _DURATION.fullmatch(text)
    numbers = zip(match.groups("0"), _UNIT_SECONDS.values(), strict=True) if match else ()
    seconds = sum(int(number) * size for number, size in numbers)
    if match is None or seconds > MAX_DURATION:
        raise ValueError("not a duration, or too long")
    return float(seconds)


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads back, if these are whole seconds within its bounds."""
    if not 0 < seconds <= MAX_DURATION or seconds != int(seconds):
        return f"{seconds:g}s"
    rest = int(seconds)
    text = ""
    for unit, size in _UNIT_SECONDS.items():
        number, rest = divmod(rest, size)
        text += f"{number}{unit}" if number else ""
    return text


def parse_endpoint(text: str) -> str:
    """`scheme://host[:port]` of an http(s) address without anything else; ValueError if it is not one."""
    parts = _split(text)
    if parts is None or "@" in parts.netloc:
        raise ValueError("allowed: http:// or https:// with a host and perhaps a port, without user, path or query")
    return f"{parts.scheme}://{parts.netloc}"


def parse_proxy(given: object) -> ProxyUrl:
    """A proxy's http(s) address with or without a user; ValueError if it is not one."""
    if not isinstance(given, ProxyUrl) and _split(given) is None:
        raise ValueError(
            "allowed: http:// or https:// with a host and perhaps a user and a port, without path or query"
        )
    return given if isinstance(given, ProxyUrl) else ProxyUrl(str(given))


def _split(given: object) -> SplitResult | None:
    """None for what is no address."""
    try:
        parts = urlsplit(given) if isinstance(given, str) and _HTTP_URL.fullmatch(given) else None
        return parts if parts is None or parts.port != 0 else None
    except ValueError:  # a port above 65535, or brackets without an IPv6 address
        return None


def is_loopback(url: str) -> bool:
    """Return whether the address leads to this machine itself."""
    return urlsplit(url).hostname == "localhost" or _ip_address(url).is_loopback


def is_link_local(url: str) -> bool:
    """Return whether the address leads to this machine's own network only, as those of metadata services do."""
    return _ip_address(url).is_link_local


def _ip_address(url: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return ipaddress.IPv4Address(0)  # a name, which is neither loopback nor link-local


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a test of whether a text matches the pattern of RE2 as a whole, in time proportional to its length.

    ValueError quotes nothing of the pattern. With `re`, one unlucky name would hold the interpreter for days.
    """
    import re2  # noqa: PLC0415 - most configs have no pattern

    if re.search(r"\{,[0-9]+\}", pattern):  # for RE2, a text like any other
        raise ValueError("RE2 has no {,n}; write {0,n}")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = 2**20  # bytes: in the worst case, a name of 1 KB then takes milliseconds
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode(errors="replace").partition(": ")[0]) from None
    return lambda text: compiled.fullmatch(text.encode()) is not None  # for bytes it converts no offsets


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The inputs of validation besides the file: the folder of relative paths, and the environment."""

    folder: Path
    environ: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, info: ValidationInfo) -> Surroundings:
        """Those of this validation; without a config file there is the working folder and no environment."""
        return info.context if isinstance(info.context, Surroundings) else cls(Path(), {})


def _text(value: str) -> str:
    if unusable(value):
        raise ValueError("allowed: a text without control characters, not empty")
    return value


def _seconds(unit: str) -> BeforeValidator:
    """Parse a duration, and say what a badly written one means. A bare number has this unit; an empty one has none."""

    def validate(value: object) -> float:
        try:
            return value if isinstance(value, int | float) else parse_duration(str(value))
        except ValueError:
            match = _NUMBER_AND_UNIT.fullmatch(str(value).lower())
            seconds = float(match[1]) * _UNIT_SECONDS.get((match[2] or unit)[:1], 0) if match else 0.0
            hint = mean(format_duration(seconds) if 0 < seconds <= MAX_DURATION and seconds.is_integer() else "")
            raise ValueError(f"{hint}allowed: a duration up to 3650d such as 30s, 5m, 1h30m or 30d") from None

    return BeforeValidator(validate)


def _regex(text: str) -> str:
    try:
        compile_pattern(text)
    except ValueError as error:
        allowed = "RE2's syntax, without look-around and back-references, such as train-.* or (?i:test)-[0-9]+"
        raise ValueError(f"which is not a usable regular expression ({error}); allowed: {allowed}") from None
    if found := re.findall(r"(?<!\\)(?:\\\\)*(\\[wWdDsSbB])", text):
        facts = fields(pattern=show(text), found=" ".join(found))
        log.warning("pattern matches ASCII characters only; job names may have others", extra=facts)
    return text


def _secret(value: object, info: ValidationInfo) -> Secret:
    """Take a secret. A tuple is the path of its file, and the text that was given as well."""
    if isinstance(value, Secret):
        return value
    if isinstance(value, tuple):
        path, text = value
        if text is not None:
            raise ValueError(f"found both {info.field_name} and {info.field_name}_file; allowed: one of them")
        try:
            return Secret.from_file(Surroundings.of(info).folder / str(path))
        except (AccessDenied, ValueError) as error:
            # The path stays out of the message: who puts the secret itself here must not find it in a log.
            found = f"found a file that cannot be used ({str(error).rpartition(' cannot be used: ')[2]})"
            raise ValueError(f"{found}; allowed: a readable file of one line") from None
    if reason := unusable_secret(value) if isinstance(value, str) else f"it is {show(value)}":
        raise ValueError(f"found <secret>, which cannot be used ({reason}); allowed: a text of one line, not empty")
    return Secret(str(value), source="environment" if isinstance(value, EnvironmentText) else "config file")


def _authorities(value: Path, info: ValidationInfo) -> Path:
    path = Surroundings.of(info).folder / value
    try:
        read_regular_file(path, 10_000_000)  # bytes
        ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a path"
        raise ValueError(f"allowed: a readable file of PEM certificates ({reason})") from None
    return path


def _place(value: Path, info: ValidationInfo) -> Path:
    path = Surroundings.of(info).folder / value
    # The file is replaced whole, so its folder is what matters.
    if not str(value).isprintable() or os.path.isdir(path) or not os.access(path.parent, os.W_OK | os.X_OK):  # noqa: PTH112 - Path's raises
        raise ValueError("allowed: a file in a folder that exists and is writable")
    return path


def _all_or_list(value: object, handler: Handler) -> object:
    if value == "all":
        return value
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("allowed: all, or a list of at least one id")
    return tuple(dict.fromkeys(handler(value)))


Text: TypeAlias = Annotated[str, AfterValidator(_text)]
Name: TypeAlias = Annotated[str, Field(max_length=64), AfterValidator(_text)]
Region: TypeAlias = Annotated[str, Field(pattern="^[a-z][a-z0-9-]{0,61}[a-z0-9]$")]
Flag: TypeAlias = bool
CountFrom0: TypeAlias = Annotated[int, Field(ge=0, le=1_000_000_000)]
CountFrom1: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000_000)]
Rate: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Duration: TypeAlias = Annotated[float, _seconds("s"), Field(gt=0), PlainSerializer(format_duration)]
"""Seconds above 0."""
LongDuration: TypeAlias = Annotated[float, _seconds("d"), Field(gt=0), PlainSerializer(format_duration)]
"""Seconds above 0, usually days."""
DurationOrZero: TypeAlias = Annotated[float, _seconds(""), Field(ge=0), PlainSerializer(format_duration)]
SecretText: TypeAlias = Annotated[Secret, PlainValidator(_secret), PlainSerializer(str)]
"""A key `x` that may also be written as `x_file`."""
Endpoint: TypeAlias = Annotated[str, AfterValidator(parse_endpoint)]
"""`scheme://host[:port]`, without a slash at the end."""
Proxy: TypeAlias = Annotated[ProxyUrl, PlainValidator(parse_proxy), PlainSerializer(str)]
"""May hold a password, so it is a secret that shows as the address without its user."""
CaFile: TypeAlias = Annotated[Path, AfterValidator(_authorities), PlainSerializer(str)]
WritableFile: TypeAlias = Annotated[Path, AfterValidator(_place), PlainSerializer(str)]
"""A file to be written, which need not exist."""
Regex: TypeAlias = Annotated[str, AfterValidator(_text), AfterValidator(_regex)]
"""To be matched whole, as Prometheus does: `compile_pattern(pattern)(text)`."""
Glob: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_:*?!\[\]-]+$")]
"""A pattern of `fnmatch` for family names."""
if TYPE_CHECKING:
    AllOrList: TypeAlias = Literal["all"] | tuple[str, ...]
else:  # pydantic would name the members of a union in the place of an error
    AllOrList = Annotated[tuple[Text, ...], WrapValidator(_all_or_list), PlainSerializer(lambda value: value)]
