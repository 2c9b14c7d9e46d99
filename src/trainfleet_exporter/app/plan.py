"""The changes of a new config: which providers it keeps, rebuilds and removes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from trainfleet_exporter.config import AccountKey, Config, Global, ProviderConfig
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.pacing import Pace
from trainfleet_exporter.polling import Runner
from trainfleet_exporter.providers.registry import Provider
from trainfleet_exporter.transport import Account


@dataclass(frozen=True, slots=True)
class Basis:
    """The inputs of a provider. Equal inputs build the same provider."""

    config: ProviderConfig
    settings: Global
    certificates: bytes = field(repr=False)
    """A digest of its `ca_file`, which is read once: another file of that name is another basis."""


@dataclass(slots=True, eq=False)
class Member:
    """A built provider with its runners, which start when the plan is applied."""

    basis: Basis
    provider: Provider
    account: Account
    paces: list[Pace] = field(default_factory=list)
    """One for each runner."""
    runners: list[Runner] = field(default_factory=list)
    shown: ProviderFacts | None = None

    @property
    def name(self) -> str:
        return self.basis.config.name


@dataclass(slots=True)
class Plan:
    """A config that is ready to replace the running one. Nothing of it is visible before."""

    config: Config
    accounts: dict[AccountKey, Account]
    members: list[Member]
    """In the order of the config, including unchanged ones."""
    fresh: list[Member]
    """The providers that were built for this plan."""
    gone: list[Member]
    """The running providers that it replaces or removes."""

    def idle(self) -> Plan:
        """Return a plan for the same config without providers, for a standby."""
        return Plan(self.config, {}, [], [], [])

    @property
    def added(self) -> list[str]:
        """The providers that are new, by name."""
        before = {member.name for member in self.gone}
        return [member.name for member in self.fresh if member.name not in before]

    @property
    def changed(self) -> list[str]:
        """The providers that are rebuilt, by name."""
        before = {member.name for member in self.gone}
        return [member.name for member in self.fresh if member.name in before]

    @property
    def removed(self) -> list[str]:
        """The providers that are removed, by name."""
        after = {member.name for member in self.members}
        return [member.name for member in self.gone if member.name not in after]

    @property
    def kept(self) -> list[str]:
        """The providers that stay unchanged, by name."""
        return [member.name for member in self.members if member not in self.fresh]


def bases(config: Config) -> list[Basis]:
    """Return the inputs of each provider of a config. It reads files, so call it in a thread."""
    settings = config.global_.model_copy(update={"ledger_file": None})  # not their business
    return [Basis(found, settings, _digest(found.http.ca_file)) for found in config.providers]


def _digest(path: Path | None) -> bytes:
    """Return a digest of a file; empty if it is missing or unreadable."""
    try:
        return b"" if path is None else hashlib.sha256(path.read_bytes()).digest()
    except OSError:  # the provider that needs the file reports it
        return b""
