"""The units that CloudMonitor's catalogue and the config name, and what they are in base units.

Catalogues write the same unit in several ways, and none is documented; what is not certain is not a unit: `Kb/s` may be
bits or bytes. K, M, G and T count thousands, Ki, Mi, Gi and Ti 1024s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from trainfleet_exporter.providers.readings import believable_ratio

Quantity: TypeAlias = Literal["ratio", "bounded_ratio", "bytes", "bytes_per_second", "cores", "watts"]
"""What a family counts; a bounded ratio cannot exceed 1."""

RATIOS: frozenset[Quantity] = frozenset({"ratio", "bounded_ratio"})

_BYTES = {
    "Bytes": 1.0,
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
}
_BITS = {f"{prefix}bit": 1000.0**power / 8 for power, prefix in enumerate(("", "K", "M", "G", "T"))}
_RATIO = {"%": 0.01, "ratio": 1.0}

UNITS: Mapping[Quantity, Mapping[str, float]] = MappingProxyType(
    {
        "ratio": _RATIO,
        "bounded_ratio": _RATIO,
        "bytes": _BYTES,
        "bytes_per_second": {f"{unit}/s": factor for unit, factor in (_BYTES | _BITS).items()},
        "cores": {"Core": 1.0, "mCore": 0.001},
        "watts": {"W": 1.0, "mW": 0.001, "kW": 1000.0},
    }
)
"""By quantity, the words that the config takes for units, and how many base units each is."""

_WORDS = {
    "percent": "%",
    "percentage": "%",
    "core": "Core",
    "cores": "Core",
    "mcore": "mCore",
    "mcores": "mCore",
    "millicore": "mCore",
    "millicores": "mCore",
    "watt": "W",
    "watts": "W",
    "milliwatt": "mW",
    "milliwatts": "mW",
    "kilowatt": "kW",
    "kilowatts": "kW",
}
_PREFIXES = {"kilo": "K", "mega": "M", "giga": "G", "tera": "T", "k": "K"}
_DATA = re.compile(
    r"(?P<prefix>|k|[KMGT]i?|(?i:kilo|mega|giga|tera))"
    r"(?:(?P<bytes>B|(?i:bytes?))|(?P<bits>(?i:bits?)|b(?=ps$)))"
    r"(?P<second>|ps|/(?i:s|sec|second))",
    re.ASCII,
)


def base_units(unit: str, quantity: Quantity) -> float | None:
    """How many base units of a quantity one `unit` is; None where that is not certain."""
    unit = unit.strip()
    known = UNITS[quantity]
    for word in (unit, _WORDS.get(unit.lower(), ""), _data_unit(unit)):
        if word in known:
            return known[word]
    return None


def convert(raw: float, factor: float, quantity: Quantity) -> float | None:
    """A reading in base units, or None if it cannot be true."""
    if quantity in RATIOS:
        return believable_ratio(raw * factor, bounded=quantity == "bounded_ratio")
    value = raw * factor
    # Written so that a NaN is refused as well. The last digits of thousandths are noise that nobody measured.
    return (round(value, 12) if factor < 1 else value) if 0 <= value < float("inf") else None


def convert_each(raws: Iterable[float], factor: float, quantity: Quantity) -> list[float | None]:
    """Readings in base units, as `convert`."""
    if quantity not in RATIOS:
        values = [raw * factor for raw in raws]
        if factor < 1:
            return [round(value, 12) if 0 <= value < math.inf else None for value in values]
        return [value if 0 <= value < math.inf else None for value in values]
    found: list[float | None] = []
    for raw in raws:
        value = raw * factor
        units = round(value * 1e12) if 0 <= value <= 1 else -1
        # The same as `convert`, in a third of the time: dividing rounds as well, but near halves.
        is_exact = units >= 0 and -0.49 < value * 1e12 - units < 0.49
        found.append(units / 1e12 if is_exact else convert(raw, factor, quantity))
    return found


def _data_unit(unit: str) -> str:
    """`Megabytes/sec` and `MBps` as `MB/s`; empty for what is not an amount of data."""
    match = _DATA.fullmatch(unit)
    if match is None:
        return ""
    prefix = _PREFIXES.get(match["prefix"].lower(), match["prefix"])
    word = "bit" if match["bits"] else "B" if prefix else "Bytes"
    return f"{prefix}{word}{'/s' if match['second'] else ''}"
