"""Users' regular expressions, in the syntax of RE2, which matches in linear time.

A job's name comes from the cloud. With `re`, one unlucky name and pattern would hold the interpreter for days.
https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from collections.abc import Callable

_PATTERN_BYTES = 2**20
"""Bytes of a compiled pattern. In the worst case, a name of 1 KB then takes milliseconds."""
_TOKEN = re.compile(r"\\(?P<escape>.)|(?P<repetition>\{,[0-9]+\})", re.DOTALL)
_WIDER = {
    "w": r"[\pL\pN_]",
    "W": r"[^\pL\pN_]",
    "d": r"\pN",
    "D": r"\PN",
    "s": r"[\s\pZ]",
    "S": r"[^\s\pZ]",
    "b": "the characters around it",
    "B": "the characters around it",
}
"""By the letter of an escape that knows ASCII only, what to write for names in any script."""
_NOT_IN_RE2 = (
    (("invalid perl operator: (?=", "invalid perl operator: (?!"), "look-ahead", "list unwanted names under exclude"),
    (("invalid perl operator: (?<",), "look-behind", "list unwanted names under exclude"),
    (("invalid perl operator: (?P",), "back-references", "list the names"),
    (tuple(f"invalid escape sequence: \\{number}" for number in range(1, 10)), "back-references", "list the names"),
    (("invalid perl operator: (?>",), "atomic groups", "use (?:...)"),
    (("invalid perl operator: (?(",), "conditions", "list the alternatives"),
    (("invalid perl operator: (?#",), "comments", "leave them out"),
    (("invalid perl operator",), "such group or flag", "use (?:...), (?i:...) or (?s:...)"),
    (("invalid escape sequence: \\Z",), "\\Z", "leave it out, because the whole name must match"),
    (("invalid escape sequence: \\u", "invalid escape sequence: \\U"), "\\u", "write the character itself"),
    (("invalid escape sequence: \\N",), "\\N{...}", "write the character itself"),
    (("bad repetition operator",), "repetitions of repetitions, such as a++", "use one repetition, or (?:a+)+"),
)
"""Beginnings of RE2's errors, what RE2 does not have, and what to write."""


class UnquotedReason(ValueError):
    """Why a value is refused, in words that quote nothing of it."""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a test of whether a text matches the pattern as a whole, in time proportional to the text's length.

    Raises ValueError with the reason and a remedy if RE2 cannot use the pattern, UnquotedReason where it can.
    """
    import re2  # noqa: PLC0415 - most configs have no pattern

    for token in _TOKEN.finditer(pattern):
        if token["repetition"]:
            raise UnquotedReason("RE2 has no {,n}; write {0,n}")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _PATTERN_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise _refusal(error.args[0].decode(errors="replace")) from None
    # A name may hold half of a surrogate pair, which UTF-8 cannot.
    return lambda text: compiled.fullmatch(text.encode(errors="replace")) is not None


def ascii_classes(pattern: str) -> dict[str, str]:
    """Return the escapes in a pattern that know ASCII characters only, and what to write for any script.

    Job names may be Chinese, which `\\w`, `\\d`, `\\s` and `\\b` of RE2 do not match.
    """
    letters = [token["escape"] for token in _TOKEN.finditer(pattern)]
    return {f"\\{letter}": _WIDER[letter] for letter in letters if letter in _WIDER}


def _refusal(error: str) -> ValueError:
    if "too large" in error or "repetition size" in error:
        return UnquotedReason("it is too large: repetitions allow 1000 at most, also together; use * or +")
    for beginnings, what, remedy in _NOT_IN_RE2:
        if error.startswith(beginnings):
            return UnquotedReason(f"RE2 has no {what}; {remedy}")
    return ValueError(error)
