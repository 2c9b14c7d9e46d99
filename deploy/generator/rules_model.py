"""What a rule is, before its thresholds are known: text in which `<name>` stands for the threshold of that name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

RUNBOOKS = "https://github.com/trainfleet/trainfleet-exporter/blob/main/docs/runbooks"
INTERVAL = "1m"
"""How often every group is evaluated. Dashboards rely on it: `sum_over_time(X[R]) / 60` is X-hours."""

Severity = Literal["critical", "warning", "info"]
Number = int | float

_OF_JOBS = re.compile("Trainfleet(Job|Pod|Pool|Node)")
_PLACE = re.compile(r"<([a-z][a-z_]*)>")


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule. `meaning` is what the docs say of it; `labels` are those of its series, for the docs too."""

    name: str
    expr: str
    meaning: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule. `about` is what the docs say of it; `wait` is its `for`, empty for at once.

    An `event` has happened, and its alert fires for a window. It has the label `event="true"`; its end means nothing.
    """

    name: str
    expr: str
    severity: Severity
    about: str
    summary: str
    description: str
    wait: str = ""
    event: bool = False

    @property
    def runbook(self) -> str:
        """The address of its page in docs/runbooks."""
        return f"{RUNBOOKS}/{self.name}.md"

    @property
    def dashboard(self) -> str:
        """The address of the dashboard that shows what the alert is about, with its variables set."""
        variables = {"provider": "provider"}
        if _OWNED in self.expr:
            board = "job"
            variables["job_id"] = "job_id"
        elif self.expr.endswith(_WHICH):
            board = "pools"
            variables["pool"] = "pool_id"
        else:
            board = "fleet" if _OF_JOBS.match(self.name) else "exporter"
        query = "&".join(f"var-{name}={{{{ $labels.{label} | urlquery }}}}" for name, label in variables.items())
        return f"<grafana_url>/d/trainfleet-{board}?{query}"


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other: each sees what those before it have just made."""

    name: str
    rules: Sequence[Record | Alert]
    has_tables: bool = field(default=False)
    """Whether the prices and the peaks of accelerator models come before its rules."""


def filled(text: str, thresholds: Mapping[str, str | Number] | Callable[[str], str]) -> str:
    """`text` with every `<name>` replaced. Raises KeyError for a name that there is not."""

    def value(found: re.Match[str]) -> str:
        return thresholds(found[1]) if callable(thresholds) else str(thresholds[found[1]])

    return _PLACE.sub(value, text)


def names(text: str) -> set[str]:
    """The names of the thresholds that `text` speaks of."""
    return set(_PLACE.findall(text))


def info(keys: str, labels: str, series: str, *, bridged: bool, bridge: str = "<bridge>") -> str:
    """Exactly one info series for each object, so that a join on `keys` never finds two.

    Two stand side by side where a label changed lately, or two exporters poll one provider. `bridged`: what is shown
    now, or else what was shown last within `bridge`.
    """
    now = f"topk by ({keys}) (1, max by ({keys}, {labels}) ({series}))"
    if not bridged:
        return now
    before = f"topk by ({keys}) (1, max by ({keys}, {labels}) (last_over_time({series}[{bridge}])))"
    return f"(\n  {now}\n  or on ({keys})\n  {before}\n)"


JOB = "provider, job_id"
JOB_OWNERS = "workspace_id, pool_id, user_id, user_name"
POOL = "provider, pool_id"

_OWNED = f"* on ({JOB}) group_left (job_name, {JOB_OWNERS})"
_WHICH = info(POOL, "pool_name", "trainfleet_pool_info", bridged=True)


def of_a_job(condition: str, bridge: str = "<bridge>") -> str:
    """The condition's series, which are by job, with the name of the job and whose it is."""
    whose = info(JOB, f"job_name, {JOB_OWNERS}", "trainfleet_job_info", bridged=True, bridge=bridge)
    return f"(\n{indented(condition)}\n)\n{_OWNED}\n{whose}"


def of_a_pool(condition: str) -> str:
    """The condition's series, which are by pool, with the name of the pool."""
    return f"(\n{indented(condition)}\n)\n* on ({POOL}) group_left (pool_name)\n{_WHICH}"


def indented(text: str) -> str:
    """Each line two columns further in."""
    return "\n".join(f"  {line}" for line in text.strip().splitlines())
