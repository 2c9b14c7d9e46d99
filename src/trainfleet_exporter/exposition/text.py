"""Writes texts and numbers for exposition pages, the same in both formats."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

import msgspec

LABEL_BYTES = 4096
"""The most bytes of a label value in UTF-8."""
_SHORT_TEXT = LABEL_BYTES // 4
"""Characters that never take more bytes than that."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_HUGE = 10**308
"""Above about this value, parsers reject the digits of an integer, because they read samples as 64-bit floats."""
_ALL_DIGITS = 1e15
"""Below this, a float that is a whole number is written as an integer."""
_UNLIKE_REPR = ("e", "n", "-", "0.0000")
"""What the JSON of floats up to that has where some need another text: exponents, null for NaN, minus zero."""
_NO_EXPONENT = 0.0001
"""From here on, `repr` writes a float without an exponent."""


def escape_label(value: str) -> str:
    """Escapes backslash, newline and quote. Half surrogate pairs, which UTF-8 cannot hold, become U+FFFD; other
    control characters are legal in a label and stay."""
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if '"' in value:
        value = value.replace('"', '\\"')
    if "\n" in value:
        value = value.replace("\n", "\\n")
    return _clean(value)


def is_plain(value: str) -> bool:
    """Return whether the page shows a label value, or each of several joined ones, without escapes and not
    truncated."""
    return (
        len(value) <= _SHORT_TEXT
        and '"' not in value
        and "\\" not in value
        and "\n" not in value
        and (value.isascii() or _SURROGATE.search(value) is None)
    )


def is_too_long(value: str) -> bool:
    """Return whether a label value takes more than LABEL_BYTES."""
    return len(value) > _SHORT_TEXT and len(_clean(value).encode()) > LABEL_BYTES


def cut(value: str) -> str:
    """Truncate a label value to at most LABEL_BYTES: its beginning, a digest of the whole value and an ellipsis.

    The digest distinguishes values with the same beginning: two series with the same labels would make the page
    invalid.
    """
    data = _clean(value).encode()
    end = f"#{hashlib.sha256(data).hexdigest()[:16]}…"
    return data[: LABEL_BYTES - len(end.encode())].decode(errors="ignore") + end


def _clean(value: str) -> str:
    return value if value.isascii() else _SURROGATE.sub("\ufffd", value)


def format_value(value: float) -> str:
    """Shortest text that reads back as the same 64-bit float; an integer keeps all its digits."""
    if isinstance(value, int):
        if -_HUGE < value < _HUGE:
            return int.__repr__(value)
    elif value.is_integer() and -_ALL_DIGITS < value < _ALL_DIGITS:
        return int.__repr__(int(value))
    elif math.isfinite(value):
        return float.__repr__(value)
    elif math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def format_values(values: Sequence[float]) -> list[str]:
    """The texts of many numbers, each as `format_value` writes it.

    msgspec writes a float in a fifth of the time of `repr`; for numbers of 0.0001 to 1e15 the texts are the same.
    """
    if not values or min(values) < 0 or max(values) >= _ALL_DIGITS:
        return list(map(format_value, values))
    text = msgspec.json.encode(values).decode()[1:-1]
    texts = text.replace(".0,", ",").removesuffix(".0").split(",")
    if not any(mark in text for mark in _UNLIKE_REPR):
        return texts
    return [
        text if _NO_EXPONENT <= value < _ALL_DIGITS else format_value(value)
        for text, value in zip(texts, values, strict=True)
    ]
