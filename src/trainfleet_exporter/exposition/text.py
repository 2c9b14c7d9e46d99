"""How a text and a number are written on an exposition page, alike in both formats."""

from __future__ import annotations

import math
import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_HUGE = 10**308
"""Past about this, a reader that takes samples as 64-bit floats (all do) would refuse the digits of an integer."""


def escape_label(value: str) -> str:
    """Escapes backslash, newline and quote. Half surrogate pairs, which UTF-8 cannot hold, become U+FFFD; other
    control characters are legal in a label and stay."""
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if '"' in value:
        value = value.replace('"', '\\"')
    if "\n" in value:
        value = value.replace("\n", "\\n")
    return value if value.isascii() else _SURROGATE.sub("\ufffd", value)


def format_value(value: float) -> str:
    """Shortest text that reads back as the same 64-bit float; an integer keeps all its digits."""
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
