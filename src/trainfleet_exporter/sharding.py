"""Which of several exporters with one config polls what: nobody decides it, each of them works it out alike.

What can be given away by itself is a unit: a provider's account-wide lists, each of its workspaces, each of its pools,
or a job of a workspace that is too large for one. A provider has a few seats (`sharding.spread`), and each seat is some
shard's; each unit has a seat. So all that is a provider's is with few shards, however many there are, and what several
of them have to know is asked for by few of them.

    provider, seat ──consistent hash──► shard            unit of the provider ──consistent hash──► seat

Where a shard is added, it takes over its even part of the seats from all others, and nothing else moves. The seats of a
provider are with as many shards as there can be, so that few large accounts are divided evenly, too.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from trainfleet_exporter.config import AccountKey, Config, Limits, LimitsOfShard, ProviderConfig

MOST_SHARDS = 1000
_SPREAD = 4
"""Over how many shards a provider is spread, where the config leaves it open and there are few providers."""
_ENOUGH = 4
"""So many providers for each shard are even enough as they are. To divide them would divide their limits, too, and
starve whoever has the largest workspace of an account that is asked for all that it allows."""


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
        """What its state file is marked with; empty for an exporter that is alone."""
        return "" if self.total == 1 else f"{self.ordinal} of {self.total}"


WHOLE = Shard()
"""An exporter that is alone."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one shard has of one provider, which has `spread` seats."""

    provider: str = ""
    shard: Shard = WHOLE
    spread: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether all of the provider is with one shard."""
        return len(self.members) == 1

    @property
    def is_home(self) -> bool:
        """Whether what is asked for the whole account is asked by this shard: lists, bulk sources, queues of pools."""
        return self._shard_of(0) == self.shard.ordinal

    @property
    def members(self) -> frozenset[int]:
        """The shards that have something of the provider."""
        return frozenset(map(self._shard_of, range(self.spread)))

    @property
    def is_member(self) -> bool:
        """Whether this shard polls the provider at all."""
        return self.shard.ordinal in self.members

    def owner(self, *unit: str) -> int:
        """The shard that has a unit: `("workspace", id)`, `("pool", id)`, `("job", id)`."""
        return self._shard_of(_choose(self.spread, self.provider, *unit))

    def owns(self, *unit: str) -> bool:
        """Whether a unit is this shard's."""
        return self.owner(*unit) == self.shard.ordinal

    def _shard_of(self, seat: int) -> int:
        return _seats(self.provider, self.spread, self.shard.total)[seat]


ALL = Share()
"""What an exporter that is alone has of any provider."""


def share_of(config: ProviderConfig, shard: Shard, *, splits: bool) -> Share:
    """What a shard has of a provider; that of a platform which does not split is with one shard as a whole."""
    return Share(config.name, shard, (config.sharding.spread or _SPREAD) if splits else 1)


def apportioned(config: Config, shard: Shard, splits: Mapping[str, bool]) -> Config:
    """The config as far as it concerns a shard: its providers, with its part of what their accounts may ask for.

    `splits` tells of each platform whether it gives its units away one by one. The parts of all shards come to the
    whole, but that each shard may have one call under way, and has one call of each budget.
    """
    if shard.total == 1:
        return config
    config = _with_spread(config, shard)
    shares = {found.name: share_of(found, shard, splits=splits[found.platform]) for found in config.providers}
    families: defaultdict[AccountKey, list[ProviderConfig]] = defaultdict(list)
    for found in config.providers:
        families[found.account_key].append(found)
    kept = [
        found.model_copy(update={"limits": _part_of_limits(found, families[found.account_key], shares)})
        for found in config.providers
        if shares[found.name].is_member
    ]
    return config.model_copy(update={"providers": tuple(kept)})


