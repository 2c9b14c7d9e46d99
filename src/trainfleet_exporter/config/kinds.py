"""The vocabulary of annotated types that the config's models are made of.

Each kind takes a scalar of the file (always its text, the schema decides what it means) or a ready Python value, which
code that builds a config itself hands in. A refusal carries its rule and never the value of a secret.
"""

from __future__ import annotations

import math
import os
import re
import ssl
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    GetCoreSchemaHandler,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from trainfleet_exporter.config.durations import format_duration, parse_duration
from trainfleet_exporter.config.plain import NOT_SHOWN
from trainfleet_exporter.config.scalars import Surroundings, may_hint, near_word, refuse, show, text_of
from trainfleet_exporter.config.secrets import ProxyUrl, Secret, unusable
from trainfleet_exporter.config.tree import Scalar, shape
from trainfleet_exporter.config.urls import parse_endpoint, parse_proxy
from trainfleet_exporter.config.wording import PLACEHOLDER, Rule
from trainfleet_exporter.errors import AccessDenied

_REGION_PATTERN = "[a-z][a-z0-9-]{0,61}[a-z0-9]"
_ZONE = re.compile("(?:([a-z]+-.+)-|([a-z]+-.+-[0-9]+))[a-z]")
"""`cn-hangzhou-b` and `cn-north-4a`: a region and a single letter."""

_NUMBER_AND_UNIT = re.compile(
    "([0-9]{1,8})(?:(\\.[0-9]{1,3}))? ?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)?", re.ASCII
)


@dataclass(frozen=True, slots=True, repr=False)
class SecretFile:
    """A secret whose key was written as `x_file`. `twice` if `x` was written as well."""

    key: str
    path: object
    twice: bool


def _kind(
    parse: Callable[[str], Any],
    rule: Rule,
    *ready: type,
    quantity: bool = False,
    meant: Callable[[str], str] = lambda text: "",
    **facts: object,
) -> PlainValidator:
    """A validator of scalars by `parse`, which raises ValueError; values of the `ready` types pass as they are.

    `meant` returns what a refused text probably means, or an empty text.
    """

    def validate(value: object) -> Any:
        if ready and isinstance(value, ready):
            return value
        text = text_of(value, rule, **facts)
        try:
            return parse(text)
        except ValueError as error:
            found = show(value, quantity=quantity)
            # A reason quotes as well.
            reason = "the reason is hidden too" if found.startswith(NOT_SHOWN) else error
            hint = meant(text) if may_hint(value, quantity=quantity) else ""
            refuse(rule, hint, **{**facts, "found": found, "reason": reason})

    return PlainValidator(validate)


