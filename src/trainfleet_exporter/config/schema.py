"""The models of the config. The text under a key is in the docs and in messages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SerializeAsAny, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

from trainfleet_exporter.config import kinds
from trainfleet_exporter.config.secrets import Secret, in_snake_case, near
from trainfleet_exporter.process.redaction import MASK, HoldsSecrets


class Section(BaseModel):
    """A mapping of the config file. Unknown keys are errors; a key without a value has its default."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)
    other_names: ClassVar[Mapping[str, str]] = {}
    """Names that other clouds and tools use for keys of this section. They are errors that suggest our names."""
    foreign_keys: ClassVar[Mapping[str, str]] = {}
    """Keys of other clouds without an equivalent here, each with what to do instead."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Join `x_file` to its secret `x`."""
        if not isinstance(given, dict):
            return {} if given is None else given
        data = {key: value for key, value in given.items() if value is not None or key not in cls.allowed_keys()}
        for name, field in cls.model_fields.items():
            if is_secret(field) and f"{name}_file" in data:
                data[name] = (data.pop(f"{name}_file"), data.get(name))
        return data

    @classmethod
    def allowed_keys(cls) -> tuple[str, ...]:
        """The known keys, as users write them in the file."""
        of_files = {name: (f"{name}_file",) if is_secret(field) else () for name, field in cls.model_fields.items()}
        return tuple(key for name in of_files for key in (cls.model_fields[name].alias or name, *of_files[name]))

    @classmethod
    def meant_key(cls, key: str) -> str:
        """The allowed key that another one probably means; empty if none is near."""
        word = in_snake_case(key)
        name = word.removesuffix("_file")
        if name in cls.other_names:
            return cls.other_names[name] + word[len(name) :]
        return "" if key in cls.foreign_keys else near(word, cls.allowed_keys())


