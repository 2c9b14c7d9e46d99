"""What a provider's tests say of their cloud, and the one good run that most checks look at."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest

from trainfleet_conformance.clock import run_stepped
from trainfleet_conformance.gateway import Arrival, PretendCloud
from trainfleet_conformance.page import Page
from trainfleet_conformance.planted import Planted
from trainfleet_conformance.stage import INTERVAL, Stage, open_stage
from trainfleet_exporter.model import Status
from trainfleet_exporter.polling import BulkCollector
from trainfleet_exporter.providers.registry import Platform

_TOLD_AT_MOST = 6


@dataclass(frozen=True, slots=True)
class GoodRun:
    """Three polls of a cloud in which nothing went wrong."""

    page: Page
    text: str
    truth: Mapping[str, str]
    """The live jobs of the cloud, and their states in its words."""
    arrivals: tuple[Arrival, ...]
    steady: tuple[Arrival, ...]
    """Those of the last two polls."""
    payloads: Mapping[str, list[Any]]
    """By operation, what was answered."""
    bulk: frozenset[str]
    per_object: frozenset[str]
    """The collectors of either kind."""

    @property
    def operations(self) -> list[tuple[str, str]]:
        """API and name of each operation that every poll calls."""
        return sorted({(arrival.api, arrival.operation) for arrival in self.steady if arrival.api})

    def chosen(self, faulted: frozenset[str] | None) -> list[str]:
        """The operations under which faults are made."""
        return [operation for _, operation in self.operations if faulted is None or operation in faulted]

    def callers(self, operation: str) -> set[str]:
        """The collectors that call an operation."""
        return {arrival.collector for arrival in self.arrivals if arrival.operation == operation}


class ProviderCase:
    """Everything that the kit has to be told. All of it is about the cloud, nothing about the provider's insides.

    A test class derives from ProviderConformance, and says what follows.
    """

    platform: ClassVar[Platform]
    """The object that the entry point names."""
    statuses: ClassVar[Mapping[str, Status]]
    """Every state of a job that the cloud documents, in its own word, and which of ours it is."""
    not_counted: ClassVar[frozenset[str]] = frozenset()
    """Documented states in which no job is ever listed (old words): they need no count of 0."""
    samples: ClassVar[Mapping[str, float]] = {}
    """Some series as they stand on the page, without the label `provider`, and what the pretend cloud says they are.
    At least one for each unit that the cloud has otherwise than the model."""
    jobs: ClassVar[int] = 12
    """How many live jobs the pretend cloud is made with; enough for two pages of a list."""
    copes: ClassVar[frozenset[str]] = frozenset()
    """Operations that the provider does without, where they fail: names of machine types, and the like."""
    may_be_empty: ClassVar[frozenset[str]] = frozenset()
    """Operations of which an answer without anything in it is a good one."""
    without_right: ClassVar[frozenset[str]] = frozenset()
    """Operations of which the cloud does not document which right they need."""
    faulted: ClassVar[frozenset[str] | None] = None
    """Operations under which faults are made; None for all that every poll calls."""
    recovery_polls: ClassVar[int] = 1
    """Polls after the end of a fault by which everything is as before."""
    refusal_polls: ClassVar[int] = 1
    """The same after a refusal: a provider may leave credentials alone for a while, so that none is locked."""

    _planted: ClassVar[dict[type, Planted]] = {}
    _good_runs: ClassVar[dict[type, GoodRun]] = {}

    def status_of(self, word: str) -> Status:
        """What the provider's own code makes of a state in the cloud's word."""
        raise NotImplementedError

    def cloud(self, jobs: int) -> PretendCloud:
        """A pretend cloud with about so many live jobs, the same whenever it is made."""
        raise NotImplementedError

    def config(self, url: str) -> dict[str, Any]:
        """What the config file says of the provider, beside its name and platform, to reach the pretend cloud at `url`.

        Every collector is on, with an interval of a minute. Caps on how many jobs are asked about are out of reach:
        which jobs come first differs where several exporters share them, and where times make no sense.
        """
        raise NotImplementedError

    def secret(self, name: str, *, special: bool = True) -> str:
        """A secret to be put into the config and known to the pretend cloud; the same one for the same name. With
        `special` it has characters that JSON, YAML, URLs and HTML escape. Nobody may ever read it anywhere."""
        return self._planted.setdefault(type(self), Planted()).plant(name, special=special)

    @property
    def secrets(self) -> Planted:
        """All of them so far."""
        return self._planted.setdefault(type(self), Planted())

    def play(self, main: Callable[[Path], Awaitable[None]]) -> None:
        """Run a check in stepped time, with a folder of its own, after the good run that it may look at."""
        self.good  # noqa: B018
        _play(main)

    def on_stage(self, check: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
        """Run a check in stepped time, with an exporter that polls the pretend cloud; options as `open_stage` has."""

        async def main(folder: Path) -> None:
            async with self.stage(folder, **options) as stage:
                await check(stage)

        self.play(main)

    def stage(self, folder: Path, *, jobs: int | None = None, **options: Any) -> AbstractAsyncContextManager[Stage]:
        """An exporter and its cloud."""
        cloud = self.cloud(self.jobs if jobs is None else jobs)
        return open_stage(folder, self.platform, cloud, self.config, **options)

    @property
    def good(self) -> GoodRun:
        """The good run, made once for each class."""
        found = self._good_runs.get(type(self))
        if found is None:
            made: list[GoodRun] = []

            async def main(folder: Path) -> None:
                made.append(await self._run_well(folder))

            _play(main)
            found = self._good_runs[type(self)] = made[0]
        return found

    async def _run_well(self, folder: Path) -> GoodRun:
        async with self.stage(folder) as stage:
            runners = stage.daemon.exporter.runners
            slow = [r.state.collector for r in runners if r.collector.interval != INTERVAL]
            if slow:
                complain([f"{name} has another interval" for name in slow], "say `interval: 60s` in config()")
            await stage.polls(1)
            first = len(stage.gateway.arrivals)
            await stage.polls(2)
            page = await stage.scrape()
            return GoodRun(
                page=page,
                text=stage.outputs[-1],
                truth=dict(stage.cloud.live_jobs()),
                arrivals=tuple(stage.gateway.arrivals),
                steady=tuple(stage.gateway.arrivals[first:]),
                payloads=stage.gateway.payloads,
                bulk=frozenset(r.state.collector for r in runners if isinstance(r.collector, BulkCollector)),
                per_object=frozenset(r.state.collector for r in runners if not isinstance(r.collector, BulkCollector)),
            )


def _play(main: Callable[[Path], Awaitable[None]]) -> None:
    async def run() -> None:
        await main(Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        run_stepped(run)


def complain(found: Iterable[str], mend: str) -> None:
    """Fail if anything was found; `mend` says what to do about it."""
    complaints = list(found)
    if complaints:
        fail(complaints, mend)


def fail(complaints: list[str], mend: str) -> NoReturn:
    """Fail with some of the complaints."""
    told = complaints[:_TOLD_AT_MOST]
    more = [f"and {len(complaints) - len(told)} more"] if len(complaints) > len(told) else []
    pytest.fail("\n".join([*(f"- {text}" for text in (*told, *more)), f"To mend it: {mend}"]), pytrace=False)
