"""The keys of a provider of platform `lantern` in the config file."""

from __future__ import annotations

from trainfleet_exporter.config import Collector, ProviderConfig, Section
from trainfleet_exporter.config.kinds import Duration, Endpoint, SecretText


class Credentials(Section):
    """The credentials of a provider."""

    token: SecretText
    """The token of a service account, or `token_file`."""


class Endpoints(Section):
    """Addresses in place of those made from the region."""

    lantern: Endpoint | None = None
    """The only API."""


class JobCounts(Collector):
    """Finished jobs by state."""

    interval: Duration | None = 300.0


class Collectors(Section):
    """Which collectors run, and how often."""

    jobs: Collector = Collector()
    """Live jobs and how they end. `usage` needs it."""
    job_counts: JobCounts = JobCounts()
    """Finished jobs by state."""
    usage: Collector = Collector()
    """How much jobs use of the accelerators that they hold."""
    pools: Collector = Collector()
    """The capacity of pools, and how much of it is allocated."""


class LanternConfig(ProviderConfig):
    """One account of Lantern Cloud."""

    apis = ("lantern",)
    dependents = {"jobs": ("usage",)}  # noqa: RUF012 - a class variable of the base

    credentials: Credentials
    """The credentials of the provider."""
    endpoints: Endpoints = Endpoints()
    collectors: Collectors = Collectors()

    def public_endpoint(self, api: str) -> str:
        return f"https://{self.region}.api.lantern.example"
