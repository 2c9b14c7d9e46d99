"""Numbers as reports write them: medians and spreads of what was timed, with as many digits as they are good for."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def number(value: float) -> str:
    """A number with three digits that count."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def milliseconds(seconds: Sequence[float]) -> str:
    """Median, and from the 10th to the 90th percentile, in milliseconds."""
    low, high = quantile(seconds, 0.1), quantile(seconds, 0.9)
    return f"{number(statistics.median(seconds) * 1e3)} ({number(low * 1e3)} to {number(high * 1e3)})"


def ratios(values: Sequence[float]) -> str:
    """Median of ratios, and from the 10th to the 90th percentile."""
    low, high = quantile(values, 0.1), quantile(values, 0.9)
    return f"{number(statistics.median(values))} ({number(low)} to {number(high)})"


def megabytes(size: float) -> str:
    """Bytes as MB (10^6)."""
    return f"{number(size / 1e6)} MB"
