"""Lantern Cloud as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.registry import BuildContext, Platform, open_transport
from trainfleet_lantern import translate
from trainfleet_lantern.auth import LanternDialect
from trainfleet_lantern.client import LanternClient
from trainfleet_lantern.collectors import Jobs, Pools, Usage
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
        fleet = Workspaces(config, context, translate.LIVE)
        topics = [Jobs(fleet, client), Usage(fleet, client), Pools(client)]
        every = context.settings.poll_interval
        self.collectors: Sequence[Collector] = tuple(collectors_of(topics, config.collectors, every))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


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
