"""What a provider of platform `alibaba_pai` may say in the config file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from pydantic import Field

from trainfleet_exporter.config import Collector, ProviderConfig, Section
from trainfleet_exporter.config.kinds import CountFrom0, Duration, Endpoint, Flag, Region, choice, region
from trainfleet_exporter.config.urls import is_link_local
from trainfleet_exporter.providers.alibaba_pai.credentials_config import OR_CHAIN, Credentials
from trainfleet_exporter.providers.alibaba_pai.usage_config import UsageMetrics

_HOSTS = {
    "dlc": "pai-dlc.{}.aliyuncs.com",
    "paistudio": "pai.{}.aliyuncs.com",
    "aiworkspace": "aiworkspace.{}.aliyuncs.com",
    "cloudmonitor": "metrics.{}.aliyuncs.com",
    "sts": "sts.{}.aliyuncs.com",
}
_REGION = region(
    r"((cn-(north|south|east|west)(east|west)?|(af|la)-(north|south)|sa-brazil|tr-west|na-mexico|my-kualalumpur"
    r"|ru-northwest)-[0-9]+)|eu-west-(0|101)",
    "Huawei Cloud",
    "cn-hangzhou",
)
_REGIONS = (
    *("cn-hangzhou", "cn-shanghai", "cn-beijing", "cn-shenzhen", "cn-zhangjiakou", "cn-wulanchabu", "cn-hongkong"),
    *("cn-guangzhou", "cn-chengdu", "cn-qingdao", "cn-huhehaote", "cn-heyuan", "cn-nanjing", "cn-fuzhou"),
    *(f"ap-southeast-{number}" for number in (1, 2, 3, 5, 6, 7)),
    *("ap-northeast-1", "ap-northeast-2", "ap-south-1", "us-west-1", "us-east-1", "us-southeast-1", "na-south-1"),
    *("eu-central-1", "eu-west-1", "me-east-1", "me-central-1"),
)
_METADATA = "http://100.100.100.200"

_SOURCES = ("auto", "cloudmonitor", "dlc_metrics", "job_metrics")


class Endpoints(Section):
    """Addresses that take the place of those made from the region; `scheme://host[:port]`."""

    dlc: Endpoint | None = None
    """PAI DLC: jobs, pods, usage of single jobs."""
    paistudio: Endpoint | None = None
    """PAI Studio: quotas (pools), their workloads and nodes."""
    aiworkspace: Endpoint | None = None
    """PAI AIWorkSpace: workspaces."""
    cloudmonitor: Endpoint | None = None
    """CloudMonitor: usage of jobs, pods, cards and pools."""
    sts: Endpoint | None = None
    """STS, where a role is assumed."""
    metadata: Endpoint | None = None
    """The machine's own metadata service, which is plain HTTP by nature."""


class JobCounts(Collector):
    """Jobs by status, finished ones included."""

    interval: Duration | None = 300.0


class Pods(Collector):
    """What only a job's detail tells: one call a job and cycle."""

    interval: Duration | None = 300.0
    max_jobs: CountFrom0 = 500
    """How many live jobs at most are asked for, newest first."""


class Usage(Collector):
    """How much jobs, pods, their accelerators and pools use of what they have."""

    interval: Duration | None = 120.0
    source: Annotated[Literal["auto", "cloudmonitor", "dlc_metrics", "job_metrics"], choice(_SOURCES)] = "auto"
    """`cloudmonitor` asks for all jobs together, `job_metrics` and `dlc_metrics` for each; `auto` is CloudMonitor, and
    `job_metrics` for the pay-as-you-go jobs on general computing that it lacks."""
    metrics: UsageMetrics = UsageMetrics()
    """What feeds which family, in place of or beyond the table of this platform."""
    max_jobs: CountFrom0 = 500
    """How many jobs at most are asked for one by one, newest first; CloudMonitor is asked for all together."""

    @property
    def by_cloudmonitor(self) -> bool:
        """Whether CloudMonitor serves some jobs, and pools."""
        return self.source in ("auto", "cloudmonitor")


