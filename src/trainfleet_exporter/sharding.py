"""Which of several exporters with one config polls what. Each exporter derives it from names alone.

1. A provider has `sharding.spread` shards as its members, or all shards if there are fewer. Every shard is equally
   likely to be one. A shard that is added takes the place of one member, or of none (reservoir sampling).
2. Each unit of a provider belongs to one of these places: its workspaces, its pools, and the jobs of a workspace that
   is divided. The requests for the whole account are one more unit; the member that has it is the primary shard. The
   place is the one with the highest hash of both names (rendezvous hashing).
3. The limits of an account are divided evenly among its providers, and those of a provider among its members.

So each unit has exactly one owner, and a few large accounts are divided as evenly as many small ones. A shard that is
added takes over about its even part of all units, and nothing moves between other shards.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from trainfleet_exporter.config import AccountKey, Config, Limits, LimitsOfShard, ProviderConfig

MOST_SHARDS = 1000
_SPREAD = 4
"""The members of a provider, if the config leaves it open and there are few providers."""
_ENOUGH_PROVIDERS = 4
"""So many providers for each shard are even enough as they are. To divide them would divide their limits, too, and the
member with the largest workspace of a busy account would have too little."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One exporter of `total`, counted from 0."""

    ordinal: int = 0
    total: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.ordinal < self.total <= MOST_SHARDS:
            raise ValueError(f"shard {self.ordinal} of {self.total}")

    @property
    def part(self) -> str:
        """How its state file is marked; empty for an exporter that is alone."""
        return "" if self.total == 1 else f"{self.ordinal} of {self.total}"


WHOLE = Shard()
"""An exporter that is alone."""


@dataclass(frozen=True, slots=True)
class ShardAssignment:
    """What one shard polls of one provider, which has `spread` members."""

    provider: str = ""
    shard: Shard = WHOLE
    spread: int = 1

    @property
    def members(self) -> tuple[int, ...]:
        """The shards that poll something of the provider."""
        return _members(self.provider, self.spread, self.shard.total)

    @property
    def is_member(self) -> bool:
        """Whether this shard polls the provider at all."""
        return self.shard.ordinal in self.members

    @property
    def is_whole(self) -> bool:
        """Whether one shard polls all of the provider."""
        return len(self.members) == 1

    @property
    def is_primary(self) -> bool:
        """Whether this shard asks for what is the whole account's: lists, bulk usage, queues of pools."""
        return self.owns("account")

    def owner(self, *unit: str) -> int:
        """The shard that has a unit: `("workspace", id)`, `("pool", id)`, `("job", id)`, `("account",)`."""
        members = self.members
        if len(members) == 1:
            return members[0]
        return members[max(range(len(members)), key=lambda place: _hash(self.provider, *unit, str(place)))]

    def owns(self, *unit: str) -> bool:
        """Return whether this shard has a unit."""
        return self.owner(*unit) == self.shard.ordinal

    def owned(self, kind: str, ids: Iterable[str]) -> list[str]:
        """The ids of the units of one kind that this shard has."""
        return [key for key in ids if self.owns(kind, key)]


ALL = ShardAssignment()
"""The assignment of a single exporter: all of any provider."""


def assignment_of(config: ProviderConfig, shard: Shard, *, splits: bool) -> ShardAssignment:
    """Return the part of a provider that a shard polls. A platform that does not split has one member."""
    return ShardAssignment(config.name, shard, (config.sharding.spread or _SPREAD) if splits else 1)


def apportioned(config: Config, shard: Shard, splits: Mapping[str, bool]) -> Config:
    """The config of one shard: the providers that it polls, with its part of the limits of their accounts.

    `splits` says of each platform whether its providers can be divided. The parts of all shards add up to the config,
    except that each shard may have one call in flight, and has one call of each budget.
    """
    if shard.total == 1:
        return config
    config = _with_spread(config, shard)
    assignments = {found.name: assignment_of(found, shard, splits=splits[found.platform]) for found in config.providers}
    families: defaultdict[AccountKey, list[ProviderConfig]] = defaultdict(list)
    for found in config.providers:
        families[found.account_key].append(found)
    kept = [
        found.model_copy(update={"limits": _part_of_limits(found, families[found.account_key], assignments)})
        for found in config.providers
        if assignments[found.name].is_member
    ]
    return config.model_copy(update={"providers": tuple(kept)})


def ordinal_of(text: str) -> int | None:
    """The number of a shard: itself, or that of a StatefulSet's pod, whose name ends with it (`exporter-3`)."""
    match = re.fullmatch(r"(?:[a-z0-9][a-z0-9.-]*-)?([0-9]{1,4})", text)
    return None if match is None else int(match[1])


def _with_spread(config: Config, shard: Shard) -> Config:
    """The config with a spread for each provider, which depends on how many there are."""
    spread = 1 if len(config.providers) >= _ENOUGH_PROVIDERS * shard.total else _SPREAD
    settled = [
        found.model_copy(update={"sharding": found.sharding.model_copy(update={"spread": spread})})
        if found.sharding.spread is None
        else found
        for found in config.providers
    ]
    return config.model_copy(update={"providers": tuple(settled)})


def _part_of_limits(
    config: ProviderConfig, family: Sequence[ProviderConfig], assignments: Mapping[str, ShardAssignment]
) -> Limits:
    """A shard's part of an account's limits; `family` are the account's providers, of all shards.

    Each provider counts as much as another, and each of its members, too. APIs that only primary shards call are
    divided among those.
    """
    limits = config.limits
    part = _mean([_part(assignments[each.name]) for each in family])
    of_primaries = _mean([Fraction(assignments[each.name].is_primary) for each in family])
    if part == of_primaries == 1:
        return limits
    primary_only = [
        api
        for api in sorted({api for each in family for api in each.primary_apis()})
        if all(api in each.primary_apis() or api not in each.apis for each in family)
    ]
    parts = {api: of_primaries if api in primary_only else part for api in limits.monthly_calls}
    # An API that a shard never calls has no budget there: one of 0 would look like one that is spent.
    calls = {api: max(1, math.floor(limits.monthly_calls[api] * share)) for api, share in parts.items() if share}
    apart = {api: Limits.model_construct(**_at_once(limits, of_primaries)) for api in primary_only}
    whole = apart if of_primaries else {}
    return LimitsOfShard.model_construct(**_at_once(limits, part), monthly_calls=calls, whole=whole)


def _at_once(limits: Limits, part: Fraction) -> dict[str, Any]:
    return {
        "requests_per_second": limits.requests_per_second * float(part),
        "concurrency": max(1, math.floor(limits.concurrency * part)),
    }


def _part(assignment: ShardAssignment) -> Fraction:
    return Fraction(assignment.is_member, len(assignment.members))


def _mean(parts: Sequence[Fraction]) -> Fraction:
    return sum(parts, Fraction(0)) / len(parts)


@lru_cache(maxsize=65536)
def _members(provider: str, spread: int, total: int) -> tuple[int, ...]:
    """The members of a provider by place, as if shards had been added one by one (Vitter, 1985, Algorithm R)."""
    members = list(range(min(spread, total)))
    for added in range(spread, total):
        place = _hash(provider, "shard", str(added)) % (added + 1)
        if place < spread:
            members[place] = added
    return tuple(members)


def _hash(*words: str) -> int:
    """A number of 64 bits."""
    # With their lengths, so that no two lists of words are written alike.
    written = "".join(f"{len(word)}:{word}" for word in words).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(written, digest_size=8).digest(), "big")
