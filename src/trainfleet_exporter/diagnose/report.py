"""What a diagnosis says of one provider; `as_json` is what machines get. No field can hold a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """What one API answered: how many attempts ended how, and what the first that failed said."""

    api: str
    url: str
    outcomes: Mapping[str, int]
    problem: str


@dataclass(frozen=True, slots=True)
class CollectorReport:
    """One poll of one collector. Durations are seconds; `calls` are the attempts of the poll by API.

    `needs` is how long the poll takes at the configured rate if nothing else slows it; `has` how long it may take:
    poll_timeout for a sweep, its interval for one that rolls over the jobs one by one.
    """

    collector: str
    success: bool
    seconds: float
    interval: float
    rolls: bool
    needs: float
    has: float
    parts: int
    parts_failed: int
    series: int
    calls: Mapping[str, int]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallsReport:
    """What the provider asks of one API when it has settled, against what is known of its limits.

    `month` is 30 days. `budget` is what the config sets for a month, `free` what the cloud gives without paying; None
    where neither is known.
    """

    api: str
    minute: float
    minute_limit: float
    month: float
    budget: int | None
    free: int | None


@dataclass(frozen=True, slots=True)
class MissingRight:
    """A permission that the identity lacks."""

    operation: str
    right: str
    message: str


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """Everything about one provider. `series` is by family; `advice` is what to change, most urgent first."""

    provider: str
    platform: str
    region: str
    credentials: str
    credentials_expire: float | None
    """Unix seconds; None for those that do not, or that could not be had."""
    endpoints: tuple[EndpointReport, ...]
    missing_rights: tuple[MissingRight, ...]
    collectors: tuple[CollectorReport, ...]
    calls: tuple[CallsReport, ...]
    series: Mapping[str, int]
    advice: tuple[str, ...]

    @property
    def success(self) -> bool:
        """Whether every collector succeeded."""
        return all(collector.success for collector in self.collectors)

    def as_json(self) -> dict[str, Any]:
        """The same as plain objects, lists and numbers."""
        return asdict(self) | {"success": self.success}
