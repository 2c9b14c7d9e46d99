"""What is wrong with a decoded answer by AWS' model of it: required, unknown and mistyped members, unknown words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.model import ListShape, Shape, StructureShape
from botocore.validate import ParamValidator


def breaches(shape: Shape | None, value: Any) -> list[str]:
    """Every breach, in words; empty for an answer as AWS' model has it."""
    if shape is None:
        return []
    report = ParamValidator().validate(value, shape)
    return [report.generate_report()] if report.has_errors() else list(_unknown_words(shape, value))


def _unknown_words(shape: Any, value: Any) -> Iterator[str]:
    if isinstance(shape, StructureShape):
        for name, inner in value.items():
            yield from _unknown_words(shape.members[name], inner)
    elif isinstance(shape, ListShape):
        for inner in value:
            yield from _unknown_words(shape.member, inner)
    elif getattr(shape, "enum", []) and value not in shape.enum:
        yield f"{value!r} is no word of {shape.name}"
