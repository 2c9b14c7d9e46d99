"""The input of the status page's template: its figures, and whether they are complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from trainfleet_exporter.model import HeldTime, Status
from trainfleet_exporter.web.status_page.figures import Fleet, Health, Held, JobTotal, PolledProvider

ROWS = 50
"""How many rows or cards of one kind are shown; there may be any number of providers."""

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="{colour}"/></svg>'
)
_COLOURS = {
    Health.DOWN: "#c62828",
    Health.FAILING: "#c62828",
    Health.STALE: "#b26a00",
    Health.WAITING: "#6b7280",
    Health.OK: "#2e7d32",
}


@dataclass
class View:
    """The figures of one page. `providers` are in the order of the config; times are Unix seconds."""

    fleet: Fleet
    providers: Mapping[str, PolledProvider]
    started: float
    reload_failed: bool
    config_loaded: float

    # How polling goes.

    @cached_property
    def health(self) -> Health:
        """The health of the worst provider."""
        return min((provider.health for provider in self.providers.values()), default=Health.WAITING)

    @cached_property
    def _by_health(self) -> list[PolledProvider]:
        return sorted(self.providers.values(), key=lambda provider: provider.health)

    @property
    def in_trouble(self) -> list[PolledProvider]:
        """The providers with problems that are shown, the worst first."""
        return [provider for provider in self._by_health[:ROWS] if provider.health < Health.WAITING]

    @property
    def others(self) -> list[PolledProvider]:
        """The providers without problems that are shown."""
        return [provider for provider in self._by_health[:ROWS] if provider.health >= Health.WAITING]

    @property
    def rest(self) -> Counter[Health]:
        """How many more providers there are, by their health."""
        return Counter(provider.health for provider in self._by_health[ROWS:])

    @cached_property
    def _healths(self) -> Counter[Health]:
        return Counter(found.health for provider in self.providers.values() for found in provider.collectors)

    @property
    def collectors(self) -> int:
        """The number of collectors."""
        return self._healths.total()

    @property
    def troubled(self) -> int:
        """The number of collectors with problems."""
        return sum(count for health, count in self._healths.items() if health < Health.WAITING)

    @property
    def is_all_ok(self) -> bool:
        """Whether every collector is."""
        return self._healths[Health.OK] == self.collectors

    @cached_property
    def healthy(self) -> int:
        """The number of providers without problems."""
        return sum(provider.health is Health.OK for provider in self.providers.values())

    def verdict(self, noun: str) -> str:
        """Sum the health up in a few words: without a noun they fit a browser's tab."""
        counts = Counter(provider.health for provider in self.providers.values())
        if not self.providers:
            return "No providers"
        words = {
            Health.DOWN: "down",
            Health.FAILING: "failing",
            Health.STALE: "stale",
            Health.WAITING: "at first poll",
        }
        for health, word in words.items():
            if counts[health]:
                return f"{counts[health]} of {len(self.providers)} {noun}{word}"
        return "OK"

    @property
    def icon(self) -> str:
        """A dot in the colour of the health, as SVG."""
        return _ICON.format(colour=_COLOURS[self.health])

    # How far the figures of jobs can be trusted.

    @cached_property
    def names(self) -> list[str]:
        """The providers' names."""
        return list(self.providers)

    @cached_property
    def doubtful(self) -> list[str]:
        """Providers whose figures may be old or incomplete."""
        return [name for name, provider in self.providers.items() if provider.health is not Health.OK]

    @cached_property
    def lacking(self) -> frozenset[str]:
        """Providers whose jobs are certainly or possibly not all shown."""
        # A provider with problems that shows no job at all may have some.
        unseen = set(self.doubtful) - self._holders - self.fleet.jobs.keys()
        return frozenset(unseen.union(name for name, provider in self.providers.items() if provider.lacks_jobs))

    @cached_property
    def _holders(self) -> set[str]:
        return {found.provider for found in self.fleet.held}

    @property
    def doubtful_holders(self) -> list[str]:
        """Doubtful providers with jobs that hold accelerators."""
        return [name for name in self.doubtful if name in self._holders]

    @property
    def silent(self) -> list[str]:
        """Doubtful providers of which no job is known to hold accelerators."""
        return [name for name in self.doubtful if name not in self._holders]

    # Jobs and accelerators.

    def total(self, status: Status, providers: Sequence[str] | None = None) -> JobTotal:
        """Return the number of jobs of these providers, or of all of them, in a state."""
        return self.fleet.total(status, self.names if providers is None else providers, self.lacking)

    @cached_property
    def held_rows(self) -> list[Held]:
        """Held accelerators in the order of the config."""
        place = {name: number for number, name in enumerate(self.providers)}
        return sorted(self.fleet.held, key=lambda found: (place.get(found.provider, len(place)), found.kind))

    @property
    def is_held_known(self) -> bool:
        """Whether held accelerators are known: while no provider works, an empty list means nothing."""
        return (bool(self.fleet.held) or self.healthy > 0) and not self.fleet.hides_held

    @property
    def is_held_complete(self) -> bool:
        """Whether all held accelerators are known: 0 is not, where jobs may hold the accelerators that they request."""
        return not self.lacking and (self.held > 0 or not any(found.unknown for found in self.fleet.held))

    @property
    def held_by_kind(self) -> list[tuple[str, float]]:
        """Numbers of held accelerators by kind, without those that are 0."""
        kinds: dict[str, float] = {}
        for found in self.fleet.held:
            kinds[found.kind] = kinds.get(found.kind, 0) + found.held
        return sorted((kind, count) for kind, count in kinds.items() if count)

    @cached_property
    def held(self) -> float:
        """All accelerators that jobs hold."""
        return sum(found.held for found in self.fleet.held)

    @cached_property
    def idle(self) -> float:
        """Those that are held and idle."""
        return sum(found.idle for found in self.fleet.held)

    @cached_property
    def unmeasured(self) -> float:
        """Those that are held and whose utilization is not known."""
        return sum(found.unmeasured for found in self.fleet.held)

    @property
    def goodput(self) -> HeldTime | None:
        """What all providers' jobs have held and run lately, since the earliest start of a count; None if unknown."""
        found = self.fleet.held_times
        if not found:
            return None
        since = min(each.since for each in found)
        return HeldTime(since, sum(each.held for each in found), sum(each.running for each in found))

    @property
    def is_idle_known(self) -> bool:
        """Whether the utilization of any held accelerator is known, or none is held."""
        return not self.fleet.hides_idle and not 0 < self.held == self.unmeasured
