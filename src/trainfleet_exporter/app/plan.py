"""The changes of a new config: which providers it keeps, rebuilds and removes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainfleet_exporter.config import AccountKey, Config, Global, ProviderConfig
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.pacing import Pace
from trainfleet_exporter.polling import Runner, Schedule
from trainfleet_exporter.process.files import read_regular_file
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.registry import Provider
from trainfleet_exporter.transport import Account

log = logging.getLogger(__name__)

_END_SECONDS = 5.0
"""Seconds to wait for the end of removed providers; what they publish later is ignored."""


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

    @property
    def changes(self) -> dict[str, list[str]]:
        """The names of providers by what becomes of them, without empty lists."""
        before, after = ({member.name for member in some} for some in (self.gone, self.members))
        changes = {
            "added": [member.name for member in self.fresh if member.name not in before],
            "removed": [member.name for member in self.gone if member.name not in after],
            "changed": [member.name for member in self.fresh if member.name in before],
            "kept": [member.name for member in self.members if member not in self.fresh],
        }
        return {change: names for change, names in changes.items() if names}


def digest(path: Path | None) -> bytes:
    """Return a digest of a file; empty if it is missing or unreadable."""
    try:
        return b"" if path is None else hashlib.sha256(read_regular_file(path, 10_000_000)[1]).digest()
    except OSError:  # the provider that needs the file reports it
        return b""


async def retire(schedule: Schedule, gone: Sequence[Member]) -> None:
    """End the polls of removed providers, and close them."""

    async def end(member: Member) -> None:
        await schedule.remove(member.runners)
        await member.provider.aclose()

    try:
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.gather(*map(end, gone))
    except TimeoutError:
        log.warning("removed providers did not end in time", extra=fields(seconds=_END_SECONDS))
    except Exception:
        log.exception("closing removed providers failed: internal error")
