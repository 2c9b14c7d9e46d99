"""What is wrong with a decoded answer by AWS' model of it: required, unknown and mistyped members, unknown words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "timestamp": (int, float),
    "boolean": (bool,),
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
}
_SIZED = {"string", "list", "map"}


def breaches(shape: Shape | None, value: Any, where: str = "answer") -> list[str]:
    """Every breach below, in words; empty for an answer as AWS' model has it."""
    return [] if shape is None else list(_breaches(shape, value, where))


def _breaches(shape: Any, value: Any, where: str) -> Iterator[str]:
    wanted = _TYPES[str(shape.type_name)]
    fits: bool = isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))
    if not fits:
        yield f"{where} is {value!r}, not a {shape.type_name}"
        return
    yield from _bounds(shape, value, where)
    if isinstance(shape, StructureShape):
        yield from (f"{where}.{name} is missing" for name in shape.required_members if name not in value)
        yield from (f"{where}.{name} is unknown" for name in value.keys() - shape.members.keys())
        for name in value.keys() & shape.members.keys():
            yield from _breaches(shape.members[name], value[name], f"{where}.{name}")
    elif isinstance(shape, ListShape):
        for inner in value:
            yield from _breaches(shape.member, inner, f"{where}[]")
    elif isinstance(shape, MapShape):
        for inner in value.values():
            yield from _breaches(shape.value, inner, f"{where}.*")


def _bounds(shape: Any, value: Any, where: str) -> Iterator[str]:
    words = getattr(shape, "enum", [])
    if words and value not in words:
        yield f"{where} is {value!r}, which is no word of {shape.name}"
    pattern = shape.metadata.get("pattern")
    if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value):
        yield f"{where} is {value!r}, which does not match {pattern}"
    size = len(value) if shape.type_name in _SIZED else value
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and size < least:
        yield f"{where} is {value!r}, under {least}"
    if most is not None and size > most:
        yield f"{where} is {value!r}, over {most}"
