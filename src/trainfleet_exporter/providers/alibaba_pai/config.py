"""What a provider of platform `alibaba_pai` may say in the config file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from trainfleet_exporter.config import Collector, ProviderConfig, Section
from trainfleet_exporter.config.kinds import CountFrom0, Duration, Endpoint, Flag, SecretText, choice, or_environment
from trainfleet_exporter.providers.alibaba_pai import credentials as keys

ENVIRONMENT = {
    "access_key_id": "ALIBABA_CLOUD_ACCESS_KEY_ID",
    "access_key_secret": "ALIBABA_CLOUD_ACCESS_KEY_SECRET",
    "security_token": "ALIBABA_CLOUD_SECURITY_TOKEN",
}
"""Where credentials come from when the file has none: the first link of the vendor's own default chain."""

_HOSTS = {
    "dlc": "pai-dlc.{}.aliyuncs.com",
    "paistudio": "pai.{}.aliyuncs.com",
    "aiworkspace": "aiworkspace.{}.aliyuncs.com",
}
_USE_KEYS = "access_key_id and access_key_secret, or no credentials for those of the environment"


class Credentials(Section):
    """An access key, perhaps a temporary one with its token."""

    later = dict.fromkeys(("profile", "role_arn", "external_id", "oidc", "ecs_ram_role"), _USE_KEYS)

    access_key_id: SecretText
    access_key_secret: SecretText
    security_token: SecretText | None = None


class Endpoints(Section):
    """Addresses that take the place of those made from the region; `scheme://host[:port]`."""

    later = MappingProxyType({"cloudmonitor": "leave it out, since this version does not ask CloudMonitor"})

    dlc: Endpoint | None = None
    paistudio: Endpoint | None = None
    aiworkspace: Endpoint | None = None


class JobCounts(Collector):
    """Jobs by status, finished ones included."""

    interval: Duration | None = 300.0


class Pods(Collector):
    """What only a job's detail tells: one call a job and cycle."""

    interval: Duration | None = 300.0
    max_jobs: CountFrom0 = 500
    """How many live jobs at most are asked for, newest first."""


class Usage(Collector):
    """How much jobs and pods use of what they have."""

    later = MappingProxyType({"metrics": "leave it out, since this version does not ask CloudMonitor"})

    interval: Duration | None = 120.0
    source: Annotated[
        Literal["auto", "job_metrics"], choice(("auto", "job_metrics"), later=("cloudmonitor", "dlc_metrics"))
    ] = "auto"


class Nodes(Collector):
    """Off unless it is switched on, in later versions too."""

    enabled: Flag = False


class Collectors(Section):
    """Which collectors run, and how often."""

    job_counts: JobCounts = JobCounts()
    jobs: Collector = Collector()
    pods: Pods = Pods()
    usage: Usage = Usage()
    pools: Collector = Collector()
    pool_workloads: Collector = Collector(enabled=False)
    nodes: Nodes = Nodes()


class AlibabaPaiConfig(ProviderConfig):
    """One account and region of Alibaba Cloud PAI."""

    credentials: Annotated[Credentials, or_environment(ENVIRONMENT)] = Field(default=None, validate_default=True)
    endpoints: Endpoints = Endpoints()
    collectors: Collectors = Collectors()

    def endpoint(self, api: str) -> str:
        """The base URL of one API: the configured one, or the public one of the region."""
        configured: str | None = getattr(self.endpoints, api)
        return configured or f"https://{_HOSTS[api].format(self.region)}"

    def given_endpoints(self) -> Mapping[str, str]:
        return {api: url for api in _HOSTS if (url := getattr(self.endpoints, api)) is not None}

    def sweeps(self) -> Mapping[str, Collector]:
        chosen = self.collectors
        return {"job_counts": chosen.job_counts, "jobs": chosen.jobs, "pools": chosen.pools}

    def needed(self) -> Mapping[str, tuple[Collector, Mapping[str, Collector]]]:
        chosen = self.collectors
        return {"jobs": (chosen.jobs, {"pods": chosen.pods, "usage": chosen.usage})}

    def unserved(self) -> Mapping[str, Collector]:
        return {"pool_workloads": self.collectors.pool_workloads, "nodes": self.collectors.nodes}

    def credentials_source(self) -> keys.Credentials:
        """The keys for signing, read anew from files that have changed (`AccessDenied` if one is unreadable)."""
        given = self.credentials
        parts = [given.access_key_id, given.access_key_secret, given.security_token]
        origins = dict.fromkeys(part.source for part in parts if part is not None)

        def current() -> keys.Keys:
            token = given.security_token
            return keys.Keys(
                access_key_id=given.access_key_id.reveal(),
                access_key_secret=given.access_key_secret.reveal(),
                security_token=None if token is None else token.reveal(),
            )

        return keys.Credentials(origin=", ".join(origins), current=current)
