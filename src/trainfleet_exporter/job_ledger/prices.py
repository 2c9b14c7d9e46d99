"""The prices of accelerators, from the file that the rules are generated from (deploy/prometheus/thresholds.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainfleet_exporter.config import Source
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.process.files import read_file


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of one accelerator for an hour, by its model."""

    by_model: Mapping[str, float]
    currency: str


def read_prices(path: Path) -> Prices:
    """Read `prices` and `currency`; other keys do not matter. Raises StartError or ConfigError."""
    try:
        source = Source(read_file(path), str(path))
    except OSError as error:
        raise StartError(
            f"cannot read the prices {path}: {error.strerror or error}; "
            "--prices takes a file like deploy/prometheus/thresholds.yaml"
        ) from None
    given, currency = source.data.get("prices"), source.data.get("currency", "")
    if not isinstance(given, dict):
        source.fault(("prices",), "required, but missing; allowed: the price of an hour by accelerator model")
    if not isinstance(currency, str):
        source.fault(("currency",), "found no text; allowed: a currency such as CNY")
    found = {}
    for model, price in given.items() if isinstance(given, dict) else ():
        try:
            found[model] = float(price)
        except (TypeError, ValueError):
            found[model] = -1.0
        if not 0 <= found[model] <= 1e9:
            source.fault(("prices", model), "found no price; allowed: a number from 0, such as 52.0")
    source.raise_faults()
    return Prices(found, currency)
