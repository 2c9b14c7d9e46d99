"""The common part of the configs of the built-in clouds: endpoints by region, and collectors that need each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import PrivateAttr, ValidationInfo, model_validator

from trainfleet_exporter.config.kinds import Duration, Flag, Surroundings
from trainfleet_exporter.config.schema import Collector, ProviderConfig, Section
from trainfleet_exporter.config.urls import is_link_local
from trainfleet_exporter.process.redaction import HoldsSecrets


class SlowCollector(Collector):
    """A collector whose values change slowly."""

    interval: Duration | None = 300.0


class OptionalCollector(SlowCollector):
    """A slow collector that is off by default."""

    enabled: Flag = False


@dataclass(frozen=True, slots=True)
class _Variable(HoldsSecrets):
    name: str
    text: str = field(repr=False)


class Variables(Mapping[str, str]):
    """The variables that the vendor's tools read, and HOME, as they were when the config was read."""

    def __init__(self, environ: Mapping[str, str], prefix: str) -> None:
        names = sorted(name for name in environ if name == "HOME" or name.startswith(prefix))
        self._all = tuple(_Variable(name, environ[name]) for name in names)

    def __getitem__(self, name: str) -> str:
        for variable in self._all:
            if variable.name == name:
                return variable.text
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (variable.name for variable in self._all)

    def __len__(self) -> int:
        return len(self._all)


class CloudConfig(ProviderConfig):
    """A provider of a cloud with an address of each API in each region, and a metadata service on its machines."""

    metadata_service: ClassVar[str]
    """The address of the metadata service, the same on every machine."""
    variables_prefix: ClassVar[str]
    """What the names of the vendor's variables begin with."""
    dependents: ClassVar[Mapping[str, tuple[str, ...]]]
    """The collectors that need another one, by its key."""

    _variables: Variables = PrivateAttr(Variables({}, ""))

    if TYPE_CHECKING:  # each cloud declares its own, among its other keys
        endpoints: Section
        collectors: Section

    @property
    def variables(self) -> Variables:
        """The environment in which credentials are found."""
        return self._variables

    @model_validator(mode="after")
    def _note_variables(self, info: ValidationInfo) -> Self:
        self._variables = Variables(Surroundings.of(info).environ, self.variables_prefix)
        return self

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
