"""Which of several exporters with one config polls which provider. Each derives it from names alone.

A provider belongs to the shard with the highest hash of both names (rendezvous hashing). A shard that is added takes
over an even part of the providers, and none moves between the others. The limits of an account are divided evenly among
the shards that have a provider of it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from trainfleet_exporter.config import AccountKey, Config, Limits

MOST_SHARDS = 1000


@dataclass(frozen=True, slots=True)
class Shard:
    """One exporter of `total`, counted from 0."""

    ordinal: int = 0
    total: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.ordinal < self.total <= MOST_SHARDS:
            raise ValueError(f"shard {self.ordinal} of {self.total}")

    def __str__(self) -> str:
        return f"{self.ordinal} of {self.total}"


WHOLE = Shard()
"""An exporter that is alone."""


def owner(provider: str, total: int) -> int:
    """Return the number of the shard that polls a provider."""
    return max(range(total), key=lambda shard: hashlib.blake2b(f"{shard}:{provider}".encode(), digest_size=8).digest())


def apportioned(config: Config, shard: Shard) -> Config:
    """Return the config of one shard: its providers, with its part of the limits of their accounts.

    The parts of all shards add up to the config, except that each shard may have one call in flight, and one call of
    `monthly_calls`. A shard may have no provider.
    """
    if shard.total == 1:
        return config
    owners = {found.name: owner(found.name, shard.total) for found in config.providers}
    shards_of: dict[AccountKey, set[int]] = {}
    for found in config.providers:
        shards_of.setdefault(found.account_key, set()).add(owners[found.name])
    kept = [
        found.model_copy(update={"limits": _part(found.limits, len(shards_of[found.account_key]))})
        for found in config.providers
        if owners[found.name] == shard.ordinal
    ]
    return config.model_copy(update={"providers": tuple(kept)})


def ordinal_of(text: str) -> int | None:
    """The number of a shard: itself, or that of a StatefulSet's pod, whose name ends with it (`exporter-3`)."""
    match = re.fullmatch(r"(?:[a-z0-9][a-z0-9.-]*-)?([0-9]{1,4})", text)
    return None if match is None else int(match[1])


def _part(limits: Limits, shards: int) -> Limits:
    if shards == 1:
        return limits
    return limits.model_copy(
        update={
            "requests_per_second": limits.requests_per_second / shards,
            "concurrency": max(1, limits.concurrency // shards),
            "monthly_calls": {api: max(1, calls // shards) for api, calls in limits.monthly_calls.items()},
        }
    )
