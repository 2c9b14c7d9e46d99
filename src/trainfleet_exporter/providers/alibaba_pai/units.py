"""The units that CloudMonitor's catalogue and the config name, and what they are in base units.

Catalogues write the same unit in several ways, and none is documented; what is not certain is not a unit: `Kb/s` may be
bits or bytes. K, M, G and T count thousands, Ki, Mi, Gi and Ti 1024s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from trainfleet_exporter.providers.usage.quantities import UNITS as COMMON
from trainfleet_exporter.providers.usage.quantities import Quantity

_BITS = {f"{prefix}bit/s": 1000.0**power / 8 for power, prefix in enumerate(("", "K", "M", "G", "T"))}

UNITS: Mapping[Quantity, Mapping[str, float]] = MappingProxyType(
    {**COMMON, "bytes_per_second": {**COMMON["bytes_per_second"], **_BITS}}
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


def _data_unit(unit: str) -> str:
    """`Megabytes/sec` and `MBps` as `MB/s`; empty for what is not an amount of data."""
    match = _DATA.fullmatch(unit)
    if match is None:
        return ""
    prefix = _PREFIXES.get(match["prefix"].lower(), match["prefix"])
    word = "bit" if match["bits"] else "B" if prefix else "Bytes"
    return f"{prefix}{word}{'/s' if match['second'] else ''}"