def meanings(section: type[Section]) -> dict[str, str]:
    """The docstring of each key of a section and of its bases. Python does not keep them: they are in the source."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__[: section.__mro__.index(Section)]):
        with suppress(OSError):  # a class made at run time has no source
            texts = re.findall(r'^    (\w+): .*\n    """([^"]+)"""', inspect.getsource(base), re.MULTILINE)
            found |= {key: " ".join(text.split()) for key, text in texts}
    return found


def is_secret(field: FieldInfo) -> bool:
    """Return whether a field of a section is a secret, required or not."""
    parts = (field.annotation, *get_args(field.annotation))
    return Secret in parts or any(Secret in get_args(part)[:1] for part in parts)


class Metrics(Section):
    deny: tuple[kinds.Glob, ...] = ()
    """Names of families, not its own, that the exporter does not publish. Patterns may have `*`, `?` and `[...]`."""
    job_labels: tuple[kinds.Text, ...] = ()
    """Job tags that become labels of `trainfleet_job_labels`."""


class Global(Section):
    """Settings of the whole exporter. All times are seconds."""

    poll_interval: kinds.Duration = 60.0
    """Time between two polls of a collector without its own `interval`."""
    poll_timeout: kinds.Duration = 50.0
    """Time limit of one poll of a collector, or of one job if the collector polls job by job."""
    max_data_age: kinds.Duration = 900.0
    """The exporter drops a dated reading that is older than this. If two intervals of the collector are longer, they
    are the limit."""
    keep_last_good_polls: kinds.CountFrom0 = 3
    """A part (workspace, pool, job) whose polls fail keeps its last good values for this many intervals."""
    finished_job_retention: kinds.DurationOrZero = 3600.0
    """How long a finished job keeps its series after it released its resources. `0s` shows no job as failed."""
    metrics: Metrics = Metrics()
    ledger_file: kinds.WritableFile | None = None
    """File that gets one line of JSON for each finished job, for `trainfleet-exporter report`. Its folder must be
    writable. The flag `--ledger` overrides it."""


class Http(Section):
    """How the exporter reaches the cloud. All times are seconds."""

    proxy_url: kinds.Proxy | None = None
    """Proxy that replaces the proxies of the environment. Its user and password are secrets."""
    ca_file: kinds.CaFile | None = None
    """PEM file of the authorities to trust instead of the system's."""
    connect_timeout: kinds.Duration = 5.0
    """Time limit for opening a connection."""
    request_timeout: kinds.Duration = 20.0
    """Time limit of one attempt to call an API."""
    allow_plain_http: bool = False
    """Allows `http://` endpoints that are not on loopback."""


class Limits(Section):
    """Limits of calls. Providers of one account share them."""

    requests_per_second: kinds.Rate = 5.0
    """Largest number of calls per second to each API. The exporter makes fewer while the cloud throttles."""
    concurrency: kinds.CountFrom1 = 4
    """Largest number of calls to one API at the same time."""
    monthly_calls: dict[str, kinds.CountFrom1] = {}
    """Largest number of calls to each API in 30 days. The exporter makes the intervals of all collectors that call the
    API longer by one factor, to keep a steady pace."""


class JobFilter(Section):
    """Jobs that match one entry of every list that is not empty, by the labels of these names."""

    name: tuple[kinds.Regex, ...] = ()
    """Regular expressions in the syntax of RE2. One of them must match the whole name."""
    user_id: tuple[kinds.Text, ...] = ()
    job_type: tuple[kinds.Text, ...] = ()
    pool_id: tuple[kinds.Text, ...] = ()


class JobsScope(Section):
    """Which jobs have their own series. Counts include all jobs."""

    include: JobFilter = JobFilter()
    """Publishes series only for jobs that match an entry of every list that is set here. Default: all jobs."""
    exclude: JobFilter = JobFilter()
    """Publishes no series for jobs that match an entry of any list here."""


class Collector(Section):
    enabled: bool = True
    interval: kinds.Duration | None = None
    """Time between two polls. Default: `global.poll_interval`."""

    def effective_interval(self, poll_interval: float) -> float:
        """Seconds between two polls, given the global interval."""
        return poll_interval if self.interval is None else self.interval


class SlowCollector(Collector):
    interval: kinds.Duration | None = 300.0


class OptionalCollector(SlowCollector):
    enabled: bool = False


class Variables(HoldsSecrets, dict[str, str]):
    """The variables that the vendor's tools read, and HOME, as they were when the config was read."""

    def __repr__(self) -> str:
        return MASK


class AccountKey(NamedTuple):
    """An account with a name (kind `account`), or the account of a single provider (kind `provider`)."""

    kind: str
    name: str


class ProviderConfig(Section):
    apis: ClassVar[tuple[str, ...]] = ()
    """The labels of the APIs that the platform's providers may call, as in `limits.monthly_calls`."""
    other_platform_names: ClassVar[tuple[str, ...]] = ()
    """Other names of the platform, in lower-case letters only, for which an error suggests the right one."""
    known_regions: ClassVar[tuple[str, ...]] = ()
    """The regions in the cloud's documentation. A misspelling of one is an error; other unknown regions are allowed."""
    variables_prefix: ClassVar[str] = "HOME"
    """What the names of the vendor's variables begin with."""
    metadata_service: ClassVar[str] = ""
    """The address of the metadata service, the same on every machine, which has plain http by nature."""
    dependents: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The collectors that need another one, by its key."""

    name: kinds.Name
    """The label `provider` of its series. Each provider needs a different name."""
    platform: kinds.Text
    region: kinds.Region
    """The cloud's id of the region. The exporter derives the addresses of the APIs from it."""
    account: kinds.Text | None = None
    """Name of the account. Providers with the same account share `monthly_calls`, and rate limits of the same host. Set
    `limits` in one of these providers, or the same in all of them. Default: the provider has its own account."""
    http: Http = Http()
    workspaces: kinds.AllOrList = "all"
    """Workspaces to poll: `all` that the credentials can read, or a list of ids. AWS has only the workspace
    `default`."""
    jobs: JobsScope = JobsScope()
    job_window: kinds.LongDuration = 2592000.0
    """`trainfleet_jobs` counts finished jobs that were created within this time."""
    limits: Limits = Limits()

    endpoints: Section = Section()
    collectors: Section = Section()
    _variables: Variables = PrivateAttr(default_factory=Variables)

    @property
    def account_key(self) -> AccountKey:
        """The account that the provider belongs to."""
        return AccountKey("account", self.account) if self.account else AccountKey("provider", self.name)

    @property
    def variables(self) -> Variables:
        """The environment in which credentials are found."""
        return self._variables

    @model_validator(mode="after")
    def _note_variables(self, info: ValidationInfo) -> Self:
        environ, prefixes = kinds.Surroundings.of(info).environ, (self.variables_prefix, "HOME")
        found = {name: text for name, text in environ.items() if name.startswith(prefixes)}
        self._variables = Variables(found) or self._variables  # a model within another is noted again, without context
        return self

    def public_endpoint(self, api: str) -> str:
        """The address of an API in the region."""
        raise NotImplementedError

    def endpoint(self, api: str) -> str:
        """The base URL of one API: the configured one, or the public one of the region."""
        configured: str | None = getattr(self.endpoints, api)
        return configured or (self.metadata_service if api == "metadata" else self.public_endpoint(api))

    def endpoints_in_use(self) -> Mapping[str, str]:
        """The addresses that it calls, by their key in `endpoints`."""
        return {api: self.endpoint(api) for api in type(self.endpoints).model_fields}

    def given_endpoints(self) -> Mapping[str, str]:
        """The endpoints that the file gives, by their key. Those made from the region always use https."""
        return {api: url for api, url in self.endpoints if url not in (None, self.metadata_service)}

    def bulk_collectors(self) -> Mapping[str, Collector]:
        """The bulk collectors, whose polls must end within `global.poll_timeout`, by their key."""
        return dict(self.collectors)


class Config(Section):
    global_: Global = Field(default=Global(), alias="global")
    providers: tuple[SerializeAsAny[ProviderConfig], ...]
