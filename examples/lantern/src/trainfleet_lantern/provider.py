"""Lantern Cloud as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.providers.transport_factory import open_transport
from trainfleet_lantern.auth import LanternDialect
from trainfleet_lantern.client import LanternClient
from trainfleet_lantern.collectors import JobCounts, Jobs, LanternShared, Pools, Usage
from trainfleet_lantern.config import LanternConfig


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """The source of the credentials, in words (providers.registry.Identity)."""

    origin: str
    expires: float | None = None


class Lantern:
    """One account of Lantern Cloud (providers.registry.Provider)."""

    def __init__(self, config: LanternConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        self.endpoints: Mapping[str, str] = {"lantern": config.endpoint("lantern")}
        token = config.credentials.token
        self.identity = TokenIdentity("token of the config" if token.path is None else f"token file {token.path}")
        self._transport = open_transport(config, context)
        client = LanternClient(self._transport.client(config.endpoint("lantern"), LanternDialect(token)))
        shared = LanternShared(config, context, client)
        self.collectors: Sequence[Collector] = tuple(_collectors(config, shared, context.settings.poll_interval))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


def _collectors(config: LanternConfig, shared: LanternShared, every: float) -> Iterator[Collector]:
    chosen = config.collectors
    yield from collectors_of([Jobs(shared)], chosen, every)
    if chosen.job_counts.enabled:
        yield JobCounts("job_counts", shared, chosen.job_counts.effective_interval(every))
    if chosen.usage.enabled:
        yield Usage("usage", shared, chosen.usage.effective_interval(every))
    if chosen.pools.enabled:
        yield Pools(shared, chosen.pools.effective_interval(every))


PLATFORM = Platform(
    name="lantern",
    config=LanternConfig,
    build=Lantern,
    permissions={
        "ListWorkspaces": "workspaces.read",
        "ListJobs": "jobs.read",
        "GetJob": "jobs.read",
        "GetSummary": "jobs.read",
        "ListUsage": "usage.read",
        "ListPools": "pools.read",
    },
)
