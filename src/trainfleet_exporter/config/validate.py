"""Validation of a part of a YAML file: pydantic's errors with their places, what was found and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from trainfleet_exporter.config.kinds import Surroundings
from trainfleet_exporter.config.plain import NOT_SHOWN, show, show_key, word_of
from trainfleet_exporter.config.removed import instead_of
from trainfleet_exporter.config.schema import Section, is_secret, meanings
from trainfleet_exporter.config.source import Loc, Source

SectionT = TypeVar("SectionT", bound=Section)
_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_HINT = re.compile('did you mean "[^"]*"[?] ')
_REASON = re.compile(r"^(which [^(]*) \(.*\);")
_WORDS = {
    "^(Input should be|String should have) ": "allowed: ",
    ", unable to .*": "",
    "a valid boolean": "true or false",
    "a valid dictionary": "a mapping",
    "a valid string": "a text",
    "a valid tuple": "a list",
}
"""Parts of pydantic's messages, in words for YAML."""


def validate(
    model: type[SectionT], data: object, source: Source, at: Loc = (), context: Surroundings | None = None
) -> SectionT | None:
    """Validate the part of a file at `at`, and add what is wrong with it to the faults of `source`.

    With faults, the section has its valid values only, for checks of values against each other; None if it has none.
    """
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        for loc, message in faults(model, error, source, at):
            source.fault(loc, message)
    return _valid_part(model, data, context) if isinstance(data, dict) else None


def _valid_part(model: type[SectionT], data: dict[str, Any], context: Surroundings | None) -> SectionT:
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind: Any = Annotated[field.annotation, *field.metadata, name]
        try:
            if name in data:
                values[name] = TypeAdapter(kind).validate_python(data[name], context=context)
        except ValidationError:
            inner = model_at(model, (name,))
            if inner is not model and isinstance(data[name], dict):
                values[name] = _valid_part(inner, data[name], context)
    return model.model_construct(**values)


def faults(model: type[Section], error: ValidationError, source: Source, at: Loc = ()) -> Iterator[tuple[Loc, str]]:
    """The places and messages of pydantic's error about the part of the file at `at`."""
    details = error.errors(include_url=False)
    meant: set[Loc] = set()
    for detail in details:
        if detail["type"] == "extra_forbidden":
            *place, key = detail["loc"]
            hint = _meant_in(model_at(model, place), str(key))
            meant |= {(*place, hint), (*place, hint.removesuffix("_file"))}
    for detail in details:
        loc: Loc = (*at, *detail["loc"])
        if loc and loc not in source.lines and (*loc[:-1], f"{loc[-1]}_file") in source.lines:
            loc = (*loc[:-1], f"{loc[-1]}_file")
        # A misspelt key is one fault, not two.
        if loc not in source.broken and (detail["type"] != "missing" or detail["loc"] not in meant):
            instead = instead_of(loc, str(detail["input"]))
            gone = loc[-1] if detail["type"] == "extra_forbidden" else detail["input"]
            removed = f'found "{gone}", which this version does not have; allowed: {instead}'
            yield loc, removed if instead else _message(model, detail, source, loc)


def unknown_key(key: str, allowed: Collection[str], hint: str = "", *, alone: bool = False) -> str:
    """The message for a key that is not allowed. `hint` is the key that was meant, if that is not the nearest one."""
    return f'unknown key "{show_key(key, alone=alone)}"; {_mean(hint or meant_key(key, allowed))}{_any_of(allowed)}'


def meant_key(key: str, allowed: Collection[str], other_names: Mapping[str, str] | None = None) -> str:
    """The allowed key that an unknown one probably means; empty if none is near.

    `other_names` are those that other clouds and tools give to allowed keys.
    """
    word = _HUMP.sub("_", word_of(key)).lower().replace("-", "_")
    name = word.removesuffix("_file")
    if other_names and name in other_names:
        return other_names[name] + word[len(name) :]
    return next(iter(difflib.get_close_matches(word, allowed, n=1)), "")


