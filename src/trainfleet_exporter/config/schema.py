"""The common part of the config: what every platform has. A platform's own model derives from `ProviderConfig`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    StateFile,
    Text,
)
from trainfleet_exporter.config.secrets import Secret


class Section(BaseModel):
    """A mapping of the config file: unknown keys are faults, an empty one means its defaults.

    Values of a section are never in the text of an error of pydantic's, since they may be secrets.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True, protected_namespaces=()
    )

    other_names: ClassVar[Mapping[str, str]] = {}
    """What other clouds and tools call keys of this section: such a key is unknown, and the fault names the right one.
    """

    foreign_keys: ClassVar[Mapping[str, str]] = {}
    """Keys of other clouds without a counterpart here, each with what to do instead."""

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
        """The keys that there are, as they are written in the file."""
        keys: list[str] = []
        for name, field in cls.model_fields.items():
            keys += [field.alias or name] + ([f"{name}_file"] if is_secret(field) else [])
        return tuple(keys)


def is_secret(field: FieldInfo) -> bool:
    """Whether a field of a section is a secret, required or not."""
    kinds = (field.annotation, *get_args(field.annotation))
    kinds += tuple(get_args(kind)[0] for kind in kinds if getattr(kind, "__metadata__", None))
    return Secret in kinds


class Metrics(Section):
    """What is exposed of what is known."""

    deny: tuple[Glob, ...] = ()
    """Names of families that are not exposed. `*`, `?` and `[...]` work as in file names."""
    job_labels: tuple[Text, ...] = ()
    """Tags of the platform that become labels of `trainfleet_job_labels`."""


class Global(Section):
    """Settings of the whole exporter. All times are seconds."""

    poll_interval: Duration = 60.0
    """How often a collector without an interval of its own polls."""
    poll_timeout: Duration = 50.0
    """The deadline of one poll of a collector. It must be below the collector's interval."""
    max_data_age: Duration = 900.0
    """The age at which a dated reading disappears: this time, or two intervals of its collector if those are longer."""
    keep_last_good_polls: CountFrom0 = 3
    """For how many intervals a part (a workspace, a pool, a list) keeps its last good values while its polls fail."""
    finished_job_retention: DurationOrZero = 3600.0
    """How long a finished job keeps its own series after it has released its accelerators."""
    metrics: Metrics = Metrics()
    """What is exposed of what is known."""
    state_file: StateFile | None = None
    """A file in which spent monthly budgets survive a restart. Its folder must be writable. Only one process may write
    it."""
    ledger_file: StateFile | None = None
    """A file to which each job that ends is appended as a line of JSON, for `trainfleet-exporter report`. Its folder
    must
    be writable. The flag `--ledger` overrides it."""


class Http(Section):
    """How the cloud is reached. All times are seconds."""

    proxy_url: Proxy | None = None
    """A proxy instead of those in the environment. A user and password in it are secrets."""
    ca_file: CaFile | None = None
    """PEM certificates of the authorities to trust instead of the system's."""
    connect_timeout: Duration = 5.0
    """The timeout for opening a connection."""
    request_timeout: Duration = 20.0
    """The timeout for one attempt."""
    allow_plain_http: Flag = False
    """Whether endpoints of other machines may be `http://`."""


class Limits(Section):
    """Limits of API calls, shared by the providers of one account."""

    requests_per_second: Rate = 5.0
    """The rate limit of each API. The exporter lowers it while the cloud throttles."""
    concurrency: CountFrom1 = 4
    """How many calls of one API may be in flight at once."""
    monthly_calls: MonthlyCalls = {}
    """The budget of each API: calls in a billing month of the cloud. Intervals become longer before it is spent."""

    def of(self, api: str) -> Limits:
        """What holds for one API."""
        return self


class LimitsOfShard(Limits):
    """What of them is a shard's."""

    whole: Mapping[str, Limits] = {}
    """By API, what holds where it is another part than of the rest: of APIs that few of the shards ask."""

    def of(self, api: str) -> Limits:
        """What holds for one API."""
        return self.whole.get(api, self)


class JobFilter(Section):
    """Jobs that match one entry of every list that is not empty. A filter without entries has no effect."""

    name: tuple[Regex, ...] = ()
    """Regular expressions. One of them must match the whole name."""
    user_id: tuple[Text, ...] = ()
    """Ids of users, as in the label `user_id`."""
    job_type: tuple[Text, ...] = ()
    """Types, as in the label `job_type`."""
    pool_id: tuple[Text, ...] = ()
    """Ids of pools, as in the label `pool_id`."""


