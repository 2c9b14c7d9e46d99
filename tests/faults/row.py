"""What a row of the matrix says of its operation, and the config that makes an exporter call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.faults.columns import Column
from tests.faults.judges import Judge
from tests.support.accounts import config_text, provider
from trainfleet_simulator import Simulator

_COLLECTORS = {
    "pai": ("job_counts", "jobs", "pods", "usage", "pools", "pool_workloads", "pool_users", "nodes"),
    "modelarts": (
        *("job_counts", "jobs", "usage", "pools", "pool_workloads", "pool_usage", "pool_users", "nodes"),
        *("maintenance", "jobs_v1"),
    ),
    "sagemaker": ("job_counts", "jobs", "usage", "pools", "nodes"),
}
_EXCLUDED = {
    "second_page": "there is no second page",
    "one_workspace": "no call is about one workspace",
    "used_by": "the others issue no credentials",
    "finished_jobs": "no call is for finished jobs only",
}
"""By what a fault needs of an operation, why it is not made for others."""


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
    credentials: Mapping[str, object] | None = field(default_factory=dict)
    """Empty for the keys of the account; None for no credentials in the config."""
    more: Mapping[str, object] = field(default_factory=dict)
    """Other keys of the provider."""
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
        if column.needs and not getattr(self, column.needs):
            return _EXCLUDED[column.needs]
        return None

    def config(self, urls: Mapping[str, str]) -> str:
        """Return the config of the affected provider and a bystander. `urls` are the addresses of APIs."""
        other = "modelarts" if self.cloud == "pai" else "pai"
        mine = {"workspaces": self.workspaces or None, **self.more}
        mine |= {} if self.credentials == {} else {"credentials": self.credentials}
        providers = [
            _provider("affected", self.cloud, self.collectors, urls, **mine),
            _provider("bystander", other, ("pools",), urls),
        ]
        return config_text(providers, poll_interval="60s", poll_timeout=self.poll_timeout, keep_last_good_polls=1)


def _provider(name: str, cloud: str, collectors: Sequence[str], urls: Mapping[str, str], **more: Any) -> dict[str, Any]:
    given = dict(part.partition(":")[::2] for part in collectors)
    assert given.keys() <= set(_COLLECTORS[cloud]), given
    chosen = {
        known: {"enabled": known in given, "interval": "60s", **yaml.safe_load(f"{{{given.get(known, '')}}}")}
        for known in _COLLECTORS[cloud]
    }
    limits = {"requests_per_second": 40, "concurrency": 8}
    return provider(cloud, urls, name=name, limits=limits, collectors=chosen, **more)
