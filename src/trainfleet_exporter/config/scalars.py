"""Scalars under validation: their text, how they are refused, and how a fault shows them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from trainfleet_exporter.config.environment import BARE_VARIABLE, REFERENCE
from trainfleet_exporter.config.plain import NOT_SHOWN, is_like_quantity, is_plain
from trainfleet_exporter.config.secrets import hide_userinfo
from trainfleet_exporter.config.tree import Scalar, shape
from trainfleet_exporter.config.wording import Rule, Wording

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_PART = 3  # letters at the start of a word that are enough to recognize it
_REGION_WORD = re.compile("[0-9]+|north|south|east|west|central")
"""The words in names of new regions: `cn-north-12` is not a misspelt `cn-north-1`."""
_MISSPELT = 0.9  # of difflib: one letter or two of a region's name
_SHOWN = 80  # characters of a found text


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The inputs of validation besides the tree: the folder of relative paths, and the environment."""

    folder: Path
    environ: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, info: ValidationInfo) -> Surroundings:
        """Those of this validation; without a config file there is the working folder and no environment."""
        return info.context if isinstance(info.context, Surroundings) else cls(Path(), {})


def refuse(rule: Wording, hint: str = "", /, **facts: object) -> NoReturn:
    """Refuse the value under validation with the message of its rule, and with what was probably meant."""
    raise PydanticCustomError("refused", "refused", {"message": rule.hinted(hint, **facts)})


def near_word(value: object, words: Iterable[str]) -> str:
    """The word that a found value probably means; empty if none is near, or a variable holds the value."""
    text = value.expansion.text if isinstance(value, Scalar) else value
    if not isinstance(text, str) or not may_hint(value):
        return ""
    given = text.casefold()
    by_case = {word.casefold(): word for word in words}
    containing = [word for word in by_case if len(given) >= _PART and given in word]
    near = containing if len(containing) == 1 else difflib.get_close_matches(given, by_case, n=1)
    return by_case[near[0]] if near else ""


def near_region(region: str, known: Iterable[str]) -> str:
    """The known region of which this one is a misspelling; empty for any other, which may be a new or private one."""
    known = tuple(known)
    if _REGION_WORD.sub("*", region) in {_REGION_WORD.sub("*", word) for word in known}:
        return ""
    near = [word for word in known if word.partition("-")[2] == region]
    near = near or difflib.get_close_matches(region, known, n=1, cutoff=_MISSPELT)
    return near[0] if near else ""


def may_hint(value: object, *, quantity: bool = False) -> bool:
    """Return whether a message may suggest a text that is made from this value: only if it shows the value itself."""
    from_environment = isinstance(value, Scalar) and value.expansion.used
    return not from_environment and not show(value, quantity=quantity).startswith(NOT_SHOWN)


def show(value: object, *, quantity: bool = False) -> str:
    """A found value in a fault: one line, shortened, without a user and password. Never call it with a secret.

    What may be a secret in a wrong place is not shown, nor is what a variable holds, which the file does not show
    either. A `quantity` is a number, a duration or a flag, of which more is known.
    """
    if not isinstance(value, Scalar | str | int | float):
        return shape(value)
    used = isinstance(value, Scalar) and value.expansion.used
    text = (value.expansion.written if used else value.expansion.text) if isinstance(value, Scalar) else str(value)
    text = hide_userinfo(text)
    literal = REFERENCE.sub("", text) if used else text
    if not (is_like_quantity if quantity else is_plain)(literal):
        return f"{NOT_SHOWN} (from the environment)" if used else NOT_SHOWN
    shown = text if _NUMBER.fullmatch(text) and len(text) <= _SHOWN else json.dumps(text[:_SHOWN])
    shown += "…" if len(text) > _SHOWN else ""
    return f"{shown} (from the environment)" if used else shown


def text_of(value: object, rule: Wording, **facts: object) -> str:
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
    """Return the error in the `${NAME}` of a scalar; empty if there is none."""
    if BARE_VARIABLE.fullmatch(value.expansion.written):
        return Rule.VARIABLE_WITHOUT_BRACES.format()
    if value.expansion.malformed:
        return Rule.MALFORMED_VARIABLE.format()
    # Who writes ${the secret itself} must not find it in a log.
    names = [name if is_plain(name) else "…" for name in value.expansion.unset]
    return Rule.UNSET_VARIABLE.format(names="}, ${".join(names)) if names else ""
