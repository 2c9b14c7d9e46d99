"""Platforms: each cloud is one folder here (or one package of somebody else's) and one entry point.

The entry-point group `trainfleet_exporter.providers` names objects of type `Platform`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol

from trainfleet_exporter.config import Global, ProviderConfig
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.transport import Attempt

GROUP = "trainfleet_exporter.providers"


class Provider(Protocol):
    """One configured account and region, ready to be polled."""

    @property
    def name(self) -> str: ...
    @property
    def facts(self) -> ProviderFacts: ...
    @property
    def collectors(self) -> Sequence[Collector]: ...
    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Platform:
    """A cloud: how its providers are configured, and how one is made of its config.

    `build` gets the provider's config, the global config, and whom to tell of each attempt to call an API.
    """

    name: str
    config: type[ProviderConfig]
    build: Callable[[Any, Global, Callable[[Attempt], None]], Provider]


def installed_platforms() -> dict[str, Platform]:
    """Every platform that is installed, by the word that `platform:` takes."""
    platforms = (entry.load() for entry in entry_points(group=GROUP))
    return {platform.name: platform for platform in platforms}
