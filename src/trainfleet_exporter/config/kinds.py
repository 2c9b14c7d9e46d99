"""The vocabulary of annotated types that the config's models are made of.

A kind takes the text of a scalar, or a ready Python value of code that builds a config itself. Where pydantic's own
message would not help, it raises ValueError with what is allowed. The loader adds what was found.
"""

from __future__ import annotations

import math
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from trainfleet_exporter.config.patterns import UnquotedReason, compile_pattern
from trainfleet_exporter.config.plain import show
from trainfleet_exporter.config.secrets import ProxyUrl, Secret, unusable, unusable_secret
from trainfleet_exporter.config.source import PLACEHOLDER, EnvironmentText
from trainfleet_exporter.config.urls import parse_endpoint, parse_proxy
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process.files import read_regular_file

_REGION = re.compile("[a-z][a-z0-9-]{0,61}[a-z0-9]")
_ZONE = re.compile("(?:([a-z]+-.+)-|([a-z]+-.+-[0-9]+))[a-z]")
"""`cn-hangzhou-b` and `cn-north-4a`: a region and a single letter."""
_NUMBER_AND_UNIT = re.compile(
    "([0-9]{1,8})(?:(\\.[0-9]{1,3}))? ?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)?", re.ASCII
)
_UNIT_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
# Each unit at most once, the largest first. Nine digits hold 3650d in seconds.
_DURATION = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _UNIT_SECONDS))
MAX_DURATION = 3650 * 86400
"""The longest duration in seconds, ten years: beyond it lies a typing error, and in the end an overflow."""
_LARGEST_PEM = 10_000_000


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `1h30m`; ValueError if it is not one, or longer than `MAX_DURATION`."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError("not a duration")
    seconds = sum(
        int(number) * size for number, size in zip(match.groups(), _UNIT_SECONDS.values(), strict=True) if number
    )
    if seconds > MAX_DURATION:
        raise ValueError("too long a duration")
    return float(seconds)


def format_duration(seconds: float) -> str:
    """The shortest text of whole seconds from 0 to `MAX_DURATION` that `parse_duration` reads back; else ValueError."""
    if not 0 <= seconds <= MAX_DURATION or seconds != int(seconds):
        raise ValueError("not whole seconds within the longest duration")
    rest = int(seconds)
    text = ""
    for unit, size in _UNIT_SECONDS.items():
        number, rest = divmod(rest, size)
        text += f"{number}{unit}" if number else ""
    return text or "0s"


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


def _region(text: str) -> str:
    if _REGION.fullmatch(text):
        return text
    meant = text.lower().replace("_", "-")
    # Every region's name has a hyphen: one without it would be suggested in vain.
    hint = f'did you mean "{meant}"? ' if "-" in meant and _REGION.fullmatch(meant) else ""
    raise ValueError(f"{hint}allowed: a region ID of lower-case letters, digits and hyphens, such as cn-hangzhou")


def region(foreign: str, cloud: str, example: str) -> AfterValidator:
    """Goes with `Region`: refuses a zone, and regions that only another cloud has, which `foreign` matches."""
    of_another = re.compile(foreign)

    def validate(text: str) -> str:
        if of_another.fullmatch(text):
            raise ValueError(f"which is a region of {cloud}; allowed: a region of this cloud, such as {example}")
        if zone := _ZONE.fullmatch(text):
            hint = zone[1] or zone[2]
            raise ValueError(f'which is a zone; did you mean "{hint}"? allowed: a region, such as {example}')
        return text

    return AfterValidator(validate)


def _flag(value: object) -> bool:
    # The words of YAML 1.1. Not pydantic's 1, t and y, which may be meant for another key.
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    flag = words.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise ValueError("allowed: true or false")
    return flag


def _decimal(value: object) -> object:
    # No leading zeros and no underscores: YAML 1.1 and a person would disagree on what 010 is.
    if isinstance(value, str) and not re.fullmatch("-?(0|[1-9][0-9]{0,8})", value, re.ASCII):
        raise ValueError("allowed: a whole number")
    return value


def _seconds(unit: str, *, smallest: str = "above 0") -> BeforeValidator:
    """Parse a duration, and say what a badly written one means. A bare number has this unit; an empty one has none."""
    allowed = f"allowed: a duration {smallest} and up to 3650d, such as 30s, 5m, 1h30m or 30d"

    def validate(value: object) -> object:
        try:
            seconds = parse_duration(value) if isinstance(value, str) else value
        except ValueError:
            seconds = None
        if seconds is None or (seconds == 0 and smallest == "above 0"):
            raise ValueError(_meant(str(value), unit) + allowed)
        return seconds

    return BeforeValidator(validate)


def _meant(text: str, unit: str) -> str:
    match = _NUMBER_AND_UNIT.fullmatch(text.lower())
    if not match or not (short := (match[3] or unit)[:1]):
        return ""
    try:
        plain = parse_duration(f"{match[1]}{short}")
        # Tenths of a unit in the next smaller ones.
        seconds = plain + parse_duration(f"1{short}") * float(f"0{match[2] or ''}")
        meant = format_duration(seconds) if seconds != plain else f"{match[1]}{short}"
    except ValueError:
        return ""
    return f'did you mean "{meant}"? ' if seconds else ""


def _regex(text: str) -> str:
    _text(text)
    try:
        compile_pattern(text)
    except ValueError as error:
        # What quotes the pattern stands in parentheses: it is hidden with a value that may be a secret.
        reason = f": {error}" if isinstance(error, UnquotedReason) else f" ({error})"
        allowed = "a pattern for RE2 that matches the whole name, such as train-.* or (?i:test)-[0-9]+"
        raise ValueError(f"which is not a usable regular expression{reason}; allowed: {allowed}") from None
    return text