class Nodes(Collector):
    """The nodes of each pool; off unless it is switched on."""

    enabled: Flag = False
    interval: Duration | None = 300.0


class Collectors(Section):
    """Which collectors run, and how often."""

    foreign_keys = {  # noqa: RUF012 - a class variable of the base
        "jobs_v1": "only Huawei Cloud has a v1 API of jobs; leave it out",
        "pool_usage": "usage covers pools on this cloud; leave it out",
    }

    job_counts: JobCounts = JobCounts()
    """Finished jobs by status; live ones are counted from `jobs`."""
    jobs: Collector = Collector()
    """Live jobs, and how they end. `pods` and `usage` need it."""
    pods: Pods = Pods()
    """Pods of live jobs: one call a job."""
    usage: Usage = Usage()
    """How much jobs, pods, their accelerators and pools use of what they have."""
    pools: Collector = Collector()
    """Resource quotas. `pool_workloads` and `nodes` need it."""
    pool_workloads: Collector = Collector()
    """What runs and waits in each pool, and each job's place in the queue."""
    nodes: Nodes = Nodes()
    """The nodes of each pool."""


class AlibabaPaiConfig(ProviderConfig):
    """One account and region of Alibaba Cloud PAI."""

    apis = ("dlc", "paistudio", "aiworkspace", "cloudmonitor", "sts")
    other_platform_names = ("aliyun", "alicloud", "alibaba", "alibabacloud", "pai", "dlc")
    foreign_keys = {"project_id": "only Huawei Cloud has projects; leave it out"}  # noqa: RUF012 - as in the base
    known_regions = _REGIONS
    splits_workspaces = True

    region: Annotated[Region, _REGION]
    """The cloud's ID of the region, from which the addresses of its APIs are made."""
    credentials: Annotated[Credentials, OR_CHAIN] = Field(default=None, validate_default=True)
    """Who asks; left out, what the vendor's own chain finds."""
    endpoints: Endpoints = Endpoints()
    """Addresses in place of the public ones of the region."""
    collectors: Collectors = Collectors()
    """Which collectors run, and how often."""

    def endpoint(self, api: str) -> str:
        """The base URL of one API: the configured one, or the public one of the region."""
        configured: str | None = getattr(self.endpoints, api)
        if api == "metadata":
            return configured or _METADATA
        return configured or f"https://{_HOSTS[api].format(self.region)}"

    def endpoints_in_use(self) -> Mapping[str, str]:
        return {api: self.endpoint(api) for api in Endpoints.model_fields}

    def given_endpoints(self) -> Mapping[str, str]:
        given = {api: url for api in _HOSTS if (url := getattr(self.endpoints, api)) is not None}
        metadata = self.endpoints.metadata
        # Plain http by nature, within the machine's own network; elsewhere it hands keys to whoever listens.
        if metadata is not None and metadata != _METADATA and not is_link_local(metadata):
            given["metadata"] = metadata
        return given

    def bulk_collectors(self) -> Mapping[str, Collector]:
        chosen = self.collectors
        found = {
            "job_counts": chosen.job_counts,
            "jobs": chosen.jobs,
            "pools": chosen.pools,
            "pool_workloads": chosen.pool_workloads,
            "nodes": chosen.nodes,
        }
        return found | ({"usage": chosen.usage} if chosen.usage.by_cloudmonitor else {})

    def primary_apis(self) -> Collection[str]:
        # GetMetrics goes by CloudMonitor's catalogue, which each shard reads for its own jobs.
        return () if self.collectors.usage.source == "dlc_metrics" else ("cloudmonitor",)

    def needed(self) -> Mapping[str, tuple[Collector, Mapping[str, Collector]]]:
        chosen = self.collectors
        return {
            "jobs": (chosen.jobs, {"pods": chosen.pods, "usage": chosen.usage}),
            "pools": (chosen.pools, {"pool_workloads": chosen.pool_workloads, "nodes": chosen.nodes}),
        }
