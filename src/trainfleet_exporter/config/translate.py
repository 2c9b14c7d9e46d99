"""Validation of a part of the tree, with pydantic's faults in our words."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from trainfleet_exporter.config.scalars import Surroundings
from trainfleet_exporter.config.schema import Section
from trainfleet_exporter.config.tree import Loc, Node, Scalar, shape, show_key, word_of
from trainfleet_exporter.config.wording import Rule, Wording

SectionT = TypeVar("SectionT", bound=Section)

_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_NO_OTHER_NAMES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault before its line is known."""

    loc: Loc
    message: str


@dataclass(frozen=True, slots=True)
class Validated(Generic[SectionT]):
    """A part of the config after validation.

    With `problems`, which have their whole path, `section` holds what was sound all the same, so that values that
    depend on each other are checked in the same run; it may then lack required fields, or be None.
    """

    section: SectionT | None
    problems: tuple[Problem, ...] = ()


def validate(model: type[SectionT], node: Node, at: Loc, surroundings: Surroundings) -> Validated[SectionT]:
    """Validate the part of the tree at `at`."""
    try:
        return Validated(model.model_validate(node, context=surroundings))
    except ValidationError as error:
        details = error.errors(include_url=False)
    problems = tuple(Problem((*at, *loc), message) for loc, message in _problems(model, node, details))
    return Validated(_salvage(model, node, {problem.loc[len(at) :] for problem in problems}, surroundings), problems)


def _salvage(model: type[SectionT], node: Node, spoilt: set[Loc], surroundings: Surroundings) -> SectionT | None:
    """A section of all that is sound, for the checks between values only; its other fields have their defaults."""
    data = _without(node, spoilt)
    if not isinstance(data, dict):
        return None
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name in data:
            kind: Any = Annotated[field.annotation, name, *field.metadata]  # a lone type would not do here
            with contextlib.suppress(ValidationError):
                values[name] = TypeAdapter(kind).validate_python(data[name], context=surroundings)
    return model.model_construct(**values)


def unknown_key(
    key: str, allowed: Collection[str], other_names: Mapping[str, str] = _NO_OTHER_NAMES, *, has_value: bool = True
) -> str:
    """The message for a key that is not among the allowed ones; `other_names` as in `meant_key`."""
    hint = meant_key(key, allowed, other_names)
    return Rule.UNKNOWN_KEY.hinted(hint, found=show_key(key, has_value=has_value), keys=", ".join(allowed))


def _advice(key: str, section: type[Section]) -> str:
    """Return advice about a key of another section or of another cloud; empty for other keys."""
    if key in section.foreign_keys:
        return section.foreign_keys[key]
    for name in ("credentials", "endpoints", "collectors"):
        inner = model_at(section, (name,)) if name in section.model_fields else Section
        if key in inner.allowed_keys() or key in inner.other_names:
            return f"put {inner.other_names.get(key, key)} under {name}"
    return ""


def meant_key(key: str, allowed: Collection[str], other_names: Mapping[str, str] = _NO_OTHER_NAMES) -> str:
    """The allowed key that an unknown one probably means; empty if none is near.

    `other_names` are those that other clouds and tools give to allowed keys.
    """
    word = _HUMP.sub("_", word_of(key)).lower().replace("-", "_")
    name = word.removesuffix("_file")
    if name in other_names:
        return other_names[name] + word[len(name) :]
    near = difflib.get_close_matches(word, allowed, n=1)
    return near[0] if near else ""


def _problems(model: type[Section], node: Node, details: Sequence[ErrorDetails]) -> Iterator[tuple[Loc, str]]:
    meant: set[Loc] = set()
    for detail in details:
        if detail["type"] == "extra_forbidden":
            *at, key = detail["loc"]
            section = model_at(model, tuple(at))
            if _advice(str(key), section):
                continue
            hint = meant_key(str(key), section.allowed_keys(), section.other_names)
            meant |= {(*at, hint), (*at, hint.removesuffix("_file"))}
    for detail in details:
        if detail["type"] != "missing" or detail["loc"] not in meant:  # a misspelt key is one fault, not two
            yield _in_file(node, detail["loc"]), _message(model, detail)


def _message(model: type[Section], detail: ErrorDetails) -> str:
    kind, loc = detail["type"], detail["loc"]
    if kind == "refused":
        return str(detail["ctx"]["message"])
    key = str(loc[-1]) if loc else ""
    if kind == "extra_forbidden":
        section = model_at(model, loc[:-1])
        keys = section.allowed_keys()
        if advice := _advice(key, section):
            return Rule.MISPLACED_KEY.format(found=key, keys=", ".join(keys), advice=advice)
        return unknown_key(key, keys, section.other_names, has_value=detail["input"] not in (None, {}, []))
    if kind == "missing":
        field = model_at(model, loc[:-1]).model_fields[key]
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            return Rule.SECTION.missing(keys=", ".join(field.annotation.allowed_keys()))
        rules = [item for item in field.metadata if isinstance(item, Wording)]
        return rules[0].missing(key=key)
    if kind in {"model_type", "model_attributes_type"}:
        keys = model_at(model, loc).allowed_keys()
        flag = detail["input"].expansion.written.lower() if isinstance(detail["input"], Scalar) else ""
        hint = f"{{enabled: {flag}}}" if flag in ("true", "false") and "enabled" in keys else ""
        return Rule.SECTION.hinted(hint, found=shape(detail["input"]), keys=", ".join(keys))
    # Every leaf is a kind of ours, so that nothing else of pydantic's can come here.
    assert kind == "tuple_type", f"no wording for {kind}"
    return Rule.LIST.format(found=shape(detail["input"]))


def model_at(model: type[Section], loc: Loc) -> type[Section]:
    """The model of the section at `loc`."""
    for step in loc:
        annotation = model.model_fields[str(step)].annotation
        for candidate in (annotation, *get_args(annotation)):
            if isinstance(candidate, type) and issubclass(candidate, Section):
                model = candidate
    return model


def _in_file(node: Any, loc: Loc) -> Loc:
    """Return the place in the file: the key of a secret `x` may be `x_file` there."""
    if not loc:
        return loc
    for step in loc[:-1]:
        node = node.get(step) if isinstance(node, dict) else None
    last = loc[-1]
    if isinstance(node, dict) and last not in node and f"{last}_file" in node:
        return (*loc[:-1], f"{last}_file")
    return loc


def _without(node: Any, spoilt: set[Loc]) -> Any:
    """A copy of a part of the tree without the places that were refused."""
    if () in spoilt or not isinstance(node, dict | list):
        return node
    inner: dict[str | int, set[Loc]] = {}
    for loc in spoilt:
        inner.setdefault(loc[0], set()).add(loc[1:])
    if isinstance(node, dict):
        return {
            key: _without(value, inner[key]) if key in inner else value
            for key, value in node.items()
            if () not in inner.get(key, ())
        }
    return [
        _without(value, inner[index]) if index in inner else value
        for index, value in enumerate(node)
        if () not in inner.get(index, ())
    ]
