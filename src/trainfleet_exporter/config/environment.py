"""`${NAME}` in the config's texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# In this order: an escaped dollar, a well-formed reference, a broken one. Other dollars are literal, so that a user can
# write the regular expression `train-.*$`.
_TOKENS = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\$\{)")

REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
"""A well-formed reference."""

BARE_VARIABLE = re.compile(r"\$[A-Z_][A-Z0-9_]*")
"""A whole text that some shells and tools would take for a reference."""


@dataclass(frozen=True, slots=True, repr=False)
class Expansion:
    """A text after its references were filled in; without a repr, because it may be a secret."""

    text: str
    used: bool = False
    """Whether a part of it is from the environment."""
    unset: tuple[str, ...] = ()
    malformed: bool = False
    written: str = field(default="", compare=False)
    """The text as the file has it, with its references."""


def expand(text: str, environ: Mapping[str, str]) -> Expansion:
    """Fill in every `${NAME}`; `$$` becomes a dollar. Never raises: what went wrong is in the answer."""
    unset: dict[str, None] = {}
    malformed = used = False

    def fill(token: re.Match[str]) -> str:
        nonlocal malformed, used
        if token["broken"]:
            malformed = True
            return token[0]
        name = token["name"]
        if name is None:
            return "$"
        used = True
        if name not in environ:
            unset[name] = None
            return ""
        return environ[name]

    return Expansion(_TOKENS.sub(fill, text), used, tuple(unset), malformed, text)
