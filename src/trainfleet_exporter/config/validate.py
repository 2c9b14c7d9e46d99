"""Validation of a part of a YAML file: pydantic's errors with their places, what was found and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
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
    if isinstance(data, dict):
        data = with_known_keys(model, data, source, at)
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            loc: Loc = (*at, *detail["loc"])
            if loc and loc not in source.lines and (*loc[:-1], f"{loc[-1]}_file") in source.lines:
                loc = (*loc[:-1], f"{loc[-1]}_file")
            source.fault(loc, _message(model, detail, source, loc))
    return _valid_part(model, data, context) if isinstance(data, dict) else None


def with_known_keys(model: type[Section], data: Mapping[str, Any], source: Source, at: Loc) -> dict[str, Any]:
    """Report the unknown keys of a section. The value of a misspelt key is judged as that of the key that was meant."""
    known, judged = model.allowed_keys(), dict[str, Any]()
    for key, value in data.items():
        loc, name = (*at, key), key
        if key not in known:
            advice = _advice(key, model)
            name = "" if advice or instead_of(loc) else meant_key(key, known, model.other_names)
            if instead := instead_of(loc):
                source.fault(loc, f'found "{key}", which this version does not have; allowed: {instead}')
            elif advice:
                source.fault(loc, f'unknown key "{key}" here; {advice}; allowed: {", ".join(known)}')
            else:
                source.fault(loc, unknown_key(key, known, name))
            if value is None:
                source.spoilt.add((*at, name))  # a misspelt key is one fault, not two
            if not name or name in data or name in judged or value is None:
                continue
            source.lines[*at, name] = source.lines[loc]
        inner = model_at(model, (name,))
        is_section = inner is not model and isinstance(value, dict)
        judged[name] = with_known_keys(inner, value, source, (*at, name)) if is_section else value
    return judged


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


def unknown_key(key: str, allowed: Collection[str], meant: str = "") -> str:
    """The message for a key that is not allowed. `meant` is the key that was meant, if that is not the nearest one."""
    return f'unknown key "{show_key(key)}"; {mean(meant or meant_key(key, allowed))}allowed: {", ".join(allowed)}'


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


def mean(hint: str) -> str:
    """Return a question about what was meant; empty without a hint."""
    return f'did you mean "{hint}"? ' if hint else ""


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
    if instead := instead_of(loc, str(value)):
        return f'found "{value}", which this version does not have; allowed: {instead}'
    meaning = meanings(section).get(key, "").partition(". ")[0].rstrip(".")
    meaning = f". {key}: {meaning}" if meaning else ""
    if kind == "missing":
        return f"required, but missing{meaning}"
    if message.startswith(("found ", "required")):
        return message
    if kind.startswith("model_"):
        keys, flag = model_at(model, detail["loc"]).allowed_keys(), str(value).lower()
        hint = f"{{enabled: {flag}}}" if flag in ("true", "false") and "enabled" in keys else ""
        return f"found {show(value, shape_only=True)}; {mean(hint)}allowed: a mapping with {', '.join(keys)}"
    if kind == "literal_error":
        words = re.findall("'([^']*)'", detail["ctx"]["expected"])
        message = mean(near_word(value, words) if isinstance(value, str) else "") + f"allowed: {', '.join(words)}"
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


def _advice(key: str, section: type[Section]) -> str:
    """Return advice about a key of another section or of another cloud; empty for other keys."""
    if key in section.foreign_keys:
        return section.foreign_keys[key]
    for name in ("credentials", "endpoints", "collectors"):
        inner = model_at(section, (name,)) if name in section.model_fields else Section
        if key in inner.allowed_keys() or key in inner.other_names:
            return f"put {inner.other_names.get(key, key)} under {name}"
    return ""
