"""How a text and a number are written on an exposition page, alike in both formats."""

from __future__ import annotations

import hashlib
import math
import re

LABEL_BYTES = 4096
"""Of a label value in UTF-8, at most."""
_SHORT = LABEL_BYTES // 4
"""Characters that never take more bytes than that."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_HUGE = 10**308
"""Past about this, a reader that takes samples as 64-bit floats (all do) would refuse the digits of an integer."""
_SAFE_DIGITS = 300
"""No integer that is written with so few characters is past that."""


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
    """Whether a label value, or each of several that are joined, stands on the page as it is: not escaped, not cut."""
    return (
        len(value) <= _SHORT
        and '"' not in value
        and "\\" not in value
        and "\n" not in value
        and (value.isascii() or _SURROGATE.search(value) is None)
    )


def is_too_long(value: str) -> bool:
    """Whether a label value takes more than LABEL_BYTES."""
    return len(value) > _SHORT and len(_clean(value).encode()) > LABEL_BYTES


def cut(value: str) -> str:
    """The beginning of a label value that is too long, with a digest of the whole and an ellipsis: LABEL_BYTES at most.

    The digest keeps values apart that begin alike: two series with the same labels would spoil the page.
    """
    data = _clean(value).encode()
    end = f"#{hashlib.sha256(data).hexdigest()[:16]}…"
    return data[: LABEL_BYTES - len(end.encode())].decode(errors="ignore") + end


def _clean(value: str) -> str:
    return value if value.isascii() else _SURROGATE.sub("\ufffd", value)


def format_value(value: float) -> str:
    """Shortest text that reads back as the same 64-bit float; an integer keeps all its digits."""
    if type(value) is float:
        text = repr(value)
        if text[-1] not in "0fn":  # neither a whole number, nor one that merely ends so, nor infinity, nor none
            return text
    elif type(value) is int:
        text = repr(value)
        if len(text) <= _SAFE_DIGITS:
            return text
    if isinstance(value, int):
        if -_HUGE < value < _HUGE:
            return int.__repr__(value)
        return "+Inf" if value > 0 else "-Inf"
    if value.is_integer() and -1e15 < value < 1e15:
        return int.__repr__(int(value))
    if math.isfinite(value):
        return float.__repr__(value)
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
