"""What a provider of platform `huawei_modelarts` may say in the config file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from trainfleet_exporter.config import Collector, ProviderConfig, Section
from trainfleet_exporter.config.kinds import (
    Duration,
    Endpoint,
    Flag,
    ProjectId,
)
from trainfleet_exporter.config.urls import is_link_local
from trainfleet_exporter.providers.huawei_modelarts.credentials_config import OR_CHAIN, Credentials
from trainfleet_exporter.providers.huawei_modelarts.usage_config import Usage

_HOSTS = {
    "modelarts": "modelarts.{}.myhuaweicloud.com",
    "iam": "iam.{}.myhuaweicloud.com",
    "sts": "sts.{}.myhuaweicloud.com",
    "aom": "aom.{}.myhuaweicloud.com",
}
_FIXED = {"metadata": "http://169.254.169.254"}
"""The same on every cloud server, and reached within it only."""


class Endpoints(Section):
    """Addresses that take the place of those made from the region; `scheme://host[:port]`."""

    modelarts: Endpoint | None = None
    iam: Endpoint | None = None
    sts: Endpoint | None = None
    metadata: Endpoint | None = None
    aom: Endpoint | None = None


class JobCounts(Collector):
    """Finished jobs by phase."""

    interval: Duration | None = 300.0


class OptionalCollector(Collector):
    """Off unless it is switched on, and slow."""

    enabled: Flag = False
    interval: Duration | None = 300.0


class Collectors(Section):
    """Which collectors run, and how often."""

    job_counts: JobCounts = JobCounts()
    jobs: Collector = Collector()
    usage: Usage = Usage()
    pools: Collector = Collector()
    pool_workloads: Collector = Collector()
    jobs_v1: OptionalCollector = OptionalCollector()
    pool_usage: Collector = Collector()
    nodes: OptionalCollector = OptionalCollector()


class HuaweiModelArtsConfig(ProviderConfig):
    """One project of Huawei Cloud ModelArts."""

    apis = ("modelarts", "iam", "aom")

    project_id: ProjectId | None = None
    """None: the project that is named like the region."""
    credentials: Annotated[Credentials, OR_CHAIN] = Field(default=None, validate_default=True)
    endpoints: Endpoints = Endpoints()
    collectors: Collectors = Collectors()

    def endpoint(self, api: str) -> str:
        """The base URL of one API: the configured one, or the public one of the region."""
        configured: str | None = getattr(self.endpoints, api)
        return configured or _FIXED.get(api) or f"https://{_HOSTS[api].format(self.region)}"

    def given_endpoints(self) -> Mapping[str, str]:
        given = {api: url for api in _HOSTS if (url := getattr(self.endpoints, api)) is not None}
        metadata = self.endpoints.metadata
        # Plain http by nature, within the machine's own network; elsewhere it hands keys to whoever listens.
        if metadata is not None and metadata != _FIXED["metadata"] and not is_link_local(metadata):
            given["metadata"] = metadata
        return given

    def sweeps(self) -> Mapping[str, Collector]:
        chosen = self.collectors
        return {
            "job_counts": chosen.job_counts,
            "jobs": chosen.jobs,
            "pools": chosen.pools,
            "pool_workloads": chosen.pool_workloads,
            "pool_usage": chosen.pool_usage,
            "nodes": chosen.nodes,
            **({"usage": chosen.usage} if chosen.usage.asks_aom else {}),
        }

    def needed(self) -> Mapping[str, tuple[Collector, Mapping[str, Collector]]]:
        chosen = self.collectors
        return {
            "jobs": (chosen.jobs, {"usage": chosen.usage}),
            "pools": (
                chosen.pools,
                {
                    "pool_workloads": chosen.pool_workloads,
                    "pool_usage": chosen.pool_usage,
                    "nodes": chosen.nodes,
                },
            ),
        }