def _matching(pattern: str) -> Callable[[str], str]:
    form = re.compile(pattern, re.DOTALL)

    def parse(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError("does not match")
        return text

    return parse


def region(foreign: str, cloud: str, example: str) -> WrapValidator:
    """Goes with `Region`: refuses a zone, and regions that only another cloud has, which `foreign` matches."""
    of_another = re.compile(foreign)

    def validate(value: object, handler: ValidatorFunctionWrapHandler) -> str:
        text: str = handler(value)
        if placeholder := re.fullmatch("your-region(-id)?", text):
            refuse(Rule.PLACEHOLDER, found=placeholder[0])
        if of_another.fullmatch(text):
            refuse(Rule.REGION_OF_ANOTHER, found=show(value), cloud=cloud, example=example)
        if zone := _ZONE.fullmatch(text):
            hint = (zone[1] or zone[2]) if may_hint(value) else ""
            refuse(Rule.ZONE, hint, found=show(value), example=example)
        return text

    return WrapValidator(validate)


def _lower_case(text: str) -> str:
    meant = text.lower().replace("_", "-")
    # Every region's name has a hyphen: one without it would be suggested in vain.
    return meant if "-" in meant and re.fullmatch(_REGION_PATTERN, meant) else ""


def _project_id(text: str) -> str:
    # The API's documentation allows any 64 letters, digits and hyphens. All IDs in use are 32 hexadecimal digits: with
    # more or less of them, or with hyphens in between, it is none. A project's name begins with its region.
    hexadecimal = re.fullmatch("[0-9A-Fa-f-]+", text) and not re.fullmatch("[0-9A-Fa-f]{32}", text)
    named = re.fullmatch("[a-z]{2}-[a-z]+-[0-9]+.*|[^0-9]*", text)
    if hexadecimal or named or not re.fullmatch("[A-Za-z0-9-]{1,64}", text):
        raise ValueError("no project ID")
    return text


def _plain_text(text: str) -> str:
    if unusable(text):
        raise ValueError(unusable(text))
    return text


def _name(text: str) -> str:
    if len(text) > 64:
        raise ValueError("too long")
    return _plain_text(text)


def _flag(text: str) -> bool:
    # What YAML 1.1 takes as true and false; the words keep the meaning that operators know from other files.
    word = text.lower()
    if word in {"true", "yes", "on"}:
        return True
    if word in {"false", "no", "off"}:
        return False
    raise ValueError("neither true nor false")


def _count(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # No leading zeros and no underscores: YAML 1.1 and a person would disagree on what 010 is.
        if not re.fullmatch("0|[1-9][0-9]{0,8}", text, re.ASCII) or int(text) < minimum:
            raise ValueError("no count")
        return int(text)

    return parse


def _rate(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, re.ASCII) or not float(text) > 0:
        raise ValueError("no rate")
    return float(text)


def _above_zero(text: str) -> float:
    seconds = parse_duration(text)
    if seconds == 0:
        raise ValueError("zero")
    return seconds


def _duration_meant(unit: str) -> Callable[[str], str]:
    """Find what a badly written duration means. A bare number has this unit; an empty one allows none."""

    def meant(text: str) -> str:
        match = _NUMBER_AND_UNIT.fullmatch(text.lower())
        if not match or not (short := (match[3] or unit)[:1]):
            return ""
        try:
            plain = parse_duration(f"{match[1]}{short}")
            # Tenths of a unit in the next smaller ones.
            seconds = plain + parse_duration(f"1{short}") * float(f"0{match[2] or ''}")
            if seconds == plain:
                return f"{match[1]}{short}" if plain else ""
            return format_duration(seconds)
        except ValueError:
            return ""

    return meant


def _regex(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # re warns of what a later Python may read differently; it compiles today
            re.compile(_plain_text(text))
            re.compile(f"(?:{text})")  # lists of them are joined, which flags for the whole expression do not survive
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error) or "nested too deeply") from None
    return text


def _secret(value: object, info: ValidationInfo) -> Secret:
    if isinstance(value, Secret):
        return value
    if isinstance(value, SecretFile):
        return _secret_of_file(value, Surroundings.of(info).folder)
    if value is None:
        refuse(Rule.HIDDEN_MISSING, key=info.field_name)
    if not isinstance(value, Scalar | str):
        refuse(Rule.HIDDEN)
    text = text_of(value, Rule.HIDDEN)
    if unusable(text):
        refuse(Rule.HIDDEN)
    from_environment = isinstance(value, Scalar) and value.expansion.used
    return Secret(text, source="environment" if from_environment else "config file")


def _secret_of_file(given: SecretFile, folder: Path) -> Secret:
    if given.twice:
        refuse(Rule.TEXT_AND_FILE, key=given.key)
    if not isinstance(given.path, Scalar | str):
        refuse(Rule.FILE_OF_TEXT, reason=f"it is {shape(given.path)}")
    path = text_of(given.path, Rule.FILE_OF_TEXT)
    try:
        secret = Secret.from_file(folder / path)
        text = secret.reveal()
    except AccessDenied as error:
        # The path stays out of the message: who puts the secret itself here must not find it in a log.
        refuse(Rule.FILE_OF_TEXT, reason=error.message.rpartition(": ")[2])
    except ValueError:
        refuse(Rule.FILE_OF_TEXT, reason="it is not a path")
    if placeholder := PLACEHOLDER.search(text):
        refuse(Rule.PLACEHOLDER, found=placeholder[0])
    return secret


def _ca_file(value: object, info: ValidationInfo) -> Path:
    if isinstance(value, Path):
        return value
    path = Surroundings.of(info).folder / text_of(value, Rule.CA_FILE, reason="it is not a path")
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        refuse(Rule.CA_FILE, found=show(value), reason="it contains no PEM certificate")
    except (OSError, ValueError) as error:
        refuse(Rule.CA_FILE, found=show(value), reason=getattr(error, "strerror", None) or "it is not a path")
    return path


def _writable_file(value: object, info: ValidationInfo) -> Path:
    if isinstance(value, Path):
        return value
    path = Surroundings.of(info).folder / text_of(value, Rule.WRITABLE_FILE, reason="it is not a path")
    try:
        reason = _unusable_place(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a path"
    if reason:
        refuse(Rule.WRITABLE_FILE, found=show(value), reason=reason)
    return path


def _unusable_place(path: Path) -> str:
    """Why a file cannot be kept there; empty if it can. The file is replaced whole, so its folder is what matters."""
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return "its folder does not exist"
    return "" if os.access(path.parent, os.W_OK | os.X_OK) else "its folder is not writable"


def _calls_by_api(value: object) -> object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        refuse(Rule.MONTHLY_CALLS, found=shape(value) if isinstance(value, list) else show(value))
    return value


def _show_seconds(seconds: float) -> str:
    return format_duration(seconds) if math.isfinite(seconds) and seconds == int(seconds) else f"{seconds}s"


# A Rule next to a validator has the wording for a required key that is missing.
Text: TypeAlias = Annotated[str, _kind(_plain_text, Rule.TEXT), Rule.TEXT]
Name: TypeAlias = Annotated[str, _kind(_name, Rule.NAME), Rule.NAME]
Region: TypeAlias = Annotated[str, _kind(_matching(_REGION_PATTERN), Rule.REGION, meant=_lower_case), Rule.REGION]
ProjectId: TypeAlias = Annotated[str, _kind(_project_id, Rule.PROJECT_ID), Rule.PROJECT_ID]
Flag: TypeAlias = Annotated[bool, _kind(_flag, Rule.FLAG, bool, quantity=True)]
CountFrom0: TypeAlias = Annotated[int, _kind(_count(0), Rule.COUNT_FROM_0, int, quantity=True)]
CountFrom1: TypeAlias = Annotated[int, _kind(_count(1), Rule.COUNT_FROM_1, int, quantity=True)]
Rate: TypeAlias = Annotated[float, _kind(_rate, Rule.RATE, int, float, quantity=True)]

Duration: TypeAlias = Annotated[
    float,
    _kind(_above_zero, Rule.DURATION, int, float, quantity=True, meant=_duration_meant("s")),
    PlainSerializer(_show_seconds),
]
"""Seconds above 0."""
LongDuration: TypeAlias = Annotated[
    float,
    _kind(_above_zero, Rule.DURATION, int, float, quantity=True, meant=_duration_meant("d")),
    PlainSerializer(_show_seconds),
]
"""Seconds above 0, usually days."""
DurationOrZero: TypeAlias = Annotated[
    float,
    _kind(parse_duration, Rule.DURATION_OR_ZERO, int, float, quantity=True, meant=_duration_meant("")),
    PlainSerializer(_show_seconds),
]

SecretText: TypeAlias = Annotated[Secret, PlainValidator(_secret), PlainSerializer(str), Rule.HIDDEN_MISSING]
"""A key `x` that may also be written as `x_file`."""
Endpoint: TypeAlias = Annotated[str, _kind(parse_endpoint, Rule.ENDPOINT)]
"""`scheme://host[:port]`, without a slash at the end."""
Proxy: TypeAlias = Annotated[
    ProxyUrl, _kind(lambda text: ProxyUrl(parse_proxy(text)), Rule.PROXY, ProxyUrl), PlainSerializer(str)
]
"""May hold a password, so it is a secret that shows as the address without its user."""
CaFile: TypeAlias = Annotated[Path, PlainValidator(_ca_file), PlainSerializer(str)]
WritableFile: TypeAlias = Annotated[Path, PlainValidator(_writable_file), PlainSerializer(str)]
"""A file to be written, which need not exist."""
MonthlyCalls: TypeAlias = Annotated[dict[str, CountFrom1], BeforeValidator(_calls_by_api)]
"""A number of calls for each of some APIs, which are checked later; null means none."""
Regex: TypeAlias = Annotated[str, _kind(_regex, Rule.REGEX, reason="it is not text")]
"""To be matched whole, as Prometheus does: `re.fullmatch(pattern, text)`."""
Glob: TypeAlias = Annotated[str, _kind(_matching(r"[A-Za-z0-9_:*?!\[\]-]+"), Rule.GLOB)]
"""A pattern of `fnmatch` for family names."""


def choice(words: tuple[str, ...]) -> PlainValidator:
    """One of these words."""
    choices = ", ".join(words)

    def validate(value: object) -> str:
        if value is None:
            raise PydanticCustomError("refused", "refused", {"message": Rule.CHOICE.missing(choices=choices)})
        text = text_of(value, Rule.CHOICE, choices=choices)
        if text not in words:
            refuse(Rule.CHOICE, near_word(value, words), found=show(value), choices=choices)
        return text

    return PlainValidator(validate)


class _AllOrList:
    """Allows the word `all` in place of a list with at least one text, each once."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def validate(value: object, items: core_schema.ValidatorFunctionWrapHandler) -> Any:
            if isinstance(value, list | tuple):
                if not value:
                    refuse(Rule.WORKSPACES, found="an empty list")
                return items(value)
            if text_of(value, Rule.WORKSPACES) != "all":
                refuse(Rule.WORKSPACES, found=show(value))
            return "all"

        return core_schema.no_info_wrap_validator_function(
            validate,
            handler.generate_schema(tuple[Text, ...]),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )


AllOrList: TypeAlias = Annotated[Literal["all"] | tuple[Text, ...], _AllOrList()]
