"""The keys of a provider of platform `alibaba_pai` in the config file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from trainfleet_exporter.config import Collector, Section
from trainfleet_exporter.config.kinds import CountFrom0, Duration, Endpoint, Region, Text
from trainfleet_exporter.config.schema import OptionalCollector, ProviderConfig, SlowCollector
from trainfleet_exporter.families.usage import Family, Profile
from trainfleet_exporter.fleet.chosen_metrics import ChosenMetrics, ProfiledUsage
from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.alibaba_pai.credentials import Credentials, load
from trainfleet_exporter.providers.alibaba_pai.metrics import FAMILIES, UNITS, Choice
from trainfleet_exporter.providers.key_search import KeyHttp, checked, open_credential
from trainfleet_exporter.providers.keys import Credential

_HOSTS = {"dlc": "pai-dlc", "paistudio": "pai", "cloudmonitor": "metrics"}
"""How the addresses of APIs begin. All others begin with the name of the API."""
_REGIONS = (
    *("cn-hangzhou", "cn-shanghai", "cn-beijing", "cn-shenzhen", "cn-zhangjiakou", "cn-wulanchabu", "cn-hongkong"),
    *("cn-guangzhou", "cn-chengdu", "cn-qingdao", "cn-huhehaote", "cn-heyuan", "cn-nanjing", "cn-fuzhou"),
    *(f"ap-southeast-{number}" for number in (1, 2, 3, 5, 6, 7)),
    *("ap-northeast-1", "ap-northeast-2", "ap-south-1", "us-west-1", "us-east-1", "us-southeast-1", "na-south-1"),
    *("eu-central-1", "eu-west-1", "me-east-1", "me-central-1"),
)


class Endpoints(Section):
    """Addresses that replace the public ones of the region: `scheme://host[:port]`."""

    dlc: Endpoint | None = None
    """PAI DLC: jobs, pods, usage of single jobs."""
    paistudio: Endpoint | None = None
    """PAI Studio: quotas (pools), their workloads and nodes."""
    aiworkspace: Endpoint | None = None
    """PAI AIWorkSpace: workspaces."""
    cloudmonitor: Endpoint | None = None
    """CloudMonitor: usage of jobs, pods, accelerators and pools."""
    sts: Endpoint | None = None
    """STS: temporary credentials of a role."""
    metadata: Endpoint | None = None
    """Metadata service of the ECS instance. It always uses plain HTTP."""


class Pods(SlowCollector):
    """The details of jobs, with one call for each job in a cycle."""

    max_jobs: CountFrom0 = 500
    """Largest number of live jobs that the collector polls. Jobs that hold resources come before waiting
    jobs, and new jobs before old jobs."""


def _metric_of(family: Family) -> type[Choice]:
    """Build the section for one family. A family without a default metric requires a name, and the unit must fit."""
    name: Any = (Text | None, None) if family.names else (Text, ...)
    unit: Any = Literal[tuple(UNITS[family.quantity])]
    return create_model(f"MetricOf_{family.suffix}", __base__=Choice, name=name, unit=(unit | None, None))


if TYPE_CHECKING:
    UsageMetrics = ChosenMetrics
else:
    UsageMetrics = create_model(
        "UsageMetrics",
        __base__=ChosenMetrics,
        **{suffix: (_metric_of(family) | None, None) for suffix, family in FAMILIES.items()},
    )


class Usage(ProfiledUsage):
    """Utilization and usage of jobs, pods, accelerators and pools."""

    bulk, one_by_one, families = "cloudmonitor", "job_metrics", FAMILIES

    interval: Duration | None = 120.0
    source: Literal["auto", "cloudmonitor", "job_metrics"] = "auto"
    """`cloudmonitor` reads all jobs together. `job_metrics` makes calls for each job. `auto` reads pay-as-you-go jobs
    on general computing with `job_metrics`, and all others from CloudMonitor. Only CloudMonitor has power and usage of
    pools."""
    profiling: tuple[Profile, ...] = ()
    """Profiling metrics and health of accelerators to read. `nvlink` and `pcie` are two metrics each; every other name
    is one metric. A metric costs one call per poll and 1,440 accelerators. Not allowed with `job_metrics`."""
    metrics: UsageMetrics = UsageMetrics()
    """Metrics to read for certain families, instead of the defaults."""
    max_jobs: CountFrom0 = 500
    """Largest number of jobs that the exporter polls one by one, newest first. It does not limit CloudMonitor."""

    @property
    def by_cloudmonitor(self) -> bool:
        """Whether CloudMonitor serves some jobs, and pools."""
        return self.enabled and self.source != "job_metrics"

    def in_bulk(self, job: Job) -> bool:
        """Whether CloudMonitor serves a job. GetJobMetrics is kept up for pay-as-you-go jobs on general computing only,
        and CloudMonitor has all others."""
        is_pay_as_you_go = job.payment_type == "PostPaid" and job.resource_type in ("", "ECS")
        return self.by_cloudmonitor and not (self.source == "auto" and is_pay_as_you_go)


class Collectors(Section):
    """Which collectors run, and how often."""

    foreign_keys = {  # noqa: RUF012 - a class variable of the base
        "jobs_v1": "only Huawei Cloud has a v1 API of jobs; leave it out",
        "pool_usage": "usage covers pools on this cloud; leave it out",
    }

    job_counts: SlowCollector = SlowCollector()
    """Finished jobs by status. `jobs` counts the live ones."""
    jobs: Collector = Collector()
    """Live jobs and their final status. `pods` and `usage` need it."""
    pods: Pods = Pods()
    """Pods of live jobs, with one call for each job."""
    usage: Usage = Usage()
    """Utilization and usage of jobs, pods, accelerators and pools."""
    pools: Collector = Collector()
    """Resource quotas. `pool_workloads`, `pool_users` and `nodes` need it."""
    pool_workloads: Collector = Collector()
    """Workloads of each pool, and the position of each job in the queue."""
    pool_users: OptionalCollector = OptionalCollector()
    """Who holds the accelerators of each pool."""
    nodes: OptionalCollector = OptionalCollector()
    """The nodes of each pool."""


class AlibabaPaiConfig(ProviderConfig):
    """One account and region of Alibaba Cloud PAI."""

    apis = ("dlc", "paistudio", "aiworkspace", "cloudmonitor", "sts")
    other_platform_names = ("aliyun", "alicloud", "alibaba", "alibabacloud", "pai", "dlc")
    foreign_keys = {"project_id": "only Huawei Cloud has projects; leave it out"}  # noqa: RUF012 - as in the base
    known_regions = _REGIONS
    variables_prefix = "ALIBABA_CLOUD_"
    metadata_service = "http://100.100.100.200"
    dependents = {  # noqa: RUF012 - as in the base
        "jobs": ("pods", "usage"),
        "pools": ("pool_workloads", "pool_users", "nodes"),
    }

    region: Region
    """The cloud's ID of the region, such as cn-hangzhou. The addresses of the APIs follow from it."""
    credentials: Annotated[Credentials | None, checked(load)] = Field(default=None, validate_default=True)
    """Credentials. Default: the default chain of the vendor."""
    endpoints: Endpoints = Endpoints()
    collectors: Collectors = Collectors()

    def open_identity(self, http: KeyHttp) -> Credential:
        return open_credential(self.name, self.credentials, load, http, self.variables)

    def public_endpoint(self, api: str) -> str:
        return f"https://{_HOSTS.get(api, api)}.{self.region}.aliyuncs.com"

    def bulk_collectors(self) -> Mapping[str, Collector]:
        others = {"pods"} if self.collectors.usage.by_cloudmonitor else {"pods", "usage"}
        return {key: collector for key, collector in self.collectors if key not in others}
