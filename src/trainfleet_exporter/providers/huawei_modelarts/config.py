"""What a provider of platform `huawei_modelarts` may say in the config file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainfleet_exporter.config import Collector, ProviderConfig, Section
from trainfleet_exporter.config.kinds import (
    Duration,
    Endpoint,
    Flag,
    ProjectId,
    SecretText,
    Text,
    choice,
    or_environment,
)
from trainfleet_exporter.config.scalars import refuse
from trainfleet_exporter.config.wording import Rule
from trainfleet_exporter.providers.huawei_modelarts.auth import AccessKeys, Credential, Password

ENVIRONMENT = {
    "access_key": "HUAWEICLOUD_SDK_AK",
    "secret_key": "HUAWEICLOUD_SDK_SK",
    "security_token": "HUAWEICLOUD_SDK_SECURITY_TOKEN",
}
"""Where credentials come from when the file has none: the environment's part of the vendor's own chain."""

_HOSTS = {
    "modelarts": "modelarts.{}.myhuaweicloud.com",
    "iam": "iam.{}.myhuaweicloud.com",
}


class Credentials(Section):
    """An access key, perhaps a temporary one with its token; or an IAM user's password."""

    access_key: SecretText | None = None
    secret_key: SecretText | None = None
    security_token: SecretText | None = None
    username: Text | None = None
    password: SecretText | None = None
    domain_name: Text | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        keys = (self.access_key, self.secret_key)
        user = (self.username, self.password, self.domain_name)
        by_keys = all(keys) and not any(user)
        by_password = all(user) and not any((*keys, self.security_token))
        if not by_keys and not by_password:
            refuse(Rule.CREDENTIALS_FORM)
        return self


class Endpoints(Section):
    """Addresses that take the place of those made from the region; `scheme://host[:port]`."""

    later = MappingProxyType({"aom": "leave it out, since this version does not ask AOM"})

    modelarts: Endpoint | None = None
    iam: Endpoint | None = None


class JobCounts(Collector):
    """Finished jobs by phase."""

    interval: Duration | None = 300.0


class Usage(Collector):
    """How much jobs and their tasks use of what they have."""

    later = MappingProxyType(
        dict.fromkeys(("metrics", "aom_instance"), "leave it out, since this version does not ask AOM")
    )

    interval: Duration | None = 120.0
    source: Annotated[Literal["auto", "task_metrics"], choice(("auto", "task_metrics"), later=("aom",))] = "auto"


class OptionalCollector(Collector):
    """Off unless it is switched on."""

    enabled: Flag = False


class Collectors(Section):
    """Which collectors run, and how often."""

    job_counts: JobCounts = JobCounts()
    jobs: Collector = Collector()
    usage: Usage = Usage()
    pools: Collector = Collector()
    pool_workloads: Collector = Collector()
    jobs_v1: OptionalCollector = OptionalCollector(interval=300.0)
    pool_usage: OptionalCollector = OptionalCollector()
    nodes: OptionalCollector = OptionalCollector()


class HuaweiModelArtsConfig(ProviderConfig):
    """One project of Huawei Cloud ModelArts."""

    project_id: ProjectId | None = None
    """None: the project that is named like the region."""
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
        return {
            "job_counts": chosen.job_counts,
            "jobs": chosen.jobs,
            "pools": chosen.pools,
            "pool_workloads": chosen.pool_workloads,
        }

    def needed(self) -> Mapping[str, tuple[Collector, Mapping[str, Collector]]]:
        chosen = self.collectors
        return {
            "jobs": (chosen.jobs, {"usage": chosen.usage}),
            "pools": (chosen.pools, {"pool_workloads": chosen.pool_workloads}),
        }

    def unserved(self) -> Mapping[str, Collector]:
        return {"pool_usage": self.collectors.pool_usage, "nodes": self.collectors.nodes}

    def current_credential(self) -> Credential:
        """The credential for one attempt, read anew from files that have changed (`AccessDenied` if unreadable)."""
        given = self.credentials
        if given.access_key is not None and given.secret_key is not None:
            token = given.security_token
            return AccessKeys(
                given.access_key.reveal(), given.secret_key.reveal(), None if token is None else token.reveal()
            )
        assert given.password is not None
        return Password(given.username or "", given.password.reveal(), given.domain_name or "")
