"""The keys of a provider of platform `alibaba_pai` in the config file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from trainfleet_exporter.config import Collector, Secret, Section
from trainfleet_exporter.config.cloud import CloudConfig, OptionalCollector, SlowCollector
from trainfleet_exporter.config.kinds import CountFrom0, Endpoint, Region, SecretText, Text, region
from trainfleet_exporter.providers.alibaba_pai.api import arn_form, load
from trainfleet_exporter.providers.alibaba_pai.usage.config import Usage
from trainfleet_exporter.providers.key_search import CredentialsSection, checked

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


_ALLOWED = (
    "allowed: access_key_id and access_key_secret, perhaps with security_token; role_arn, perhaps "
    "with external_id, with them or alone; or oidc; or ecs_ram_role; or profile; "
    "or no credentials for those of the vendor's own chain"
)
_ROLE = ("role_arn", "external_id")


def _arn(kind: str, what: str) -> AfterValidator:
    form = arn_form(kind)

    def validate(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(f"allowed: {what}'s ARN, such as acs:ram::1234567890123456:{kind}/name")
        return text

    return AfterValidator(validate)


def _ram_role(value: object) -> Literal[True] | str:
    text = "true" if value is True else str(value)
    if text.lower() in {"true", "yes", "on"}:
        return True
    if text.lower() in {"false", "no", "off"} or not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text, re.ASCII):
        raise ValueError("allowed: true, or the name of the machine's RAM role")
    return text


RoleArn: TypeAlias = Annotated[Text, _arn("role", "a RAM role")]
ProviderArn: TypeAlias = Annotated[Text, _arn("oidc-provider", "an OIDC provider")]
RamRole: TypeAlias = Annotated[Literal[True] | str, PlainValidator(_ram_role)]


class Oidc(Section):
    """A role that trusts the tokens of an identity provider, usually of a Kubernetes cluster (RRSA)."""

    other_names = {"agency_urn": "role_arn"}  # noqa: RUF012 - a class variable of the base

    provider_arn: ProviderArn
    """ARN of the identity provider in RAM."""
    role_arn: RoleArn
    """ARN of the role to assume."""
    token: SecretText
    """Token of the identity provider. Set `token_file` if Kubernetes mounts and renews the token."""


class Credentials(CredentialsSection):
    """Credentials of one form."""

    other_names = {  # noqa: RUF012 - a class variable of the base
        "access_key": "access_key_id",
        "ak": "access_key_id",
        "secret_key": "access_key_secret",
        "secret_access_key": "access_key_secret",
        "sk": "access_key_secret",
        "session_token": "security_token",
        "ecs_agency": "ecs_ram_role",
    }

    access_key_id: SecretText | None = None
    """Access key id of a RAM user."""
    access_key_secret: SecretText | None = None
    """Secret of `access_key_id`."""
    security_token: SecretText | None = None
    """Token of a temporary access key."""
    role_arn: RoleArn | None = None
    """Role to assume, with the access key or with the credentials of the default chain."""
    external_id: SecretText | None = None
    """External id, if the role requires one."""
    oidc: Oidc | None = None
    """Role that trusts tokens of an identity provider, such as a Kubernetes cluster (RRSA)."""
    ecs_ram_role: RamRole | None = None
    """RAM role of the ECS instance: its name, or true for the role that the instance has."""
    profile: Text | None = None
    """Profile in `~/.aliyun/config.json` or `~/.alibabacloud/credentials`."""

    def given_keys(self) -> tuple[Secret, ...]:
        """The keys, if no role is assumed with them."""
        if self.access_key_id is None or self.access_key_secret is None or self.role_arn is not None:
            return ()
        return (self.access_key_id, self.access_key_secret, *([self.security_token] if self.security_token else []))

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_form(
            _ALLOWED,
            (("access_key_id", "access_key_secret"), ("security_token", *_ROLE)),
            (("role_arn",), ("external_id",)),
            (("oidc",), ()),
            (("ecs_ram_role",), ()),
            (("profile",), ()),
        )
        if self.external_id is not None and self.role_arn is None:
            raise ValueError(f"found external_id without role_arn; {_ALLOWED}")
        return self


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


class AlibabaPaiConfig(CloudConfig):
    """One account and region of Alibaba Cloud PAI."""

    apis = ("dlc", "paistudio", "aiworkspace", "cloudmonitor", "sts")
    other_platform_names = ("aliyun", "alicloud", "alibaba", "alibabacloud", "pai", "dlc")
    foreign_keys = {"project_id": "only Huawei Cloud has projects; leave it out"}  # noqa: RUF012 - as in the base
    known_regions = _REGIONS
    metadata_service = "http://100.100.100.200"
    dependents = {  # noqa: RUF012 - as in the base
        "jobs": ("pods", "usage"),
        "pools": ("pool_workloads", "pool_users", "nodes"),
    }

    region: Annotated[Region, _REGION]
    """The cloud's ID of the region, such as cn-hangzhou. The addresses of the APIs follow from it."""
    credentials: Annotated[Credentials | None, checked(load)] = Field(default=None, validate_default=True)
    """Credentials. Default: the default chain of the vendor."""
    endpoints: Endpoints = Endpoints()
    """Addresses that replace the public ones of the region."""
    collectors: Collectors = Collectors()
    """Which collectors run, and how often."""

    def public_endpoint(self, api: str) -> str:
        return f"https://{_HOSTS[api].format(self.region)}"

    def bulk_collectors(self) -> Mapping[str, Collector]:
        others = {"pods"} if self.collectors.usage.by_cloudmonitor else {"pods", "usage"}
        return {key: collector for key, collector in self.collectors if key not in others}