def _with_spread(config: Config, shard: Shard) -> Config:
    """The config with a spread for each provider, which goes by how many there are in all."""
    spread = 1 if len(config.providers) >= _ENOUGH * shard.total else _SPREAD
    settled = [
        found.model_copy(update={"sharding": found.sharding.model_copy(update={"spread": spread})})
        if found.sharding.spread is None
        else found
        for found in config.providers
    ]
    return config.model_copy(update={"providers": tuple(settled)})


def ordinal_of(text: str) -> int | None:
    """The number of a shard: itself, or that of a StatefulSet's pod, whose name ends with it (`exporter-3`)."""
    match = re.fullmatch(r"(?:[a-z0-9][a-z0-9.-]*-)?([0-9]{1,4})", text)
    return None if match is None else int(match[1])


def _part_of_limits(config: ProviderConfig, family: Sequence[ProviderConfig], shares: Mapping[str, Share]) -> Limits:
    """What of an account's limits is a shard's; `family` are the account's providers, of all shards.

    Each provider counts for as much as another, and each of its shards too. An API that is asked for whole accounts
    only is the homes'.
    """
    limits = config.limits
    part = _mean([_part(shares[each.name]) for each in family])
    of_homes = _mean([Fraction(shares[each.name].is_home) for each in family])
    if part == of_homes == 1:
        return limits
    homes_only = [
        api
        for api in sorted({api for each in family for api in each.apis_of_home()})
        if all(api in each.apis_of_home() or api not in each.apis for each in family)
    ]
    parts = {api: of_homes if api in homes_only else part for api in limits.monthly_calls}
    # Of what a shard never asks for it has no budget: one of 0 would look like one that is spent.
    calls = {api: max(1, math.floor(limits.monthly_calls[api] * share)) for api, share in parts.items() if share}
    whole = {api: Limits.model_construct(**_at_once(limits, of_homes)) for api in homes_only} if of_homes else {}
    return LimitsOfShard.model_construct(**_at_once(limits, part), monthly_calls=calls, whole=whole)


def _at_once(limits: Limits, part: Fraction) -> dict[str, Any]:
    return {
        "requests_per_second": limits.requests_per_second * float(part),
        "concurrency": max(1, math.floor(limits.concurrency * part)),
    }


def _part(share: Share) -> Fraction:
    return Fraction(share.is_member, len(share.members))


def _mean(parts: Sequence[Fraction]) -> Fraction:
    return sum(parts, Fraction(0)) / len(parts)


@lru_cache(maxsize=65536)
def _seats(provider: str, spread: int, total: int) -> tuple[int, ...]:
    """By seat of a provider, its shard.

    As if shards had come one by one: each takes its even part, and takes it from those who have most. What is not a
    whole number of seats is rounded by chance, which is the provider's own, so that it comes out even over many.
    """
    if spread == 1:
        return (_choose(total, provider, "seat 0"),)
    held = [0] * spread
    for comer in range(1, total):
        part, rest = divmod(spread, comer + 1)
        for taken in range(part + (_draw(provider, f"part {comer}") % (comer + 1) < rest)):
            load = Counter(held)
            most = max(count for shard, count in load.items() if shard != comer)
            full = [seat for seat, shard in enumerate(held) if shard != comer and load[shard] == most]
            held[full[_draw(provider, f"seat {comer} {taken}") % len(full)]] = comer
    return tuple(held)


def _draw(*words: str) -> int:
    """A number of 64 bits, by chance but always the same."""
    # With their lengths, so that no two lists of words are written alike.
    written = "".join(f"{len(word)}:{word}" for word in words).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(written, digest_size=8).digest(), "big")


def _choose(buckets: int, *words: str) -> int:
    """The bucket of these words, by jump consistent hash (Lamping and Veach, 2014, https://arxiv.org/abs/1406.2294)."""
    if buckets == 1:
        return 0
    key = _draw(*words)
    found, jump = -1, 0
    while jump < buckets:
        found = jump
        key = (key * 2862933555777941757 + 1) & 0xFFFFFFFFFFFFFFFF
        jump = int((found + 1) * (1 << 31) / ((key >> 33) + 1))
    return found
