"""Platforms: each cloud is one folder here (or a package of another author) and one entry point.

The entry-point group `trainfleet_exporter.providers` names objects of type `Platform`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Protocol

from trainfleet_exporter.config import Global, ProviderConfig
from trainfleet_exporter.model import JobEnd, ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.past import Past
from trainfleet_exporter.transport import Account, Attempt, HttpSettings, Transport

GROUP = "trainfleet_exporter.providers"


class Identity(Protocol):
    """The credentials of a provider: their source, and their expiration."""

    @property
    def origin(self) -> str:
        """Their source for users; never the credentials themselves."""
        ...

    @property
    def expires(self) -> float | None:
        """Unix seconds at which the credentials in use end; None for those that do not, or while there are none."""
        ...


class Provider(Protocol):
    """One configured account and region, ready to be polled."""

    @property
    def name(self) -> str: ...
    @property
    def facts(self) -> ProviderFacts: ...
    @property
    def collectors(self) -> Sequence[Collector]: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def endpoints(self) -> Mapping[str, str]:
        """The base URL of each API that is called, by its label `api`."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The inputs from which the exporter builds a provider."""

    settings: Global
    account: Account
    """Shared with the other providers of the same account."""
    observe: Callable[[Attempt], None]
    """Receives each attempt to call an API."""
    record_end: Callable[[JobEnd], None] = lambda end: None
    """Receives each job that was seen to end, once."""
    clock: ServerClock = field(default_factory=ServerClock)
    """The time of the cloud. Topics ask it wherever they compare times with those of the cloud."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A cloud: how its providers are configured, and how one is made of its config."""

    name: str
    config: type[ProviderConfig]
    build: Callable[[Any, BuildContext], Provider]
    permissions: Mapping[str, str] = field(default_factory=dict)
    """By operation, the right that it needs, by its name in the cloud's access management."""
    kept: Mapping[str, float] = field(default_factory=dict)
    """By operation, how many seconds its answer is kept, where that is longer than an interval (catalogues, tokens)."""
    free_calls: Mapping[str, int] = field(default_factory=dict)
    """By API, how many calls a month an account has without paying, where the cloud says so."""
    past: Callable[[Any, BuildContext], Past] | None = None
    """Opens the past of a provider by its config; None if the cloud keeps none."""


def open_transport(config: ProviderConfig, context: BuildContext) -> Transport:
    """The transport that all APIs of one provider share: its account's limits, the HTTP settings of its config."""
    return Transport(
        account=context.account,
        http=HttpSettings(
            proxy_url=None if config.http.proxy_url is None else config.http.proxy_url.reveal(),
            ca_file=config.http.ca_file,
            connect_timeout=config.http.connect_timeout,
            request_timeout=config.http.request_timeout,
        ),
        observe=context.observe,
    )


def installed_platforms() -> dict[str, Platform]:
    """Every platform that is installed, by the word that `platform:` takes."""
    platforms = (entry.load() for entry in entry_points(group=GROUP))
    return {platform.name: platform for platform in platforms}