def near_word(word: str, words: Collection[str]) -> str:
    """The word that was probably meant; empty if none is near."""
    given = word.casefold()
    by_case = {each.casefold(): each for each in words}
    containing = [each for each in by_case if len(given) >= 3 and given in each]
    near = containing if len(containing) == 1 else difflib.get_close_matches(given, by_case, n=1)
    return by_case[near[0]] if near else ""


def found(value: object, source: Source, loc: Loc, *, quantity: bool = False) -> str:
    """What was found at `loc`, as `show`. A text of the environment shows as the file has it."""
    if loc in source.written:
        return f"{show(source.written[loc])} (from the environment)"
    return show(value, quantity=quantity)


def model_at(model: type[Section], loc: Collection[str | int]) -> type[Section]:
    """The model of the section at `loc`."""
    for step in loc:
        field = model.model_fields.get(str(step))
        for kind in (field.annotation, *get_args(field.annotation)) if field else ():
            if isinstance(kind, type) and issubclass(kind, Section):
                model = kind
    return model


def _message(model: type[Section], detail: ErrorDetails, source: Source, loc: Loc) -> str:
    kind, message, value = detail["type"], detail["msg"].removeprefix("Value error, "), detail["input"]
    *place, last = detail["loc"] or ("",)
    section, key = model_at(model, place), str(last)
    if kind == "extra_forbidden":
        if advice := _advice(key, section):
            return f'unknown key "{key}" here; {advice}; {_any_of(section.allowed_keys())}'
        return unknown_key(key, section.allowed_keys(), _meant_in(section, key), alone=loc in source.empty)
    meaning = meanings(section).get(key, "").partition(". ")[0].rstrip(".")
    meaning = f". {key}: {meaning}" if meaning else ""
    if kind == "missing":
        return f"required, but missing{meaning}"
    if message.startswith(("found ", "required")):
        return message
    if kind.startswith("model_"):
        keys, flag = model_at(model, detail["loc"]).allowed_keys(), str(value).lower()
        hint = f"{{enabled: {flag}}}" if flag in ("true", "false") and "enabled" in keys else ""
        return f"found {show(value, shape_only=True)}; {_mean(hint)}allowed: a mapping with {', '.join(keys)}"
    if kind == "literal_error":
        words = re.findall("'([^']*)'", detail["ctx"]["expected"])
        message = _mean(near_word(value, words) if isinstance(value, str) else "") + _any_of(words)
    for theirs, ours in _WORDS.items():
        message = re.sub(theirs, ours, message)
    field = section.model_fields.get(key) or section.model_fields.get(str(place[-1]) if place else "")
    kinds = (field.annotation, *get_args(field.annotation)) if field else (int,)
    quantity = not {float, int, bool, dict[str, int]}.isdisjoint(kinds)
    shown = "<secret>" if field and is_secret(field) else found(value, source, loc, quantity=quantity)
    if NOT_SHOWN in shown or loc in source.written:  # what is not shown must not show in a hint or reason either
        message = _REASON.sub(r"\1;", _HINT.sub("", message))
    meaning = "" if kind in ("value_error", "literal_error") else meaning
    return f"found {shown}{', ' if message.startswith('which ') else '; '}{message}{meaning}"


def _mean(hint: str) -> str:
    return f'did you mean "{hint}"? ' if hint else ""


def _any_of(words: Collection[str]) -> str:
    return f"allowed: {', '.join(words)}"


def _meant_in(section: type[Section], key: str) -> str:
    return "" if _advice(key, section) else meant_key(key, section.allowed_keys(), section.other_names)


def _advice(key: str, section: type[Section]) -> str:
    """Return advice about a key of another section or of another cloud; empty for other keys."""
    if key in section.foreign_keys:
        return section.foreign_keys[key]
    for name in ("credentials", "endpoints", "collectors"):
        inner = model_at(section, (name,)) if name in section.model_fields else Section
        if key in inner.allowed_keys() or key in inner.other_names:
            return f"put {inner.other_names.get(key, key)} under {name}"
    return ""
