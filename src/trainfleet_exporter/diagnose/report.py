"""The report of a diagnosis on one provider; `as_json` is its form for programs. No field can hold a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """The calls of one API: the number of attempts by outcome, and their mean duration (seconds)."""

    api: str
    url: str
    outcomes: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class CollectorReport:
    """One poll of one collector. Durations are seconds; `calls` are those of a poll by API.

    Of the `units` of a per-object collector, `tried` were polled; calls and series are estimates for all. `needs` is
    the duration of a poll at the configured limits and the cloud's speed. `has` is the longest allowed duration:
    poll_timeout for a bulk collector, the interval for a per-object one.
    """

    collector: str
    success: bool | None
    """None if it did not end."""
    interval: float
    per_object: bool
    units: int
    tried: int
    needs: float
    has: float
    parts_failed: int
    series: int
    calls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CallsReport:
    """The expected calls of one API, and its limits. `month` is 30 days.

    `of_account` is the month of all providers of the account. They share `budget` (from the config) and `free` (the
    cloud's free calls), None if not known. `minute_of_account` has all of them at the same endpoint. `at_least`: a poll
    failed that would have made more calls.
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
class Failure:
    """An error that occurred `count` times, in these collectors. `reason` is that of the metrics."""

    reason: str
    operation: str
    message: str
    collectors: tuple[str, ...]
    count: int
    right: str
    """The permission that the identity does not have; empty if something else is wrong."""


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """Everything about one provider. `series` is by family; `advice` is what to change, most urgent first."""

    provider: str
    platform: str
    region: str
    credentials: str
    credentials_expire: float | None
    """Unix seconds; None if the credentials do not expire or are missing."""
    endpoints: tuple[EndpointReport, ...]
    problems: tuple[Failure, ...]
    collectors: tuple[CollectorReport, ...]
    calls: tuple[CallsReport, ...]
    series: Mapping[str, int]
    advice: tuple[str, ...] = ()

    @property
    def missing_rights(self) -> tuple[Failure, ...]:
        """The problems that a permission would solve: the first of each operation."""
        return tuple(reversed({found.operation: found for found in reversed(self.problems) if found.right}.values()))

    @property
    def success(self) -> bool:
        return all(collector.success for collector in self.collectors)

    def as_json(self) -> dict[str, Any]:
        """The same as plain objects, lists and numbers."""
        rights = [asdict(found) for found in self.missing_rights]
        return asdict(self) | {"missing_rights": rights, "success": self.success}
