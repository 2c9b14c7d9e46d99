"""The keys of a provider of platform `huawei_modelarts` in the config file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, create_model

from trainfleet_exporter.config import Collector, Section
from trainfleet_exporter.config.kinds import CountFrom0, Duration, Endpoint, Region, Text
from trainfleet_exporter.config.schema import OptionalCollector, ProviderConfig, SlowCollector
from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.fleet.chosen_metrics import ChosenMetrics, ProfiledUsage
from trainfleet_exporter.providers.huawei_modelarts.api import Api
from trainfleet_exporter.providers.huawei_modelarts.credentials import Credentials, load
from trainfleet_exporter.providers.huawei_modelarts.metrics import DEFAULT_INSTANCE, FAMILIES, UNITS
from trainfleet_exporter.providers.key_search import KeyHttp, NoHttp, checked, open_credential, without_calls
from trainfleet_exporter.providers.keys import Credential, Keys
from trainfleet_exporter.providers.registry import BuildContext

_REGIONS = (
    *(f"cn-north-{number}" for number in (1, 2, 4, 9, 11, 12)),
    *(f"cn-east-{number}" for number in (2, 3, 4, 5)),
    *("cn-south-1", "cn-south-2", "cn-south-4", "cn-southwest-2", "cn-southwest-3"),
    *(f"ap-southeast-{number}" for number in (1, 2, 3, 4, 5)),
    *("af-south-1", "af-north-1", "la-south-2", "la-north-2", "na-mexico-1", "sa-brazil-1", "tr-west-1", "me-east-1"),
    *("my-kualalumpur-1", "ru-northwest-2", "eu-west-0", "eu-west-101"),
)
_DOMAINS = {"eu-west-101": "myhuaweicloud.eu"}
"""By region that is not in the common domain, its own."""


def _project_id(text: str) -> str:
    # The API's documentation allows any 64 letters, digits and hyphens. All IDs in use are 32 hexadecimal digits: with
    # more or less of them, or with hyphens in between, it is none. A project's name begins with its region.
    hexadecimal = re.fullmatch("[0-9A-Fa-f-]+", text) and not re.fullmatch("[0-9A-Fa-f]{32}", text)
    named = re.fullmatch("[a-z]{2}-[a-z]+-[0-9]+.*|[^0-9]*", text)
    if hexadecimal or named or not re.fullmatch("[A-Za-z0-9-]{1,64}", text):
        raise ValueError("allowed: a project ID (usually 32 hexadecimal digits), not a project's name")
    return text


ProjectId: TypeAlias = Annotated[str, AfterValidator(_project_id)]


class Endpoints(Section):
    """Addresses that replace the public ones of the region: `scheme://host[:port]`."""

    modelarts: Endpoint | None = None
    """ModelArts: jobs, pods, pools."""
    iam: Endpoint | None = None
    """IAM: tokens of a user, and ids of projects."""
    sts: Endpoint | None = None
    """STS: temporary credentials of an agency."""
    metadata: Endpoint | None = None
    """Metadata service of the cloud server. It always uses plain HTTP."""
    aom: Endpoint | None = None
    """AOM: usage of jobs, pods and accelerators."""


class Metric(Section):
    """The query that replaces the metric of a family."""

    promql: Text
    """A query whose result has the labels of AOM's series (metrics)."""
    unit: str
    """The unit of the values: one of those of the family in docs/configuration.md."""


def _metric(units: Mapping[str, float]) -> type[Metric]:
    """The section of a family that is counted in one of these units."""
    unit: Any = (Literal[tuple(units)], ...)
    return create_model("Metric", __base__=Metric, __module__=__name__, unit=unit)


if TYPE_CHECKING:
    Metrics = ChosenMetrics
else:
    # A key for each family that can be fed, named as it is after `trainfleet_`.
    Metrics = create_model(
        "Metrics",
        __base__=ChosenMetrics,
        __module__=__name__,
        **{family: (_metric(units) | None, None) for family, units in UNITS.items()},
    )


