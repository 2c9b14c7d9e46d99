"""Several shards that poll simulated accounts, and all their samples together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.sharding import Shard, apportioned
from trainfleet_simulator import Simulator

_OWN = re.compile(r"(trainfleet_exporter_|process_|python_|#)")
"""Series of an exporter about itself. The labels of a scrape distinguish those of several exporters."""


def fleet_yaml(simulator: Simulator, url: str, accounts: int, *, more: str = "") -> str:
    """Return a config with `accounts` providers of each simulated cloud, at default intervals.

    All accounts of a cloud are the same. `more` is added to each provider.
    """
    _, *parts = re.split(r"(?m)^  - name: ", simulator.config_yaml(url))
    providers = [
        f"  - name: {name}-{number}\n{_calm(rest)}{more}"
        for name, rest in (part.split("\n", 1) for part in parts)
        for number in range(accounts)
    ]
    return "providers:\n" + "".join(providers)


def _calm(text: str) -> str:
    return re.sub(r"    collectors:\n(      .*\n)*", "    collectors:\n      nodes: {enabled: true}\n", text)


def load(text: str, folder: Path) -> Config:
    """Load a config from its text."""
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    configs = {name: platform.config for name, platform in installed_platforms().items()}
    return load_config(path, environ={}, platforms=configs)


def shard_exporter(config: Config, shard: Shard) -> Exporter:
    """Return the exporter of a shard."""
    platforms = installed_platforms()
    splits = {name: platform.splits for name, platform in platforms.items()}
    return Exporter(apportioned(config, shard, splits), platforms, shard=shard)


def fleet_samples(page: str) -> dict[str, float]:
    """Return the samples about clouds on a page, by series."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        if not _OWN.match(line):
            series, _, value = line.rpartition(" ")
            assert series not in found, f"twice on one page: {series}"
            found[series] = float(value)
    return found


def calls(exporter: Exporter) -> Counter[tuple[str, str]]:
    """Return the number of calls of an exporter by provider and operation, with retries."""
    found: Counter[tuple[str, str]] = Counter()
    for family in exporter.telemetry.registry.collect():
        for sample in family.samples:
            if sample.name == "trainfleet_exporter_api_requests_total":
                found[sample.labels["provider"], sample.labels["operation"]] += int(sample.value)
    return found


def together(pages: Iterable[dict[str, float]]) -> dict[str, float]:
    """Join the samples of all pages. A series must be on only one of them."""
    found: dict[str, float] = {}
    for page in pages:
        twice = found.keys() & page.keys()
        assert not twice, f"{len(twice)} series are shown by two shards, such as {sorted(twice)[:5]}"
        found |= page
    return found
