"""The keys of a provider of platform `alibaba_pai` in the config file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from trainfleet_exporter.config import Collector, Section
from trainfleet_exporter.config.kinds import CountFrom0, Endpoint, Region
from trainfleet_exporter.config.schema import OptionalCollector, ProviderConfig, SlowCollector
from trainfleet_exporter.providers.alibaba_pai.api import load
from trainfleet_exporter.providers.alibaba_pai.credentials import Credentials
from trainfleet_exporter.providers.alibaba_pai.usage.config import Usage
from trainfleet_exporter.providers.key_search import checked

_HOSTS = {
    "dlc": "pai-dlc.{}.aliyuncs.com",
    "paistudio": "pai.{}.aliyuncs.com",
    "aiworkspace": "aiworkspace.{}.aliyuncs.com",
    "cloudmonitor": "metrics.{}.aliyuncs.com",
    "sts": "sts.{}.aliyuncs.com",
}
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

    def public_endpoint(self, api: str) -> str:
        return f"https://{_HOSTS[api].format(self.region)}"

    def bulk_collectors(self) -> Mapping[str, Collector]:
        others = {"pods"} if self.collectors.usage.by_cloudmonitor else {"pods", "usage"}
        return {key: collector for key, collector in self.collectors if key not in others}
