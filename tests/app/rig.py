"""A daemon on a small platform whose config file is rewritten, with or without a lease, in stepped time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from tests.polling.rig import count
from tests.transport.rig import EchoDialect, json_answer
from trainfleet_conformance.page import check
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.app.reload import ReloadOutcome
from trainfleet_exporter.config import Config, ProviderConfig, load_config
from trainfleet_exporter.config.kinds import Flag
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.lease import KubernetesLease
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import BulkCollector, Collector, Poll, Runner
from trainfleet_exporter.providers.registry import BuildContext, Identity, Platform
from trainfleet_exporter.transport import Call, CallLimits, HttpSettings, Transport


def config(*providers: str, head: str = "") -> str:
    """The text of a config with these providers, each of them keys and values in one line."""
    rows = "".join(f"  - {{platform: small, region: cn-x, {provider}}}\n" for provider in providers)
    return f"{head}providers:\n{rows}"


def limited(name: str, calls: int = 1_000_000, more: str = "") -> str:
    """A provider with a number of calls of 30 days."""
    return f"name: {name}, {more}limits: {{monthly_calls: {{dlc: {calls}}}}}"


class SmallConfig(ProviderConfig):
    """A platform with two collectors, and some ways to misbehave."""

    apis: ClassVar[tuple[str, ...]] = ("dlc",)

    pods: Flag = True
    """Whether the second collector is there."""
    unfit: Flag = False
    """Whether it cannot be built."""
    stubborn: Flag = False
    """Whether its polls and its closing go on although they are to end."""


class _OtherAuthor:
    origin = "nowhere"
    expires = 2e9


class World:
    """The cloud and what became of the providers: how often each was asked, built and closed."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.built: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.slow: set[str] = set()
        """Providers whose cloud takes 15 s for an answer."""
        self.limits: dict[str, list[CallLimits]] = {}

    @property
    def platform(self) -> Platform:
        return Platform(name="small", config=SmallConfig, build=self._build)

    def _build(self, config: SmallConfig, context: BuildContext) -> Small:
        if config.unfit:
            raise StartError("it is out of order")
        self.built[config.name] += 1
        return Small(self, config, context)


class Small:
    """A provider with two sweeps of 2 and 3 calls, each of which shows one part."""

    def __init__(self, world: World, config: SmallConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform="small", region=config.region)
        self.identity: Identity = _OtherAuthor()
        self.endpoints: Mapping[str, str] = {"dlc": "http://api.test"}
        self.account = context.account
        self._world, self._stubborn = world, config.stubborn
        self._transport = Transport(
            account=context.account,
            http=HttpSettings(trust_env=False),
            observe=context.observe,
            send=httpx.MockTransport(self._answer),
        )
        self._client = self._transport.client("http://api.test", EchoDialect())
        every = context.settings.poll_interval
        self.collectors: Sequence[Collector] = (
            self._sweep("jobs", 2, every),
            *([self._sweep("pods", 3, every)] if config.pods else []),
        )

    async def _answer(self, _: httpx.Request) -> httpx.Response:
        self._world.calls[self.name] += 1
        if self.name in self._world.slow:
            await asyncio.sleep(15)
        return json_answer(200)

    def _sweep(self, name: str, calls: int, interval: float) -> BulkCollector:
        async def run(poll: Poll) -> None:
            async with poll.part(f"{self.name}-{name}") as part:
                with contextlib.suppress(*([asyncio.CancelledError] if self._stubborn else [])):
                    for _ in range(calls):
                        await self._client.call(Call(operation="ListJobs", path="/"), deadline=poll.deadline)
                if self._stubborn:
                    await asyncio.sleep(20)
                    late = asyncio.get_running_loop().time() + 50
                    await self._client.call(Call(operation="ListJobs", path="/"), deadline=late)
                poll.dropped("no_data")
                await part.publish(count(part.key))

        return BulkCollector(name, interval, run)

    async def aclose(self) -> None:
        if self._stubborn:
            await asyncio.sleep(1000)
        await self._transport.aclose()
        self._world.closed[self.name] += 1


class Site:
    """The daemon of a config file, and its world."""

    def __init__(
        self,
        folder: Path,
        text: str = config("name: a"),
        caplog: pytest.LogCaptureFixture | None = None,
        *,
        lease: KubernetesLease | None = None,
    ) -> None:
        self.path = folder / "config.yaml"
        self.world, self.lease, self.reads = World(), lease, 0
        self._caplog = caplog
        self.write(text)
        web = WebSettings(addresses=("127.0.0.1:0",), enable_lifecycle=True)
        platforms = {"small": self.world.platform}
        self.daemon = Daemon(self.load(), platforms, web, load=self.load, lease=lease)
        assert self.daemon._reloader is not None
        self.exporter, self.schedule, self.reloader = self.daemon.exporter, self.daemon._schedule, self.daemon._reloader

    def write(self, text: str) -> None:
        draft = self.path.with_suffix(".new")
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.path)  # whole: a reload may be reading

    def load(self) -> Config:
        self.reads += 1
        return load_config(self.path, environ={}, platforms={"small": SmallConfig})

    async def reload(self, text: str) -> ReloadOutcome:
        """Write another config, and have it read."""
        self.write(text)
        return await self.reloader.reload()

    async def get(self, path: str, method: str = "GET") -> httpx.Response:
        async with httpx.AsyncClient(base_url=f"http://{self.daemon.server.addresses[0]}", trust_env=False) as client:
            return await client.request(method, path)

    async def post(self, text: str) -> httpx.Response:
        """Write another config, and have it read by a request."""
        self.write(text)
        return await self.get("/-/reload", "POST")

    async def page(self) -> list[str]:
        """The lines of a scrape that are about trainfleet."""
        text = (await self.exporter.text()).decode()
        check(text)
        return [line for line in text.splitlines() if line.startswith("trainfleet_") and "build_info" not in line]

    async def of(self, provider: str = "") -> list[str]:
        """The lines of a provider, or of all providers."""
        return [line for line in await self.page() if f'provider="{provider}' in line]

    def own(self, name: str, **labels: str) -> float | None:
        return self.exporter.telemetry.registry.get_sample_value(f"trainfleet_exporter_{name}", labels)

    def runner(self, provider: str, collector: str = "jobs") -> Runner:
        return next(
            runner
            for runner in self.exporter.runners
            if (runner.state.provider, runner.state.collector) == (provider, collector)
        )

    def log(self, level: int) -> list[str]:
        """What was logged at a level."""
        assert self._caplog is not None
        return [record.getMessage() for record in self._caplog.records if record.levelno == level]

    @property
    def calls(self) -> int:
        return self.world.calls.total()

    @property
    def leads(self) -> float | None:
        return self.own("leader")

    async def usurp(self) -> None:
        """Have the lease name another exporter, which never renews it."""
        assert self.lease is not None
        seen = await self.lease.read()
        await self.lease.write(seen, "usurper", seen.term + 1)


@contextlib.asynccontextmanager
async def site(folder: Path, text: str, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Site]:
    """A site that polls; stopped at the end."""
    caplog.set_level(logging.INFO)
    found = Site(folder, text, caplog)
    try:
        await found.daemon.start()
        yield found
    finally:
        await found.daemon.stop()
