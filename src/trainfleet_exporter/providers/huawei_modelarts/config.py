"""The keys of a provider of platform `huawei_modelarts` in the config file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, ModelWrapValidatorHandler, PrivateAttr, WrapValidator

from trainfleet_exporter.config import Collector, Section
from trainfleet_exporter.config.cloud import CloudConfig, OptionalCollector, SlowCollector
from trainfleet_exporter.config.kinds import Endpoint, Flag, ProjectId, Region, SecretText, Text, region
from trainfleet_exporter.config.scalars import refuse, show
from trainfleet_exporter.config.wording import Wording
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.credentials import (
    CredentialsSection,
    Environment,
    GivenKeys,
    MachineRole,
    OidcRole,
    PasswordUser,
    ProfileKeys,
    Source,
)
from trainfleet_exporter.providers.huawei_modelarts.auth import default_chain, find_profile, read_profile
from trainfleet_exporter.providers.huawei_modelarts.usage.config import Usage

_HOSTS = {
    "modelarts": "modelarts.{}.myhuaweicloud.com",
    "iam": "iam.{}.myhuaweicloud.com",
    "sts": "sts.{}.myhuaweicloud.com",
    "aom": "aom.{}.myhuaweicloud.com",
}
_REGION = region(
    "cn-(beijing|chengdu|fuzhou|guangzhou|hangzhou|heyuan|hongkong|huhehaote|nanjing|qingdao|shanghai|shenzhen"
    "|wulanchabu|zhangjiakou)(-.+)?|us-(west|east|southeast)-1|na-south-1|ap-northeast-[12]|ap-south-1|eu-central-1"
    "|eu-west-1|me-central-1",
    "Alibaba Cloud",
    "cn-north-4",
)
_REGIONS = (
    *(f"cn-north-{number}" for number in (1, 2, 4, 9, 11, 12)),
    *(f"cn-east-{number}" for number in (2, 3, 4, 5)),
    *("cn-south-1", "cn-south-2", "cn-south-4", "cn-southwest-2", "cn-southwest-3"),
    *(f"ap-southeast-{number}" for number in (1, 2, 3, 4, 5)),
    *("af-south-1", "af-north-1", "la-south-2", "la-north-2", "na-mexico-1", "sa-brazil-1", "tr-west-1", "me-east-1"),
    *("my-kualalumpur-1", "ru-northwest-2", "eu-west-0", "eu-west-101"),
)


class HuaweiRule(Wording):
    """Errors in credentials that only this platform has (config.wording)."""

    CREDENTIALS_FORM = (
        "found {found}; allowed: access_key and secret_key, perhaps with security_token; or username, password and "
        "domain_name; or oidc; or ecs_agency: true; or profile; or no credentials for those of the vendor's own chain"
    )
    PROFILE = (
        "found the profile {found}, but {reason}; "
        "allowed: a profile with ak and sk in that file, or credentials of another form"
    )


_FORMS = (
    ("access_key", "secret_key", "security_token"),
    ("username", "password", "domain_name"),
    ("oidc",),
    ("ecs_agency",),
    ("profile",),
)
"""The keys that go together."""
_OPTIONAL = "security_token"


class Oidc(Section):
    """An agency that trusts the tokens of an identity provider, usually of a Kubernetes cluster."""

    other_names = {"role_arn": "agency_urn"}  # noqa: RUF012 - a class variable of the base

    provider_urn: Text
    """URN of the identity provider in IAM."""
    agency_urn: Text
    """URN of the agency to assume."""
    token: SecretText
    """Token of the identity provider. Set `token_file` if Kubernetes mounts and renews the token."""


class Credentials(CredentialsSection):
    """Credentials of one form."""

    other_names = {  # noqa: RUF012 - a class variable of the base
        "access_key_id": "access_key",
        "ak": "access_key",
        "access_key_secret": "secret_key",
        "secret_access_key": "secret_key",
        "sk": "secret_key",
        "session_token": "security_token",
        "ecs_ram_role": "ecs_agency",
    }

    access_key: SecretText | None = None
    """Access key (AK) of an IAM user."""
    secret_key: SecretText | None = None
    """Secret key (SK) of `access_key`."""
    security_token: SecretText | None = None
    """Token of a temporary access key."""
    username: Text | None = None
    """Name of an IAM user who gets tokens with `password`."""
    password: SecretText | None = None
    """Password of `username`."""
    domain_name: Text | None = None
    """Name of the account of `username`."""
    oidc: Oidc | None = None
    """Agency that trusts tokens of an identity provider, such as a Kubernetes cluster."""
    ecs_agency: Flag = False
    """Uses the agency of the cloud server."""
    profile: Text | None = None
    """Profile in `~/.huaweicloud/credentials`."""

    _project_id: str = PrivateAttr("")

    @property
    def project_id(self) -> str:
        """The project that goes with these credentials, if their source names one; else empty."""
        return self._project_id

    @classmethod
    def of_chain(cls, environ: Environment, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """The form that stands for what the vendor's chain finds."""
        found = default_chain(environ)
        credentials = handler(found.given)
        credentials._source, credentials._project_id = found.source, found.project_id
        return credentials

    def find_source(self, environ: Environment) -> Source:
        """The source of the one form that is given."""
        given = self.form_keys(_FORMS, HuaweiRule.CREDENTIALS_FORM)
        (form,) = [form for form in _FORMS if set(form) & set(given)]
        if missing := [key for key in form if key not in given and key != _OPTIONAL]:
            refuse(HuaweiRule.CREDENTIALS_FORM, found=f"{' and '.join(given)} without {' and '.join(missing)}")
        if self.oidc is not None:
            return OidcRole(self.oidc.agency_urn, self.oidc.token, self.oidc.provider_urn)
        if self.ecs_agency:
            return MachineRole()
        if self.profile is not None:
            return self._of_profile(self.profile, environ)
        if self.username is not None:
            assert self.password is not None
            return PasswordUser(self.username, self.password, self.domain_name or "")
        assert self.access_key is not None
        assert self.secret_key is not None
        return GivenKeys(self.access_key, self.secret_key, self.security_token)

    def _of_profile(self, name: str, environ: Environment) -> ProfileKeys:
        try:
            profile = find_profile(name, environ)
            self._project_id = read_profile(profile)[1]
        except AccessDenied as error:
            refuse(HuaweiRule.PROFILE, found=show(name), reason=error.message)
        return profile


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


