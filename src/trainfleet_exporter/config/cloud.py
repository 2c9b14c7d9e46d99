"""The common part of the configs of the built-in clouds: endpoints by region, and collectors that need each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from trainfleet_exporter.config.kinds import Duration, Flag
from trainfleet_exporter.config.schema import Collector, ProviderConfig, Section
from trainfleet_exporter.config.urls import is_link_local


class SlowCollector(Collector):
    """A collector whose values change slowly."""

    interval: Duration | None = 300.0


class OptionalCollector(SlowCollector):
    """A slow collector that is off by default."""

    enabled: Flag = False


class CloudConfig(ProviderConfig):
    """A provider of a cloud with an address of each API in each region, and a metadata service on its machines."""

    metadata_service: ClassVar[str]
    """The address of the metadata service, the same on every machine."""
    dependents: ClassVar[Mapping[str, tuple[str, ...]]]
    """The collectors that need another one, by its key."""

    if TYPE_CHECKING:  # each cloud declares its own, among its other keys
        endpoints: Section
        collectors: Section

    def public_endpoint(self, api: str) -> str:
        """The address of an API in the region."""
        raise NotImplementedError

    def endpoint(self, api: str) -> str:
        """The base URL of one API: the configured one, or the public one of the region."""
        configured: str | None = getattr(self.endpoints, api)
        return configured or (self.metadata_service if api == "metadata" else self.public_endpoint(api))

    def endpoints_in_use(self) -> Mapping[str, str]:
        return {api: self.endpoint(api) for api in type(self.endpoints).model_fields}

    def given_endpoints(self) -> Mapping[str, str]:
        given = {api: url for api, url in self.endpoints if url is not None}
        # Plain http by nature, within the machine's own network; elsewhere anyone who listens would get the keys.
        metadata = given.get("metadata", "")
        if metadata == self.metadata_service or is_link_local(metadata):
            del given["metadata"]
        return given

    def bulk_collectors(self) -> Mapping[str, Collector]:
        return dict(self.collectors)

    def needed(self) -> Mapping[str, tuple[Collector, Mapping[str, Collector]]]:
        chosen = dict(self.collectors)
        return {
            needed: (chosen[needed], {key: chosen[key] for key in others}) for needed, others in self.dependents.items()
        }
