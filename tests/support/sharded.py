"""Several shards that poll simulated accounts, and all their samples together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.support.configs import loaded, written
from trainfleet_exporter.config import Config
from trainfleet_simulator import Simulator

_OWN = re.compile(r"(trainfleet_exporter_|process_|python_|#)")
"""Series of an exporter about itself. The labels of a scrape distinguish those of several exporters."""


def fleet_yaml(simulator: Simulator, url: str, accounts: int) -> str:
    """Return a config with `accounts` providers of each simulated cloud, at default intervals.

    All accounts of a cloud are the same.
    """
    _, *parts = re.split(r"(?m)^  - name: ", simulator.config_yaml(url))
    providers = [
        f"  - name: {name}-{number}\n{_calm(rest)}"
        for name, rest in (part.split("\n", 1) for part in parts)
        for number in range(accounts)
    ]
    return "providers:\n" + "".join(providers)


def _calm(text: str) -> str:
    return re.sub(r"    collectors:\n(      .*\n)*", "    collectors:\n      nodes: {enabled: true}\n", text)


def load(text: str, folder: Path) -> Config:
    """Load a config from its text."""
    return loaded(written(folder, text))


def fleet_samples(page: str) -> dict[str, float]:
    """Return the samples about clouds on a page, by series."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        if not _OWN.match(line):
            series, _, value = line.rpartition(" ")
            assert series not in found, f"twice on one page: {series}"
            found[series] = float(value)
    return found


def together(pages: Iterable[dict[str, float]]) -> dict[str, float]:
    """Join the samples of all pages. A series must be on only one of them."""
    found: dict[str, float] = {}
    for page in pages:
        twice = found.keys() & page.keys()
        assert not twice, f"{len(twice)} series are shown by two shards, such as {sorted(twice)[:5]}"
        found |= page
    return found