def _glob(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_:*?!\[\]-]+", text):
        raise ValueError("allowed: a metric family name in which * ? [...] may stand for characters")
    return text


def _secret(value: object, info: ValidationInfo) -> Secret:
    """Take a secret. A tuple is the path of its file, and the text that was given as well."""
    key = info.field_name
    if isinstance(value, Secret):
        return value
    if value is None:
        raise ValueError(f"required, but missing; allowed: a secret here, or the path of its file as {key}_file")
    if isinstance(value, tuple):
        path, text = value
        if text is not None:
            raise ValueError(f"found both {key} and {key}_file; allowed: one of them")
        return _secret_of_file(path, Surroundings.of(info).folder)
    reason = unusable_secret(value) if isinstance(value, str) else f"it is {show(value)}"
    if reason:
        raise ValueError(f"found <secret>, which cannot be used ({reason}); allowed: a text of one line, not empty")
    return Secret(str(value), source="environment" if isinstance(value, EnvironmentText) else "config file")


def _secret_of_file(path: object, folder: Path) -> Secret:
    # The path stays out of the message: who puts the secret itself here must not find it in a log.
    try:
        secret = Secret.from_file(folder / (path if isinstance(path, str) else "\0"))
    except (AccessDenied, ValueError) as error:
        reason = str(error).rpartition(" cannot be used: ")[2] if isinstance(error, AccessDenied) else "it is no path"
        raise ValueError(f"found a file that cannot be used ({reason}); allowed: a readable file of one line") from None
    if placeholder := PLACEHOLDER.search(secret.reveal()):
        raise ValueError(f'found the placeholder "{placeholder[0]}"; allowed: your own value in its place')
    return secret


def _path(check: Callable[[Path], None], allowed: str) -> PlainValidator:
    """Take a path, which begins at the config's folder. `check` raises OSError or ValueError for one of no use."""

    def validate(value: object, info: ValidationInfo) -> Path:
        if isinstance(value, Path):
            return value
        path = Surroundings.of(info).folder / str(value)
        try:
            if not isinstance(value, str) or not value.isprintable():
                raise ValueError
            check(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a path"
            raise ValueError(f"which cannot be used ({reason}); allowed: {allowed}") from None
        return path

    return PlainValidator(validate)


def _authorities(path: Path) -> None:
    read_regular_file(path, _LARGEST_PEM)
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise OSError(None, "it contains no PEM certificate") from None


def _place(path: Path) -> None:
    # The file is replaced whole, so its folder is what matters.
    if path.is_dir():
        raise OSError(None, "it is a folder")
    if not path.parent.is_dir():
        raise OSError(None, "its folder does not exist")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OSError(None, "its folder is not writable")


def _all_or_list(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    if value == "all":
        return value
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("allowed: all, or a list of at least one id")
    if repeated := next((item for item in value if value.count(item) > 1), None):
        raise ValueError(f"found {show(repeated)} again; allowed: each once")
    return handler(value)


def _show_seconds(seconds: float) -> str:
    return format_duration(seconds) if math.isfinite(seconds) and seconds == int(seconds) else f"{seconds}s"


Text: TypeAlias = Annotated[str, AfterValidator(_text)]
Name: TypeAlias = Annotated[str, Field(max_length=64), AfterValidator(_text)]
Region: TypeAlias = Annotated[str, AfterValidator(_region)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(_flag)]
CountFrom0: TypeAlias = Annotated[int, Field(ge=0), BeforeValidator(_decimal)]
CountFrom1: TypeAlias = Annotated[int, Field(ge=1), BeforeValidator(_decimal)]
Rate: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Duration: TypeAlias = Annotated[float, _seconds("s"), PlainSerializer(_show_seconds)]
"""Seconds above 0."""
LongDuration: TypeAlias = Annotated[float, _seconds("d"), PlainSerializer(_show_seconds)]
"""Seconds above 0, usually days."""
DurationOrZero: TypeAlias = Annotated[float, _seconds("", smallest="from 0s"), PlainSerializer(_show_seconds)]
SecretText: TypeAlias = Annotated[Secret, PlainValidator(_secret), PlainSerializer(str)]
"""A key `x` that may also be written as `x_file`."""
Endpoint: TypeAlias = Annotated[str, AfterValidator(parse_endpoint)]
"""`scheme://host[:port]`, without a slash at the end."""
Proxy: TypeAlias = Annotated[ProxyUrl, PlainValidator(parse_proxy), PlainSerializer(str)]
"""May hold a password, so it is a secret that shows as the address without its user."""
CaFile: TypeAlias = Annotated[Path, _path(_authorities, "a readable file of PEM certificates"), PlainSerializer(str)]
WritableFile: TypeAlias = Annotated[Path, _path(_place, "a file in a writable folder"), PlainSerializer(str)]
"""A file to be written, which need not exist."""
MonthlyCalls: TypeAlias = Annotated[
    dict[str, CountFrom1], BeforeValidator(lambda given: {} if given is None else given)
]
"""A number of calls for each of some APIs, which are checked later; null means none."""
Regex: TypeAlias = Annotated[str, AfterValidator(_regex)]
"""To be matched whole, as Prometheus does: `compile_pattern(pattern)(text)`."""
Glob: TypeAlias = Annotated[str, AfterValidator(_glob)]
"""A pattern of `fnmatch` for family names."""
if TYPE_CHECKING:
    AllOrList: TypeAlias = Literal["all"] | tuple[str, ...]
else:  # pydantic would name the members of a union in the place of an error
    AllOrList = Annotated[tuple[Text, ...], WrapValidator(_all_or_list), PlainSerializer(lambda value: value)]
