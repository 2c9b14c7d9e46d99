"""The facts that a provider's tests declare about their cloud, and the one good run that most checks use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest

from trainfleet_conformance.page import Page
from trainfleet_conformance.planted import Planted
from trainfleet_conformance.stage import INTERVAL, Arrival, PretendCloud, Stage, staged
from trainfleet_exporter.model import Status
from trainfleet_exporter.polling import BulkCollector
from trainfleet_exporter.providers.registry import Platform


@dataclass(frozen=True, slots=True)
class GoodRun:
    """Three polls of a cloud without faults."""

    page: Page
    truth: Mapping[str, str]
    """The live jobs of the cloud, and their states in the cloud's words."""
    arrivals: list[Arrival]
    steady: list[Arrival]
    """The requests of the last two polls."""
    bulk: frozenset[str]
    """The collectors whose calls do not grow with the jobs."""

    @property
    def operations(self) -> list[tuple[str, str]]:
        """Return API and name of each operation that every poll calls."""
        return sorted({(arrival.api, arrival.operation) for arrival in self.steady if arrival.api})

    def callers(self, operation: str) -> set[str]:
        """Return the collectors that call an operation."""
        return {arrival.collector for arrival in self.arrivals if arrival.operation == operation}


class ProviderCase:
    """Everything that the kit needs to know about the cloud. It needs nothing about the provider's own code.

    A test class derives from ProviderConformance and defines these members.
    """

    platform: ClassVar[Platform]
    """The object that the entry point names."""
    statuses: ClassVar[Mapping[str, Status]]
    """Every documented state of a job, in the cloud's word, with its status."""
    not_counted: ClassVar[frozenset[str]] = frozenset()
    """Documented states that the cloud never lists (old words): they need no count of 0."""
    samples: ClassVar[Mapping[str, float]] = {}
    """Some series of the page, without the label `provider`, with their values in the simulated cloud. At least one for
    each unit that differs from the model's."""
    jobs: ClassVar[int] = 12
    """The number of live jobs of the simulated cloud; enough for two pages of a list."""
    copes: ClassVar[frozenset[str]] = frozenset()
    """Operations that may fail without effect on other values, such as names of machine types."""
    may_be_empty: ClassVar[frozenset[str]] = frozenset()
    """Operations whose response may be empty."""
    without_right: ClassVar[frozenset[str]] = frozenset()
    """Operations whose permission the cloud does not document."""
    faulted: ClassVar[frozenset[str] | None] = None
    """Operations into which the kit injects faults; None means all that every poll calls."""
    recovery_polls: ClassVar[int] = 1
    """The number of polls after a fault until everything is as before, also after rejected credentials."""
    secrets: ClassVar[Planted]
    """All secrets so far. The kit makes it for each class."""
    _good: ClassVar[GoodRun | None]

    def __init_subclass__(cls) -> None:
        cls.secrets, cls._good = Planted(), None

    def status_of(self, word: str) -> Status:
        """Return the status to which the provider's code translates a state in the cloud's word."""
        raise NotImplementedError

    def cloud(self, jobs: int) -> PretendCloud:
        """Make a simulated cloud with about `jobs` live jobs. Each call makes the same cloud."""
        raise NotImplementedError

    def config(self, url: str) -> dict[str, Any]:
        """Return the keys of the provider in the config file, except name and platform, for the simulated cloud at
        `url`.

        Turn on every collector, with an interval of a minute. Set limits like `max_jobs` so high that they never apply:
        the order of jobs differs with wrong times.
        """
        raise NotImplementedError

    def secret(self, name: str, *, special: bool = True) -> str:
        """Return a secret for the config and the simulated cloud; the same one for the same name. With `special`, it
        has characters that JSON, YAML, URLs and HTML escape. No output may show it."""
        return self.secrets.plant(name, special=special)

    @property
    def good(self) -> GoodRun:
        """The good run, which each class makes once."""
        type(self)._good = run = self._good or self._run_well()
        return run

    @property
    def faulted_operations(self) -> list[str]:
        """The operations into which the kit injects faults."""
        return [name for _, name in self.good.operations if self.faulted is None or name in self.faulted]

    def stage(self, jobs: int | None = None) -> AbstractContextManager[Stage]:
        """Run an exporter that polls the simulated cloud, after the good run."""
        self.good  # noqa: B018
        return staged(self.platform, partial(self.cloud, jobs or self.jobs), self.config)

    def _run_well(self) -> GoodRun:
        with staged(self.platform, partial(self.cloud, self.jobs), self.config) as stage:
            runners = stage.daemon.exporter.runners
            slow = [f"{r.state.collector} has another interval" for r in runners if r.collector.interval != INTERVAL]
            complain(slow, "say `interval: 60s` in config()")
            truth = dict(stage.cloud.live_jobs())
            unknown = sorted({*truth.values()} - {*self.statuses})
            complaints = [f"live_jobs() has {word!r}, which is no state of `statuses`" for word in unknown]
            complaints += ["live_jobs() is empty"] * (not truth)
            complain(complaints, "let cloud(jobs) have that many live jobs, in documented states")
            stage.polls(1)
            first = len(stage.gateway.arrivals)
            stage.polls(2)
            return GoodRun(
                page=stage.read_everything(),
                truth=truth,
                arrivals=stage.gateway.arrivals,
                steady=stage.gateway.arrivals[first:],
                bulk=frozenset(r.state.collector for r in runners if isinstance(r.collector, BulkCollector)),
            )


def complain(found: Iterable[str], fix: str, where: str = "") -> None:
    """Fail if there are complaints, and list some of them with their place; `fix` says what to do about them."""
    if complaints := list(found):
        listed = [f"- {where and f'{where}: '}{text}" for text in complaints[:6]]
        more = [f"- and {len(complaints) - len(listed)} more"] if len(complaints) > len(listed) else []
        pytest.fail("\n".join([*listed, *more, f"To fix it: {fix}"]), pytrace=False)