class Usage(ProfiledUsage):
    """Utilization and usage of jobs, pods and accelerators."""

    bulk, one_by_one, families = "aom", "task_metrics", FAMILIES

    interval: Duration | None = 120.0
    source: Literal["auto", "aom", "task_metrics"] = "auto"
    """`aom` reads all jobs together. `task_metrics` makes calls for each pod of each job. `auto` reads
    AOM, and task metrics for jobs that AOM does not have."""
    profiling: tuple[Literal["health"], ...] = ()
    """`health` reads health and temperature of NPUs from AOM. It costs two calls per poll."""
    metrics: Metrics = Metrics()
    """Metrics to read for certain families, instead of the defaults."""
    aom_instance: Text = DEFAULT_INSTANCE
    """The Prometheus instance of AOM that ModelArts reports to."""
    max_jobs: CountFrom0 = 500
    """Largest number of jobs that the exporter polls for task metrics, newest first."""

    @property
    def asks_aom(self) -> bool:
        """Whether AOM is asked at all."""
        return self.enabled and self.source != "task_metrics"


class Collectors(Section):
    """Which collectors run, and how often."""

    foreign_keys = {"pods": "jobs covers pods on this cloud; leave it out"}  # noqa: RUF012 - as in the base

    job_counts: SlowCollector = SlowCollector()
    """Finished jobs by phase, and the quota of jobs. `jobs` counts the live ones."""
    jobs: Collector = Collector()
    """Live jobs with their pods, and their final status. `usage` needs it."""
    usage: Usage = Usage()
    """Utilization and usage of jobs, pods and accelerators."""
    pools: Collector = Collector()
    """Dedicated pools. `pool_workloads`, `pool_users`, `pool_usage` and `nodes` need it."""
    pool_workloads: Collector = Collector()
    """Workloads of each pool, and the position of each job in the queue."""
    jobs_v1: OptionalCollector = OptionalCollector()
    """Jobs of the old v1 training API, with their pods and accelerators."""
    pool_usage: Collector = Collector()
    """Utilization of pools and their disks."""
    pool_users: OptionalCollector = OptionalCollector()
    """Who holds the accelerators of each pool."""
    nodes: OptionalCollector = OptionalCollector()
    """The nodes of each pool."""
    maintenance: OptionalCollector = OptionalCollector()
    """Announced maintenance of nodes. The cloud documents no permission for it, and may reject it."""


class HuaweiModelArtsConfig(ProviderConfig):
    """One project of Huawei Cloud ModelArts."""

    apis = ("modelarts", "iam", "aom")
    other_platform_names = ("huawei", "hwcloud", "huaweicloud", "modelarts")
    known_regions = _REGIONS
    variables_prefix = "HUAWEICLOUD_"
    metadata_service = "http://169.254.169.254"
    dependents = {  # noqa: RUF012 - as in the base
        "jobs": ("usage",),
        "pools": ("pool_workloads", "pool_usage", "pool_users", "nodes"),
    }

    region: Region
    """The cloud's ID of the region, such as cn-north-4. The addresses of the APIs follow from it."""
    project_id: ProjectId | None = None
    """Id of the project. Default: the project of the credentials, or the project with the name of the region."""
    credentials: Annotated[Credentials | None, checked(load)] = Field(default=None, validate_default=True)
    """Credentials. Default: the default chain of the vendor."""
    endpoints: Endpoints = Endpoints()
    collectors: Collectors = Collectors()

    def open_api(self, context: BuildContext) -> Api:
        usage = self.collectors.usage
        return Api(self, context, self._open_identity, aom=usage.aom_instance if usage.asks_aom else "")

    def _open_identity(self, http: KeyHttp) -> tuple[Credential, str]:
        """The credential, and the project if that is known without a call. Makes no call."""
        find = partial(load, scope={"id": self.project_id} if self.project_id else {"name": self.region})
        known: Keys | str = ""
        with suppress(CloudError):  # the first poll reports it
            known = without_calls(find(self.credentials, self.variables, NoHttp()))
        credential = open_credential(self.name, self.credentials, find, http, self.variables)
        return credential, self.project_id or ("" if isinstance(known, str) else known.project_id)

    def public_endpoint(self, api: str) -> str:
        return f"https://{api}.{self.region}.{_DOMAINS.get(self.region, 'myhuaweicloud.com')}"

    def bulk_collectors(self) -> Mapping[str, Collector]:
        others = {"jobs_v1"} if self.collectors.usage.asks_aom else {"jobs_v1", "usage"}
        return {key: collector for key, collector in self.collectors if key not in others}
