"""What readings count: units, and which values can be true. Everything that is shown is in base units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from trainfleet_exporter.families.usage import RATIOS, Quantity

_COLDEST, _HOTTEST = -50, 200
"""Degrees Celsius between which an accelerator still reports."""
_DIGITS = 12
"""Percent divided by 100 has noise in its last digits, which was not measured."""
_ROUNDING = 1.02
"""Platforms average over scrape windows that do not quite line up: up to this, a ratio over 1 is rounding."""
_WHOLE = 1.5 * 2**52
"""Adding and subtracting this rounds a float of less than 2^51 to a whole number."""

BYTES: Mapping[str, float] = {
    "Bytes": 1.0,
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
}
_RATIO = {"%": 0.01, "ratio": 1.0}
UNITS: Mapping[Quantity, Mapping[str, float]] = {
    "ratio": _RATIO,
    "bounded_ratio": _RATIO,
    "bytes": BYTES,
    "bytes_per_second": {f"{unit}/s": factor for unit, factor in BYTES.items()},
    "cores": {"Core": 1.0, "mCore": 0.001},
    "watts": {"W": 1.0, "mW": 0.001, "kW": 1000.0},
    "flops_per_second": {f"{prefix}FLOPS": 1000.0**power for power, prefix in enumerate(("", *"KMGTP"))},
    "flag": {"flag": 1.0},
    "celsius": {"C": 1.0},
}
"""By quantity, the words that the config takes for units, and how many base units each is."""


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


def convert_each(raws: Iterable[float | None], factor: float, quantity: Quantity) -> list[float | None]:
    """Readings in base units, each None if it is missing or cannot be true."""
    values = [math.nan if raw is None else raw * factor for raw in raws]
    if quantity == "flag":
        return [value if value in (0, 1) else None for value in values]
    if quantity == "celsius":
        return [value if _COLDEST <= value <= _HOTTEST else None for value in values]
    if quantity in RATIOS:
        believe = partial(believable_ratio, bounded=quantity == "bounded_ratio")
        # An eighth of the time of `round`: a float compares with 0 in three times that with 0.0.
        return [(value * 1e12 + _WHOLE - _WHOLE) / 1e12 if 0.0 <= value <= 1.0 else believe(value) for value in values]
    # Written so that a NaN is refused as well. The last digits of thousandths are noise that was not measured.
    kept = [value if 0.0 <= value < math.inf else None for value in values]
    return [value and round(value, _DIGITS) for value in kept] if factor < 1 else kept


def total(values: Sequence[float | None], *, is_ratio: bool) -> float | None:
    """Return the value of a whole from the values of its parts (None for a missing value).

    For ratios, it is the mean of the existing values. For others, it is the sum, or None if a part lacks its value,
    because a lower sum would look like a drop.
    """
    given = [value for value in values if value is not None]
    if not given or not (is_ratio or len(given) == len(values)):
        return None
    return round(math.fsum(given) / len(given), _DIGITS) if is_ratio else math.fsum(given)
