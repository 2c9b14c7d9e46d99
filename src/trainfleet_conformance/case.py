"""The facts that a provider's tests declare about their cloud, and the one good run that most checks use."""

from __future__ import annotations

import functools
import inspect
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trainfleet_conformance.clock import T, run_stepped
from trainfleet_conformance.gateway import Arrival, Gateway, PretendCloud, marking
from trainfleet_conformance.page import Page
from trainfleet_conformance.planted import Planted
from trainfleet_conformance.stage import INTERVAL, Logs, Stage, quickened, write_config
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.model import Status
from trainfleet_exporter.polling import BulkCollector
from trainfleet_exporter.providers.registry import Platform
from trainfleet_simulator.listener import Listener

_LISTED_AT_MOST = 6
_WEB = WebSettings(addresses=("127.0.0.1:0",), enable_lifecycle=True)


@dataclass(frozen=True, slots=True)
class GoodRun:
    """Three polls of a cloud without faults."""

    page: Page
    truth: Mapping[str, str]
    """The live jobs of the cloud, and their states in the cloud's words."""
    arrivals: tuple[Arrival, ...]
    steady: tuple[Arrival, ...]
    """The requests of the last two polls."""
    payloads: Mapping[str, list[Any]]
    """By operation, the responses."""
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
    """The number of polls after a fault until everything is as before."""
    refusal_polls: ClassVar[int] = 1
    """The same after rejected credentials, which a provider may pause so that the cloud does not lock them."""

    _planted: ClassVar[dict[type, Planted]] = {}
    _good_runs: ClassVar[dict[type, GoodRun]] = {}

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
    def secrets(self) -> Planted:
        """All secrets so far."""
        return self._planted.setdefault(type(self), Planted())

    @property
    def good(self) -> GoodRun:
        """The good run, which each class makes once."""
        if type(self) not in self._good_runs:
            self._good_runs[type(self)] = _play(self._run_well)
        return self._good_runs[type(self)]

    @property
    def faulted_operations(self) -> list[str]:
        """The operations into which the kit injects faults."""
        return [name for _, name in self.good.operations if self.faulted is None or name in self.faulted]

    def play(self, main: Callable[[Path], Awaitable[T]]) -> T:
        """Run a check in stepped time with its own folder, after the good run."""
        self.good  # noqa: B018
        return _play(main)

    @asynccontextmanager
    async def served(self, jobs: int | None = None) -> AsyncIterator[tuple[PretendCloud, Gateway, Listener]]:
        """Serve the simulated cloud, and mark the requests to it."""
        cloud = self.cloud(self.jobs if jobs is None else jobs)
        gateway = Gateway(cloud.app)
        listener = Listener(gateway)
        try:
            with marking():
                yield cloud, gateway, listener
        finally:
            await listener.aclose()

    @asynccontextmanager
    async def stage(
        self,
        folder: Path,
        *,
        jobs: int | None = None,
        limits: Mapping[str, Any] | None = None,
        reloaded: Mapping[str, Any] | None = None,
        delay: float = 0.0,
    ) -> AsyncIterator[Stage]:
        """Run an exporter that polls the simulated cloud. `limits` are the provider's, `reloaded` those after a
        reload."""
        logs = Logs(self.platform.build.__module__.partition(".")[0])
        with logs.taken(), quickened():
            async with self.served(jobs) as (cloud, gateway, listener):
                gateway.delay = delay
                write = functools.partial(write_config, folder, self.platform, self.config(listener.url))
                platforms = {self.platform.name: self.platform}
                daemon = Daemon(write(limits), platforms, _WEB, load=lambda: write(reloaded))
                stage = Stage(cloud, gateway, listener, daemon, logs)
                try:
                    await daemon.start()
                    yield stage
                finally:
                    await stage.client.aclose()
                    await daemon.stop()

    async def _run_well(self, folder: Path) -> GoodRun:
        async with self.stage(folder) as stage:
            runners = stage.daemon.exporter.runners
            slow = [f"{r.state.collector} has another interval" for r in runners if r.collector.interval != INTERVAL]
            complain(slow, "say `interval: 60s` in config()")
            await stage.polls(1)
            first = len(stage.gateway.arrivals)
            return GoodRun(
                page=await stage.page(2),
                truth=dict(stage.cloud.live_jobs()),
                arrivals=tuple(stage.gateway.arrivals),
                steady=tuple(stage.gateway.arrivals[first:]),
                payloads=stage.gateway.payloads,
                bulk=frozenset(r.state.collector for r in runners if isinstance(r.collector, BulkCollector)),
            )


def on_stage(**options: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Make a check of a method that is a coroutine and needs a `stage`: an exporter that polls the simulated cloud, in
    stepped time. Options are those of `ProviderCase.stage`."""

    def decorate(check: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def test(self: ProviderCase, **arguments: Any) -> None:
            async def main(folder: Path) -> None:
                async with self.stage(folder, **options) as stage:
                    await check(self, stage, **arguments)

            self.play(main)

        # pytest passes the parameters of the signature, and the stage is none of them.
        asked = inspect.signature(check)
        kept = [each for name, each in asked.parameters.items() if name != "stage"]
        functools.update_wrapper(test, check)
        vars(test)["__signature__"] = asked.replace(parameters=kept)
        return test

    return decorate


def _play(main: Callable[[Path], Awaitable[T]]) -> T:
    async def run() -> T:
        return await main(Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        return run_stepped(run)


def complain(found: Iterable[str], fix: str) -> None:
    """Fail if there are complaints, and list some of them; `fix` says what to do about them."""
    if complaints := list(found):
        listed = [f"- {text}" for text in complaints[:_LISTED_AT_MOST]]
        more = [f"- and {len(complaints) - len(listed)} more"] if len(complaints) > len(listed) else []
        pytest.fail("\n".join([*listed, *more, f"To fix it: {fix}"]), pytrace=False)
