"""The common part of the config: what every platform has. A platform's own model derives from `ProviderConfig`."""

from __future__ import annotations

from collections.abc import Mapping
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
    """Families that are not exposed: `fnmatch` patterns on their names."""
    job_labels: tuple[Text, ...] = ()
    """Tags of the platform that become labels of `trainfleet_job_labels`."""


class Global(Section):
    """Settings of the whole exporter. All times are seconds."""

    poll_interval: Duration = 60.0
    poll_timeout: Duration = 50.0
    max_data_age: Duration = 900.0
    keep_last_good_polls: CountFrom0 = 3
    finished_job_retention: DurationOrZero = 3600.0
    metrics: Metrics = Metrics()
    state_file: StateFile | None = None
    """Where spent monthly budgets survive a restart."""


class Http(Section):
    """How the cloud is reached. All times are seconds."""

    proxy_url: Proxy | None = None
    """Takes the place of the environment's proxies."""
    ca_file: CaFile | None = None
    connect_timeout: Duration = 5.0
    request_timeout: Duration = 20.0
    allow_plain_http: Flag = False


class Limits(Section):
    """How much may be asked of the cloud, shared by the providers of one account."""

    requests_per_second: Rate = 5.0
    """Per API host."""
    concurrency: CountFrom1 = 4
    monthly_calls: MonthlyCalls = {}
    """By API, how many calls a calendar month (in UTC+8) may have; polls stretch before they are spent."""


class JobFilter(Section):
    """Jobs that match one entry of every list that is not empty; a filter without entries says nothing."""

    name: tuple[Regex, ...] = ()
    """To be matched whole."""
    user_id: tuple[Text, ...] = ()
    job_type: tuple[Text, ...] = ()
    pool_id: tuple[Text, ...] = ()


class JobsScope(Section):
    """Which jobs have series of their own. Counts are taken before this."""

    include: JobFilter = JobFilter()
    exclude: JobFilter = JobFilter()


class Collector(Section):
    """What every collector has."""

    enabled: Flag = True
    interval: Duration | None = None
    """Seconds; None stands for `global.poll_interval`."""

    def effective_interval(self, poll_interval: float) -> float:
        """Seconds between two polls, given the global interval."""
        return poll_interval if self.interval is None else self.interval


class ProviderConfig(Section):
    """What every provider has, whatever its platform."""

    apis: ClassVar[tuple[str, ...]] = ()
    """The labels of the APIs that the platform's providers may call, by which `limits.monthly_calls` names them."""

    name: Name
    platform: Text
    region: Region
    account: Text | None = None
    """Providers of one account share its API budgets and `limits`; None stands for an account of its own."""
    http: Http = Http()
    workspaces: AllOrList = "all"
    jobs: JobsScope = JobsScope()
    job_window: Duration = 2592000.0
    """Seconds; finished jobs are counted if created within it."""
    limits: Limits = Limits()

    def given_endpoints(self) -> Mapping[str, str]:
        """The endpoints that the file gives, by their key; those made from the region are https anyway."""
        return {}

    def sweeps(self) -> Mapping[str, Collector]:
        """The collectors whose poll is one sweep and must end within `global.poll_timeout`, by their key."""
        return {}

    def needed(self) -> Mapping[str, tuple[Collector, Mapping[str, Collector]]]:
        """The collectors that others build on, by their key, each with those others."""
        return {}


class Config(Section):
    """A whole config without faults."""

    global_: Global = Field(default=Global(), alias="global")
    providers: tuple[SerializeAsAny[ProviderConfig], ...]
