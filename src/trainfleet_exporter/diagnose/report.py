"""What a diagnosis says of one provider; `as_json` is what machines get. No field can hold a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """What one API answered: how many attempts ended how, and how long they took on average (seconds)."""

    api: str
    url: str
    outcomes: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class CollectorReport:
    """One poll of one collector. Durations are seconds; `calls` are those of a poll by API.

    A per-object collector may have been tried on some of its objects only: `units` is how many it polls, `tried` how
    many were; calls and series are estimated for all. `needs` is how long a poll takes at the configured limits and the
    cloud's own speed; `has` how long it may take: poll_timeout for a bulk collector, its interval for another one.
    """

    collector: str
    success: bool | None
    """None where it did not come to an end."""
    interval: float
    per_object: bool
    units: int
    tried: int
    needs: float
    has: float
    slow_cloud: bool
    """Whether it is the cloud's speed rather than the limits that takes the time."""
    parts_failed: int
    series: int
    calls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CallsReport:
    """What is asked of one API once things have settled, against what is known of its limits. `month` is 30 days.

    `of_account` is the month of all providers of the same account together, which share `budget` (what the config
    sets) and `free` (what the cloud gives without paying); None where those are not known. `minute_of_account` is
    that of all of them at the same endpoint. `at_least`: some poll failed, and would have made more calls.
    """

    api: str
    minute: float
    minute_of_account: float
    minute_limit: float
    month: float
    of_account: float
    budget: int | None
    free: int | None
    at_least: bool


@dataclass(frozen=True, slots=True)
class MissingRight:
    """A permission that the identity lacks."""

    operation: str
    right: str
    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that went wrong, `count` times alike, in these collectors. `reason` is the word of the metrics."""

    reason: str
    operation: str
    message: str
    collectors: tuple[str, ...]
    count: int


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
    problems: tuple[Failure, ...]
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
