"""The common part of the config: what every platform has. A platform's own model derives from `ProviderConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator
from pydantic.fields import FieldInfo

from trainfleet_exporter.config.kinds import (
    AllOrList,
    CaFile,
    CountFrom0,
    CountFrom1,
    Duration,
    DurationOrZero,
    Flag,
    Glob,
    LongDuration,
    MonthlyCalls,
    Name,
    Proxy,
    Rate,
    Regex,
    Region,
    SecretFile,
    Text,
    WritableFile,
)
from trainfleet_exporter.config.secrets import Secret


class Section(BaseModel):
    """A mapping of the config file: unknown keys are errors, an empty mapping means its defaults.

    Values of a section are never in the text of an error of pydantic's, since they may be secrets.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True, protected_namespaces=()
    )

    other_names: ClassVar[Mapping[str, str]] = {}
    """Names that other clouds and tools use for keys of this section. They are errors that suggest our names."""

    foreign_keys: ClassVar[Mapping[str, str]] = {}
    """Keys of other clouds without an equivalent here, each with what to do instead."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Take an empty section as {}, and join `x_file` to its secret `x`."""
        if given is None:
            return {}
        if not isinstance(given, dict):
            return given
        data = dict(given)
        for name, field in cls.model_fields.items():
            if is_secret(field) and f"{name}_file" in data:
                path = data.pop(f"{name}_file")
                if path is not None:
                    data[name] = SecretFile(name, path, twice=data.get(name) is not None)
        return data

    @classmethod
    def allowed_keys(cls) -> tuple[str, ...]:
        """The known keys, as users write them in the file."""
        keys: list[str] = []
        for name, field in cls.model_fields.items():
            keys += [field.alias or name] + ([f"{name}_file"] if is_secret(field) else [])
        return tuple(keys)


def is_secret(field: FieldInfo) -> bool:
    """Return whether a field of a section is a secret, required or not."""
    kinds = (field.annotation, *get_args(field.annotation))
    kinds += tuple(get_args(kind)[0] for kind in kinds if getattr(kind, "__metadata__", None))
    return Secret in kinds


class Metrics(Section):
    """Which families and tags the exporter publishes."""

    deny: tuple[Glob, ...] = ()
    """Names of families that the exporter does not publish. Patterns with `*`, `?` and `[...]` are allowed."""
    job_labels: tuple[Text, ...] = ()
    """Job tags that become labels of `trainfleet_job_labels`."""


class Global(Section):
    """Settings of the whole exporter. All times are seconds."""

    poll_interval: Duration = 60.0
    """Time between two polls of a collector without its own `interval`."""
    poll_timeout: Duration = 50.0
    """Time limit of one poll of a collector, or of one job if the collector polls job by job."""
    max_data_age: Duration = 900.0
    """The exporter drops a dated reading that is older than this. If two intervals of the collector are longer, they
    are the limit."""
    keep_last_good_polls: CountFrom0 = 3
    """A part (workspace, pool, job) whose polls fail keeps its last good values for this many intervals."""
    finished_job_retention: DurationOrZero = 3600.0
    """How long a finished job keeps its own series after it has released its resources."""
    metrics: Metrics = Metrics()
    """Which families and tags the exporter publishes."""
    ledger_file: WritableFile | None = None
    """File that gets one line of JSON for each finished job, for `trainfleet-exporter report`. Its folder must be
    writable. The flag `--ledger` overrides it."""


class Http(Section):
    """How the exporter reaches the cloud. All times are seconds."""

    proxy_url: Proxy | None = None
    """Proxy that replaces the proxies of the environment. Its user and password are secrets."""
    ca_file: CaFile | None = None
    """PEM file of the authorities to trust instead of the system's."""
    connect_timeout: Duration = 5.0
    """Time limit for opening a connection."""
    request_timeout: Duration = 20.0
    """Time limit of one attempt to call an API."""
    allow_plain_http: Flag = False
    """Allows `http://` endpoints that are not on loopback."""


