"""The keys of a provider of platform `aws_sagemaker` in the config file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from trainfleet_exporter.config.kinds import AllOrList, Duration, Endpoint, Flag, Region
from trainfleet_exporter.config.schema import Collector, OptionalCollector, ProviderConfig, Section, SlowCollector
from trainfleet_exporter.providers.aws_sagemaker.api import known_regions, public_endpoint
from trainfleet_exporter.providers.aws_sagemaker.credentials import Credentials, load
from trainfleet_exporter.providers.key_search import checked

WORKSPACE_ID = "default"


def _only_workspace(value: Any) -> Any:
    if value not in ("all", (WORKSPACE_ID,)):
        raise ValueError("found others; allowed: all, or a list with default alone, because AWS has no workspaces")
    return value


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

    interval: Duration | None = 120.0


class Collectors(Section):
    """Which collectors run, and how often."""

    foreign_keys = {"jobs_v1": "only Huawei Cloud has a v1 API of jobs; leave it out"}  # noqa: RUF012 - as in the base

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


class AwsSageMakerConfig(ProviderConfig):
    """One account and region of AWS SageMaker."""

    apis = ("sagemaker", "cloudwatch", "sts")
    other_platform_names = ("aws", "amazon", "sagemaker", "hyperpod", "awssagemaker")
    foreign_keys = {"project_id": "only Huawei Cloud has projects; leave it out"}  # noqa: RUF012 - as in the base
    known_regions = ("us-east-1", *known_regions())  # errors show the first as an example
    variables_prefix = "AWS_"
    metadata_service = "http://169.254.169.254"
    dependents = {"jobs": ("usage",), "pools": ("nodes",)}  # noqa: RUF012 - as in the base

    region: Region
    """The cloud's ID of the region, such as us-east-1. The addresses of the APIs follow from it."""
    credentials: Annotated[Credentials | None, checked(load)] = Field(default=None, validate_default=True)
    """Credentials. Default: the default chain of the vendor."""
    fips: Flag = False
    """Uses the addresses of the region that meet FIPS 140."""
    endpoints: Endpoints = Endpoints()
    workspaces: Annotated[AllOrList, AfterValidator(_only_workspace)] = "all"
    """AWS has no workspaces: all jobs are in one with the id `default`."""
    clusters: AllOrList = "all"
    """HyperPod clusters to poll, by name."""
    collectors: Collectors = Collectors()

    def public_endpoint(self, api: str) -> str:
        return public_endpoint(api, self.region, fips=self.fips)
