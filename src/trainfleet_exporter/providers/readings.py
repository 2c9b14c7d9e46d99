"""What holds for readings of every cloud: which ratios are believable, and how old a reading may be."""

from __future__ import annotations

import math

_DIGITS = 12
"""Percent divided by 100 has noise in its last digits, which nobody measured and nobody wants to read."""
_ROUNDING = 1.02
"""Platforms average over scrape windows that do not quite line up: up to this, a ratio over 1 is rounding."""


def believable_ratio(ratio: float, *, bounded: bool) -> float | None:
    """A ratio as it is shown, or None if it cannot be true.

    `bounded` ratios (accelerators, memory) cannot exceed 1; CPU can, where a pod uses more than it asked for.
    """
    if not math.isfinite(ratio) or ratio < 0:
        return None
    ratio = round(ratio, _DIGITS)
    if 1 < ratio <= _ROUNDING:
        return 1.0
    return None if bounded and ratio > 1 else ratio


def mean(values: list[float]) -> float | None:
    """The mean, or None of nothing."""
    return round(math.fsum(values) / len(values), _DIGITS) if values else None
