"""What a row of the matrix says of its operation, and the config that makes an exporter call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.columns import Column
from tests.faults.judges import Judge
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.catalog import ACCESS_KEY, PROJECT_ID, REGION, SECRET_KEY
from trainfleet_simulator.sagemaker import catalog as aws
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

_GLOBAL = """
global: {poll_interval: 60s, poll_timeout: %s, keep_last_good_polls: 1}
providers:
"""
_PAI = """
  - name: %(name)s
    platform: alibaba_pai
    region: cn-hangzhou
    workspaces: %(workspaces)s
    credentials: %(credentials)s
    endpoints:
      dlc: {dlc}
      paistudio: {paistudio}
      aiworkspace: {aiworkspace}
      cloudmonitor: {cloudmonitor}
      sts: {sts}
      metadata: {metadata}
    limits: {{requests_per_second: 40, concurrency: 8}}
    collectors: {{%(collectors)s}}
"""
_MODELARTS = """
  - name: %(name)s
    platform: huawei_modelarts
    region: %(region)s
    %(project)s
    credentials: %(credentials)s
    endpoints: {{modelarts: {modelarts}, iam: {iam}, aom: {aom}, sts: {sts}, metadata: {metadata}}}
    limits: {{requests_per_second: 40, concurrency: 8}}
    collectors: {{%(collectors)s}}
"""
_SAGEMAKER = """
  - name: %(name)s
    platform: aws_sagemaker
    region: %(region)s
    credentials: %(credentials)s
    endpoints: {{sagemaker: {sagemaker}, cloudwatch: {cloudwatch}, sts: {sts}, metadata: {metadata}}}
    limits: {{requests_per_second: 40, concurrency: 8}}
    collectors: {{%(collectors)s}}