class JobsScope(Section):
    """Which jobs have their own series. Counts include all jobs."""

    include: JobFilter = JobFilter()
    """Only jobs that match an entry of every list given here have series. Without lists, all jobs do."""
    exclude: JobFilter = JobFilter()
    """Jobs that match an entry of any list given here have no series."""


class Collector(Section):
    """What every collector has."""

    enabled: Flag = True
    """Whether it runs."""
    interval: Duration | None = None
    """How often it polls. The default is `global.poll_interval`."""

    def effective_interval(self, poll_interval: float) -> float:
        """Seconds between two polls, given the global interval."""
        return poll_interval if self.interval is None else self.interval


class Sharding(Section):
    """How shards (`--total-shards`) divide a provider."""

    spread: CountFrom1 | None = None
    """The maximum number of shards for its workspaces and pools. 1 keeps it whole and costs no extra call. The default
    is 4 if there are fewer than four providers for each shard, else 1."""
    split_workspaces_above: CountFrom1 | None = None
    """Divide a workspace job by job if more jobs than this were created in it within 30 days, which end a day before
    midnight (UTC). Each of the provider's shards then lists all its jobs and shows its own. By default none is
    divided."""


@dataclass(frozen=True, slots=True)
class AccountKey:
    """An account: that of a name (kind `account`), or that of a provider which has one to itself (kind `provider`)."""

    kind: str
    name: str


class ProviderConfig(Section):
    """What every provider has, whatever its platform."""

    apis: ClassVar[tuple[str, ...]] = ()
    """The labels of the APIs that the platform's providers may call, as in `limits.monthly_calls`."""
    other_platform_names: ClassVar[tuple[str, ...]] = ()
    """Other names of the platform, in lower-case letters only. An error in `platform` suggests the right name for
    them."""
    known_regions: ClassVar[tuple[str, ...]] = ()
    """The regions that the cloud's documentation lists. A misspelling of one is refused; other unknown regions are not.
    """
    splits_workspaces: ClassVar[bool] = False
    """Whether the platform's providers can divide a workspace job by job: `sharding.split_workspaces_above` is refused
    for all others."""

    name: Name
    """The label `provider` of all its series. It must be unique."""
    platform: Text
    """The kind of cloud."""
    region: Region
    """The cloud's id of the region. The addresses of its APIs follow from it."""
    account: Text | None = None
    """Providers with the same `account` share budgets and `limits`. Set `limits` in one of them, or equally in all.
    Without `account`, a provider shares nothing."""
    http: Http = Http()
    """How the cloud is reached."""
    workspaces: AllOrList = "all"
    """The workspaces to poll: all that the credentials can see, or those with these ids."""
    jobs: JobsScope = JobsScope()
    """Which jobs have their own series. Counts include all jobs."""
    job_window: LongDuration = 2592000.0
    """`trainfleet_jobs` counts finished jobs that were created in this time."""
    limits: Limits = Limits()
    """Limits of API calls."""
    sharding: Sharding = Sharding()
    """How shards divide the provider."""

    @property
    def account_key(self) -> AccountKey:
        """The account that the provider belongs to."""
        return AccountKey("provider", self.name) if self.account is None else AccountKey("account", self.account)

    def endpoints_in_use(self) -> Mapping[str, str]:
        """The addresses that it calls, by their key in `endpoints`."""
        return {}

    def given_endpoints(self) -> Mapping[str, str]:
        """The endpoints that the file gives, by their key; those made from the region are https anyway."""
        return {}

    def bulk_collectors(self) -> Mapping[str, Collector]:
        """The bulk collectors, whose polls must end within `global.poll_timeout`, by their key."""
        return {}

    def needed(self) -> Mapping[str, tuple[Collector, Mapping[str, Collector]]]:
        """The collectors that others need, by their key, each with those others."""
        return {}

    def primary_apis(self) -> Collection[str]:
        """The APIs that are called for the whole account only; of several shards, only the primary one calls them."""
        return ()


class Config(Section):
    """A whole config without faults."""

    global_: Global = Field(default=Global(), alias="global")
    """Settings of the whole exporter."""
    providers: tuple[SerializeAsAny[ProviderConfig], ...]
    """What is polled: at least one account and region of a cloud."""
