"""Scalars under validation: their text, how they are refused, and how a fault shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from trainfleet_exporter.config.tree import Scalar, shape
from trainfleet_exporter.config.urls import hide_userinfo
from trainfleet_exporter.config.wording import Rule

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_SHOWN = 80  # characters of a found text


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What validation needs beside the tree: the folder that relative paths start from, and the environment."""

    folder: Path
    environ: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, info: ValidationInfo) -> Surroundings:
        """Those of this validation; without a config file there is the working folder and no environment."""
        return info.context if isinstance(info.context, Surroundings) else cls(Path(), {})


def refuse(rule: Rule, **facts: object) -> NoReturn:
    """Refuse the value under validation with the message of its rule."""
    raise PydanticCustomError("refused", "refused", {"message": rule.format(**facts)})


def show(value: object) -> str:
    """A found value in a fault: one line, shortened, without a user and password. Never call it with a secret."""
    if not isinstance(value, Scalar | str | int | float):
        return shape(value)
    text = value.expansion.text if isinstance(value, Scalar) else str(value)
    text = hide_userinfo(text)
    shown = text if _NUMBER.fullmatch(text) and len(text) <= _SHOWN else repr(text[:_SHOWN])
    shown += "…" if len(text) > _SHOWN else ""
    return f"{shown} (from the environment)" if isinstance(value, Scalar) and value.expansion.used else shown


def text_of(value: object, rule: Rule, **facts: object) -> str:
    """The text of a scalar with its variables filled in; refuses what has none."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Scalar):
        refuse(rule, found=shape(value), **facts)
    broken = broken_reference(value)
    if broken:
        raise PydanticCustomError("refused", "refused", {"message": broken})
    return value.expansion.text


def broken_reference(value: Scalar) -> str:
    """What is wrong with the `${NAME}` of a scalar; empty if nothing is."""
    if value.expansion.malformed:
        return Rule.MALFORMED_VARIABLE.format()
    return Rule.UNSET_VARIABLE.format(names="}, ${".join(value.expansion.unset)) if value.expansion.unset else ""