"""
_PAI_COLLECTORS = ("job_counts", "jobs", "pods", "usage", "pools", "pool_workloads", "pool_users", "nodes")
_MODELARTS_COLLECTORS = (
    *("job_counts", "jobs", "usage", "pools", "pool_workloads", "pool_usage", "pool_users", "nodes", "maintenance"),
    "jobs_v1",
)
_SAGEMAKER_COLLECTORS = ("job_counts", "jobs", "usage", "pools", "nodes")
_PAI_KEYS = f"{{{{access_key_id: {ACCESS_KEY_ID}, access_key_secret: {ACCESS_KEY_SECRET}}}}}"
_MODELARTS_KEYS = f"{{{{access_key: {ACCESS_KEY}, secret_key: {SECRET_KEY}}}}}"
_SAGEMAKER_KEYS = f"{{{{access_key_id: {aws.ACCESS_KEY_ID}, secret_access_key: {aws.SECRET_ACCESS_KEY}}}}}"


def _as_it_is(_: Simulator) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Unlike:
    """An end that is unlike the fault's usual one, why, and the checks (of cell.py) that do not fit it."""

    end: str
    why: str
    excused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation of one API.

    `collectors` are those that the affected provider runs beside `workspaces`, with more of their config after a
    colon. `fails` are those whose polls fail while it does, `loses` the families (globs without `trainfleet_`) that
    are gone when the last good answers are. `cold`: it is called so rarely that each cell has a daemon of its own,
    which the fault meets at its start. `recovers` and `recovers_from_refusal` are polls.
    """

    api: str
    operation: str
    collectors: tuple[str, ...]
    fails: tuple[str, ...]
    loses: tuple[str, ...]
    cloud: str = "pai"
    credentials: str = ""
    project: str = f"project_id: {PROJECT_ID}"
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment, in which `{metadata}` and so on stand for addresses."""
    workspaces: tuple[str, ...] = ()
    """Those that are polled, on PAI; empty for all. Each costs a dozen calls a poll."""
    poll_timeout: str = "50s"
    cold: bool = False
    prepare: Callable[[Simulator], None] = _as_it_is
    slow: str = ""
    """Why it recovers more slowly than others, where it does."""
    recovers: int = 1
    recovers_from_refusal: int = 1
    second_page: Mapping[str, str] = field(default_factory=dict)
    """The query parameters of a call for the second page; empty if there is none."""
    one_workspace: Mapping[str, str] = field(default_factory=dict)
    """The query parameters of a call about one workspace; empty if calls are about all workspaces."""
    used_by: Mapping[str, str] = field(default_factory=dict)
    """A call that carries the credentials which the operation issues; empty where it issues none."""
    finished_jobs: Mapping[str, str] = field(default_factory=dict)
    """How a call for finished jobs alone is known; empty where no poll makes one."""
    under: str = ""
    """What the config says, where another row is about the same operation."""
    query: Mapping[str, str] = field(default_factory=dict)
    """The parameters of its calls, where another row is about other calls of the operation."""
    only: tuple[str, ...] = ()
    """The faults that are made, where another row has all of them; empty for all."""
    told_by: tuple[str, ...] = ()
    """Other operations whose failures may report those of this one."""
    copes: str = ""
    """What is shown without the operation, where that is enough for its collectors not to fail."""
    judges: Mapping[str, Judge] = field(default_factory=dict)
    """By fault, what may stand on the page, where that is not the fault's own judge."""
    some: tuple[str, ...] | None = None
    """Those of `loses` of which nothing is left in the end; None for all. The others come from elsewhere, too."""
    recovery: Mapping[str, int] = field(default_factory=dict)
    """By fault, the polls that it takes to recover, where that is not as long as after others."""
    unlike: Mapping[str, Unlike] = field(default_factory=dict)
    """By fault, what comes of it that is unlike the fault's usual end."""

    @property
    def surely_loses(self) -> tuple[str, ...]:
        """Those of `loses` of which nothing is left in the end."""
        return self.loses if self.some is None else self.some

    def recovers_after(self, column: Column) -> int:
        """How many polls after the fault everything is as before."""
        if column.name in self.recovery:
            return self.recovery[column.name]
        return max(column.recovers, self.recovers_from_refusal if column.refuses else self.recovers)

    @property
    def name(self) -> str:
        """Unlike any other row's."""
        return f"{self.cloud} {self.title}"

    @property
    def title(self) -> str:
        """Return the operation for readers, with the API if the name alone is ambiguous."""
        return f"{self.api} {self.operation} ({self.under})" if self.under else f"{self.api} {self.operation}"

    @property
    def match(self) -> dict[str, str]:
        """Return the rule that selects its calls."""
        return {"api": self.api, "operation": self.operation, **self.query}

    def excludes(self, column: Column) -> str | None:
        """Why a fault is not made for this operation; None where it is."""
        if self.only and column.name not in self.only:
            return "the operation has another row"
        if column.needs == "second_page" and not self.second_page:
            return "there is no second page"
        if column.needs == "one_workspace" and not self.one_workspace:
            return "no call is about one workspace"
        if column.needs == "used_by" and not self.used_by:
            return "the others issue no credentials"
        if column.needs == "finished_jobs" and not self.finished_jobs:
            return "no call is for finished jobs only"
        return None

    @property
    def config(self) -> str:
        """The config, in which `{dlc}` and so on stand for addresses: the affected provider, and a bystander."""
        mine = self._provider()
        other = _modelarts("bystander", ("pools",)) if self.cloud == "pai" else _pai("bystander", ("pools",))
        return (_GLOBAL % self.poll_timeout).replace("{", "{{").replace("}", "}}") + mine + other

    def _provider(self) -> str:
        if self.cloud == "pai":
            return _pai("affected", self.collectors, self.credentials or _PAI_KEYS, self.workspaces)
        if self.cloud == "sagemaker":
            words = {"name": "affected", "region": aws.REGION, "credentials": self.credentials or _SAGEMAKER_KEYS}
            return _SAGEMAKER % {**words, "collectors": _chosen(self.collectors, _SAGEMAKER_COLLECTORS)}
        return _modelarts("affected", self.collectors, self.credentials or _MODELARTS_KEYS, self.project)


def _pai(name: str, collectors: tuple[str, ...], credentials: str = _PAI_KEYS, workspaces: Sequence[str] = ()) -> str:
    chosen = _chosen(collectors, _PAI_COLLECTORS)
    wanted = f"[{', '.join(map(repr, workspaces))}]" if workspaces else "all"
    return _PAI % {"name": name, "workspaces": wanted, "credentials": credentials, "collectors": chosen}


def _modelarts(
    name: str,
    collectors: tuple[str, ...],
    credentials: str = _MODELARTS_KEYS,
    project: str = f"project_id: {PROJECT_ID}",
) -> str:
    chosen = _chosen(collectors, _MODELARTS_COLLECTORS)
    words = {"name": name, "credentials": credentials, "collectors": chosen, "region": REGION, "project": project}
    return _MODELARTS % words


def _chosen(collectors: tuple[str, ...], known: tuple[str, ...]) -> str:
    given = dict(part.partition(":")[::2] for part in collectors)
    assert set(given) <= set(known), given
    parts = [
        f"{name}: {{{{enabled: true, interval: 60s{', ' + given[name] if given[name] else ''}}}}}"
        if name in given
        else f"{name}: {{{{enabled: false}}}}"
        for name in known
    ]
    return ", ".join(parts)
