"""The keys of a provider of platform `aws_sagemaker` in the config file."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from trainfleet_exporter.config import Collector, Secret, Section
from trainfleet_exporter.config.cloud import CloudConfig, OptionalCollector, SlowCollector
from trainfleet_exporter.config.kinds import AllOrList, Duration, Endpoint, Flag, Region, SecretText, Text, region
from trainfleet_exporter.providers.aws_sagemaker.api import load, public_endpoint
from trainfleet_exporter.providers.aws_sagemaker.translate import DEFAULT_WORKSPACE
from trainfleet_exporter.providers.key_search import CredentialsSection, checked

_REGION = region(
    "cn-(beijing|chengdu|fuzhou|guangzhou|hangzhou|heyuan|hongkong|huhehaote|nanjing|qingdao|shanghai|shenzhen"
    "|wulanchabu|zhangjiakou)(-.+)?|cn-(east|south|southwest)-[0-9]+|cn-north-([2-9]|1[0-9])"
    "|na-(south|mexico)-1|me-east-1",
    "Alibaba Cloud or Huawei Cloud",
    "us-east-1",
)
_REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "us-gov-east-1", "us-gov-west-1", "cn-north-1"),
    *("cn-northwest-1", "ca-central-1", "ca-west-1", "sa-east-1", "mx-central-1", "af-south-1", "il-central-1"),
    *("eu-west-1", "eu-west-2", "eu-west-3", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2"),
    *("ap-south-1", "ap-south-2", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-east-1", "ap-east-2"),
    *(f"ap-southeast-{number}" for number in range(1, 8)),
    *("me-south-1", "me-central-1"),
)


_ALLOWED = (
    "allowed: access_key_id and secret_access_key, perhaps with session_token; role_arn, perhaps "
    "with external_id, with them or a profile or alone; or web_identity; or profile; "
    "or no credentials for those of the vendor's own chain"
)
_ROLE = ("role_arn", "external_id")
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]{1,512}", re.ASCII)


def _role_arn(text: str) -> str:
    if not _ROLE_ARN.fullmatch(text):
        raise ValueError("allowed: an IAM role's ARN, such as arn:aws:iam::123456789012:role/trainfleet")
    return text


def _only_workspace(value: Any) -> Any:
    if value not in ("all", (DEFAULT_WORKSPACE,)):
        raise ValueError("found others; allowed: all, or a list with default alone, because AWS has no workspaces")
    return value


RoleArn: TypeAlias = Annotated[Text, AfterValidator(_role_arn)]


class WebIdentity(Section):
    """A role that trusts the tokens of an identity provider, usually of a Kubernetes cluster (IRSA)."""

    role_arn: RoleArn
    """ARN of the role to assume."""
    token: SecretText
    """Token of the identity provider. Set `token_file` if Kubernetes mounts and renews the token."""


class Credentials(CredentialsSection):
    """Credentials of one form."""

    other_names = {  # noqa: RUF012 - a class variable of the base
        "access_key": "access_key_id",
        "ak": "access_key_id",
        "access_key_secret": "secret_access_key",
        "secret_key": "secret_access_key",
        "sk": "secret_access_key",
        "security_token": "session_token",
        "oidc": "web_identity",
    }

    access_key_id: SecretText | None = None
    """Access key id of an IAM user or role."""
    secret_access_key: SecretText | None = None
    """Secret of `access_key_id`."""
    session_token: SecretText | None = None
    """Token of a temporary access key."""
    role_arn: RoleArn | None = None
    """Role to assume, with the access key, the profile or the credentials of the default chain."""
    external_id: SecretText | None = None
    """External id, if the role requires one."""
    web_identity: WebIdentity | None = None
    """Role that trusts tokens of an identity provider, such as a Kubernetes cluster (IRSA)."""
    profile: Text | None = None
    """Profile in `~/.aws/credentials` or `~/.aws/config`."""

    def given_keys(self) -> tuple[Secret, ...]:
        """The keys, if no role is assumed with them."""
        if self.access_key_id is None or self.secret_access_key is None or self.role_arn is not None:
            return ()
        return (self.access_key_id, self.secret_access_key, *([self.session_token] if self.session_token else []))

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_form(
            _ALLOWED,
            (("access_key_id", "secret_access_key"), ("session_token", *_ROLE)),
            (("profile",), _ROLE),
            (("role_arn",), ("external_id",)),
            (("web_identity",), ()),
        )
        if self.external_id is not None and self.role_arn is None:
            raise ValueError(f"found external_id without role_arn; {_ALLOWED}")
        return self


class Endpoints(Section):
    """Addresses that replace the public ones of the region: `scheme://host[:port]`."""

    sagemaker: Endpoint | None = None
    """SageMaker: jobs, HyperPod clusters, training plans."""
    cloudwatch: Endpoint | None = None
    """CloudWatch: usage of jobs and pods."""
    sts: Endpoint | None = None
    """STS: temporary credentials of a role."""
    metadata: Endpoint | None = None
    """Metadata service of the EC2 instance. It always uses plain HTTP."""


class Usage(Collector):
    """Utilization of jobs and their pods."""

    foreign_keys = {  # noqa: RUF012 - a class variable of the base
        "source": "CloudWatch is the only source on this cloud; leave it out",
        "metrics": "the metrics of this cloud are fixed; leave it out",
        "profiling": "CloudWatch has no such metrics of jobs; leave it out",
    }

    interval: Duration | None = 120.0


class Collectors(Section):
    """Which collectors run, and how often."""

    foreign_keys = {  # noqa: RUF012 - a class variable of the base
        "jobs_v1": "only Huawei Cloud has a v1 API of jobs; leave it out",
        "pods": "jobs covers pods on this cloud; leave it out",
        "pool_usage": "this cloud reports no usage of pools; leave it out",
        "pool_workloads": "this cloud reports no queues of pools; leave it out",
    }

    job_counts: SlowCollector = SlowCollector()
    """Finished jobs by status. `jobs` counts the live ones."""
    jobs: Collector = Collector()
    """Live jobs with their pods, and their final status. `usage` needs it."""
    usage: Usage = Usage()
    """Utilization of jobs and their pods."""
    pools: Collector = Collector()
    """Instance groups of HyperPod clusters, and training plans. `nodes` needs it."""
    nodes: OptionalCollector = OptionalCollector()
    """The nodes of each cluster."""


class AwsSageMakerConfig(CloudConfig):
    """One account and region of AWS SageMaker."""

    apis = ("sagemaker", "cloudwatch", "sts")
    other_platform_names = ("aws", "amazon", "sagemaker", "hyperpod", "awssagemaker")
    foreign_keys = {"project_id": "only Huawei Cloud has projects; leave it out"}  # noqa: RUF012 - as in the base
    known_regions = _REGIONS
    metadata_service = "http://169.254.169.254"
    dependents = {"jobs": ("usage",), "pools": ("nodes",)}  # noqa: RUF012 - as in the base

    region: Annotated[Region, _REGION]
    """The cloud's ID of the region, such as us-east-1. The addresses of the APIs follow from it."""
    credentials: Annotated[Credentials | None, checked(load)] = Field(default=None, validate_default=True)
    """Credentials. Default: the default chain of the vendor."""
    fips: Flag = False
    """Uses the addresses of the region that meet FIPS 140."""
    endpoints: Endpoints = Endpoints()
    """Addresses that replace the public ones of the region."""
    workspaces: Annotated[AllOrList, AfterValidator(_only_workspace)] = "all"
    """AWS has no workspaces: all jobs are in one with the id `default`."""
    clusters: AllOrList = "all"
    """HyperPod clusters to poll, by name."""
    collectors: Collectors = Collectors()
    """Which collectors run, and how often."""

    def public_endpoint(self, api: str) -> str:
        return public_endpoint(api, self.region, fips=self.fips)