class Limits(Section):
    """Limits of calls. Providers of one account share them."""

    requests_per_second: Rate = 5.0
    """Largest number of calls per second to each API. The exporter makes fewer while the cloud throttles."""
    concurrency: CountFrom1 = 4
    """Largest number of calls to one API at the same time."""
    monthly_calls: MonthlyCalls = {}
    """Largest number of calls to each API in 30 days. The exporter makes the intervals of all collectors that call the
    API longer by one factor, to keep a steady pace."""


class JobFilter(Section):
    """Jobs that match one entry of every list that is not empty. A filter without entries has no effect."""

    name: tuple[Regex, ...] = ()
    """Regular expressions. One of them must match the whole name."""
    user_id: tuple[Text, ...] = ()
    """User ids, as in the label `user_id`."""
    job_type: tuple[Text, ...] = ()
    """Job types, as in the label `job_type`."""
    pool_id: tuple[Text, ...] = ()
    """Pool ids, as in the label `pool_id`."""


class JobsScope(Section):
    """Which jobs have their own series. Counts include all jobs."""

    include: JobFilter = JobFilter()
    """Publishes series only for jobs that match an entry of every list that is set here. Default: all jobs."""
    exclude: JobFilter = JobFilter()
    """Publishes no series for jobs that match an entry of any list here."""


class Collector(Section):
    """Keys of every collector."""

    enabled: Flag = True
    """Whether the collector runs."""
    interval: Duration | None = None
    """Time between two polls. Default: `global.poll_interval`."""

    def effective_interval(self, poll_interval: float) -> float:
        """Seconds between two polls, given the global interval."""
        return poll_interval if self.interval is None else self.interval


@dataclass(frozen=True, slots=True)
class AccountKey:
    """An account with a name (kind `account`), or the account of a single provider (kind `provider`)."""

    kind: str
    name: str


class ProviderConfig(Section):
    """The keys of a provider of any platform."""

    apis: ClassVar[tuple[str, ...]] = ()
    """The labels of the APIs that the platform's providers may call, as in `limits.monthly_calls`."""
    other_platform_names: ClassVar[tuple[str, ...]] = ()
    """Other names of the platform, in lower-case letters only. An error in `platform` suggests the right name for
    them."""
    known_regions: ClassVar[tuple[str, ...]] = ()
    """The regions in the cloud's documentation. A misspelling of one is an error; other unknown regions are allowed."""

    name: Name
    """The label `provider` of its series. Each provider needs a different name."""
    platform: Text
    """The cloud of the provider."""
    region: Region
    """The cloud's id of the region. The exporter derives the addresses of the APIs from it."""
    account: Text | None = None
    """Name of the account. Providers with the same account share `monthly_calls`, and rate limits of the same host. Set
    `limits` in one of these providers, or the same in all of them. Default: the provider has its own account."""
    http: Http = Http()
    """How the exporter reaches the cloud."""
    workspaces: AllOrList = "all"
    """Workspaces to poll: `all` that the credentials can read, or a list of ids. AWS has only the workspace
    `default`."""
    jobs: JobsScope = JobsScope()
    """Which jobs have their own series. Counts include all jobs."""
    job_window: LongDuration = 2592000.0
    """`trainfleet_jobs` counts finished jobs that were created within this time."""
    limits: Limits = Limits()
    """Limits of calls."""

    @property
    def account_key(self) -> AccountKey:
        """The account that the provider belongs to."""
        return AccountKey("provider", self.name) if self.account is None else AccountKey("account", self.account)

    def endpoints_in_use(self) -> Mapping[str, str]:
        """The addresses that it calls, by their key in `endpoints`."""
        return {}

    def given_endpoints(self) -> Mapping[str, str]:
        """The endpoints that the file gives, by their key. Those made from the region always use https."""
        return {}

    def bulk_collectors(self) -> Mapping[str, Collector]:
        """The bulk collectors, whose polls must end within `global.poll_timeout`, by their key."""
        return {}

    def needed(self) -> Mapping[str, tuple[Collector, Mapping[str, Collector]]]:
        """By its key, each collector that others need, and those others."""
        return {}


class Config(Section):
    """A complete and valid config."""

    global_: Global = Field(default=Global(), alias="global")
    """Settings of the whole exporter."""
    providers: tuple[SerializeAsAny[ProviderConfig], ...]
    """The accounts and regions to poll, at least one."""
