"""Decodes the body of a response into its struct: strictly if it fits, otherwise field by field.

    body ──msgspec, strict──► struct
      └──does not fit──► plain JSON values ──field by field──► struct; what does not fit is absent and counted

A struct gives every field a default and allows null. Numbers may come as text. The second way is ten times slower and
accepts what clouds sometimes send: NaN, half a surrogate pair, a bare number for an id, an object instead of a text. It
holds every value of the response in memory, so it has its own limit (BodyLimits.tolerated).
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import inspect

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.transport.body import decode_json, values_of
from trainfleet_exporter.transport.calls import NOT_JSON, USUAL
from trainfleet_exporter.transport.json_fields import as_number, unusable

T = TypeVar("T")
SHORT_FIELD = 4096
"""The most bytes of a field of a good response that a dialect gets: its code and its message are shorter."""
_DECODED_TWICE = 100_000
"""Values of an answer up to which it is decoded for its short fields alone where those cannot be cut out."""
_JSON_TYPES: Mapping[type[inspect.Type], Any] = {
    inspect.StrType: str,
    inspect.FloatType: int | float,
    inspect.IntType: int,
    inspect.BoolType: bool,
    **dict.fromkeys((inspect.StructType, inspect.DictType), dict),
    inspect.ListType: list,
}
_COMPOUND = (inspect.StructType, inspect.ListType, inspect.DictType, inspect.BoolType)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_value = msgspec.json.Decoder().decode


class _Absent:
    """The class of the value that replaces an unfit value."""


_ABSENT: Final = _Absent()


class NotJson(ValueError):
    """The body is not JSON."""


def decode(body: bytes, into: type[T], *, tolerated: int = USUAL.tolerated) -> T:
    """The object that a body holds, as `into`: a msgspec.Struct, or dict for plain values.

    Fields that were given and do not fit are counted (json_fields.UNUSABLE), except texts; they have their default.
    An item of a list or map that does not fit is null where the type allows that: a reader counts it, and knows that
    what it adds up is incomplete. Else it is left out, and counted if it is an object of a list. Raises NotJson,
    or BadAnswer where the body is no object, or does not fit and has more than `tolerated` values.
    """
    if into is not dict:
        if not _is_utf8(body):  # msgspec does not look at what is not read
            raise NotJson
        try:
            return cast("T", _decoder(cast("Hashable", into))(body))
        except (ValueError, RecursionError):
            pass
        if values_of(body) > tolerated:
            raise BadAnswer(f"the answer is over the limit of {tolerated:,} values that can be read field by field")
    found = decode_json(body)
    if found is NOT_JSON:
        raise NotJson
    if not isinstance(found, dict):
        raise BadAnswer("the answer is JSON but not an object")
    if into is dict:
        return cast("T", found)
    return cast("T", _fit(found, inspect.type_info(into)))


def decode_value(value: msgspec.Raw | bytes | str, into: type[T]) -> T | None:
    """Decode one value of a response, such as a row that was kept undecoded; None if it does not fit at all."""
    try:
        return cast("T", _decoder(cast("Hashable", into))(value))
    except (ValueError, RecursionError):
        found = decode_json(value.encode("utf-8", "replace") if isinstance(value, str) else bytes(value))
    fitted = None if found is NOT_JSON else _fit(found, inspect.type_info(into))
    return None if isinstance(fitted, _Absent) else cast("T | None", fitted)


def decode_short_fields(body: bytes, limit: int = SHORT_FIELD) -> Any:
    """Return the short fields of a response, which report its success: its JSON value without fields of more than
    `limit` bytes; NOT_JSON as in decode_json.

    Empty for a long body that is not strictly JSON: `decode` then checks whether it is JSON at all.
    """
    try:
        return {name: _value(raw) for name, raw in _fields(body).items() if len(memoryview(raw)) <= limit}
    except (ValueError, RecursionError):
        pass
    return decode_json(body) if values_of(body) <= _DECODED_TWICE else {}


def _is_utf8(body: bytes) -> bool:
    try:
        return body.isascii() or bool(body.decode())
    except UnicodeDecodeError:
        return False


@cache
def _decoder(into: Hashable) -> Callable[[bytes | str | msgspec.Raw], Any]:
    return msgspec.json.Decoder(into, strict=False).decode


def _fit(given: Any, kind: inspect.Type) -> Any:
    """The value as this type, or _ABSENT."""
    match kind:
        case inspect.UnionType():
            return _fit_any(given, kind)
        case inspect.StructType(array_like=True):
            return _fit_array(given, kind.cls)
        case inspect.StructType():
            return _fit_struct(given, kind.cls) if isinstance(given, dict) else _ABSENT
        case inspect.ListType():
            return _fit_list(given, kind.item_type)
        case inspect.DictType():
            return _fit_dict(given, kind.value_type)
        case inspect.StrType():
            return _text(given)
        case inspect.FloatType():
            return _number(given)
        case inspect.IntType():  # an id, of which no digit may be lost
            return given if _is_of(given, kind) else _ABSENT
        case inspect.BoolType():
            return _truth(given)
        case inspect.AnyType() | inspect.CustomType(cls=builtins.object):
            return given
        case inspect.RawType():
            return _raw(given)
    raise TypeError(f"a payload cannot have fields of type {kind}")


def _fit_any(given: Any, kind: inspect.UnionType) -> Any:
    if given is None:
        return None if kind.includes_none else _ABSENT
    kinds = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    if len(kinds) > 1:  # a text or a number, an object or a text: the JSON type decides
        kinds = [each for each in kinds if _is_of(given, each)]
        if not kinds:
            unusable(given, "malformed")
    return _fit(given, kinds[0]) if kinds else _ABSENT


def _is_of(given: Any, kind: inspect.Type) -> bool:
    is_truth = isinstance(given, bool)  # which is an int, too
    return isinstance(given, _JSON_TYPES.get(type(kind), ())) and is_truth is isinstance(kind, inspect.BoolType)


def _fit_struct(given: Mapping[str, Any], cls: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        return msgspec.convert(given, cls, strict=False)
    except (ValueError, RecursionError):
        pass
    found = {}
    for name, encoded, kind in _fields_of(cls):
        if encoded in given:
            value = _fit(given[encoded], kind)
            if value is not _ABSENT:
                found[name] = value
            elif isinstance(kind, inspect.UnionType) and len(kind.types) == 2 and isinstance(kind.types[0], _COMPOUND):
                unusable(given[encoded], "malformed")
    return cls(**found)


@cache
def _fields_of(cls: type[msgspec.Struct]) -> tuple[tuple[str, str, inspect.Type], ...]:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return tuple((field.name, field.encode_name, field.type) for field in info.fields)


def _fit_array(given: Any, cls: type[msgspec.Struct]) -> Any:
    """A struct that is an array in JSON, which must have all of its items."""
    names = [name for _, name, _ in _fields_of(cls)]
    if not isinstance(given, list) or len(given) != len(names):
        return _ABSENT
    return _fit_struct(dict(zip(names, given, strict=True)), cls)


def _fit_list(given: Any, kind: inspect.Type) -> Any:
    if not isinstance(given, list):
        return _ABSENT
    found = []
    for item in given:
        fitted = _fit_item(item, kind)
        if fitted is not _ABSENT:
            found.append(fitted)
        elif isinstance(kind, inspect.StructType):  # numbers count themselves, and texts do not count
            unusable(item, "malformed")
    return found


def _fit_dict(given: Any, kind: inspect.Type) -> Any:
    if not isinstance(given, dict):
        return _ABSENT
    items = ((key, _fit_item(item, kind)) for key, item in given.items())
    return {key: item for key, item in items if item is not _ABSENT}


def _fit_item(given: Any, kind: inspect.Type) -> Any:
    """An item of a list or map: what does not fit is null where the type allows that, so that it keeps its place."""
    found = _fit(given, kind)
    return None if found is _ABSENT and isinstance(kind, inspect.UnionType) and kind.includes_none else found


def _text(given: Any) -> Any:
    """A text; numbers are taken as their digits, because ids are sometimes sent bare."""
    if isinstance(given, str):
        return given
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else _ABSENT


def _raw(given: Any) -> Any:
    """The JSON again, NaN and numbers of more than 64 bits included."""
    try:
        text = msgspec.json.encode(given)
        if b"null" not in text:  # NaN would become that
            return msgspec.Raw(text)
    except (ValueError, OverflowError, RecursionError):
        pass
    try:
        return msgspec.Raw(json.dumps(given).encode())  # three times slower
    except RecursionError:
        return _ABSENT


def _number(given: Any) -> Any:
    """Return a number, which may be infinite or NaN: its user decides which values are credible."""
    value = as_number(given)
    if value is None:
        unusable(given, "malformed")
        return _ABSENT
    return value


def _truth(given: Any) -> Any:
    """A boolean as msgspec decodes it when it is not strict."""
    words = {"true": True, "1": True, "false": False, "0": False}
    return words.get(str(given).lower(), _ABSENT) if isinstance(given, str | int) else _ABSENT