class HuaweiModelArtsConfig(CloudConfig):
    """One project of Huawei Cloud ModelArts."""

    apis = ("modelarts", "iam", "aom")
    other_platform_names = ("huawei", "hwcloud", "huaweicloud", "modelarts")
    known_regions = _REGIONS
    metadata_service = "http://169.254.169.254"
    dependents = {  # noqa: RUF012 - as in the base
        "jobs": ("usage",),
        "pools": ("pool_workloads", "pool_usage", "pool_users", "nodes"),
    }

    region: Annotated[Region, _REGION]
    """The cloud's ID of the region. The addresses of the APIs follow from it."""
    project_id: ProjectId | None = None
    """Id of the project. Default: the project of the credentials, or the project with the name of the region."""
    credentials: Annotated[Credentials, WrapValidator(Credentials.or_chain)] = Field(
        default=None, validate_default=True
    )
    """Credentials. Default: the default chain of the vendor."""
    endpoints: Endpoints = Endpoints()
    """Addresses that replace the public ones of the region."""
    collectors: Collectors = Collectors()
    """Which collectors run, and how often."""

    def public_endpoint(self, api: str) -> str:
        return f"https://{_HOSTS[api].format(self.region)}"

    def bulk_collectors(self) -> Mapping[str, Collector]:
        others = {"jobs_v1"} if self.collectors.usage.asks_aom else {"jobs_v1", "usage"}
        return {key: collector for key, collector in self.collectors if key not in others}
