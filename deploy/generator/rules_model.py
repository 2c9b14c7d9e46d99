"""Recording and alerting rules as text in which `<name>` stands for the threshold `name`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from deploy.generator.rules_actions import FIRST

INTERVAL = "1m"
"""The evaluation interval of groups without one of their own.

Dashboards rely on it: `sum_over_time(X[R]) / 60` is X-hours.
"""

Severity = Literal["critical", "warning", "info"]
Number = int | float

_OF_JOBS = re.compile("Trainfleet(Job|Pod|Pool|Node)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PLACE = re.compile(r"<([a-z][a-z_]*)>")


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule. `meaning` is for the docs."""

    name: str
    expr: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule. `wait` is its `for`; if it is empty, the alert fires at once.

    The alert of an `event` fires for a fixed time and has the label `event="true"`. Its end means nothing. If the value
    is a number of held accelerators (`by_held`), many of them make it critical. If it `flaps`, it fires longer.
    """

    name: str
    condition: str
    severity: Severity
    summary: str
    description: str
    wait: str = ""
    event: bool = False
    by_held: bool = False
    flaps: bool = False
    of: Literal["job", "pool", ""] = ""
    """Of what the series of `condition` are. The alert adds the name and the owner, or the name of the pool."""
    bridge: str = "<bridge>"

    @property
    def subject(self) -> tuple[str, str] | None:
        """The labels and the info family of the jobs or pools that an override selects; None for other alerts."""
        return {"job": (JOB, "trainfleet_job_info"), "pool": (POOL, "trainfleet_pool_info")}.get(self.of)

    @property
    def expr(self) -> str:
        """The query. Jobs can opt out of all their alerts or of this one, by its name without `Trainfleet`."""
        if self.subject is None:
            return self.condition
        keys, family = self.subject
        labels = f"job_name, {JOB_OWNERS}" if self.of == "job" else "pool_name"
        whose = info(keys, labels, family, bridged=True, bridge=self.bridge)
        named = f"(\n{indented(self.condition)}\n)\n* on ({keys}) group_left ({labels})\n{whose}"
        if self.of == "pool":
            return named
        # The space separates braces, which Helm would read as the start of a template.
        tag = f"off|(.*[^A-Za-z])?(Trainfleet)?{self.name.removeprefix('Trainfleet')}([^A-Za-z].*)?"
        opted_out = f'last_over_time(trainfleet_job_labels{{ <opt_out_label>=~"{tag}"}}[{self.bridge}])'
        return f"{named}\nunless on ({JOB})\n{opted_out}"

    @property
    def thresholds(self) -> set[str]:
        """The names of the thresholds that decide when it fires, without those of the records that it reads."""
        return names(self.expr + self.wait + self.label)

    @property
    def label(self) -> str:
        """The label `severity`, a template of Prometheus."""
        most = "{{ if ge $value <critical_accelerators>.0 }}critical{{ else }}%s{{ end }}"
        return most % self.severity if self.by_held else self.severity

    @property
    def text(self) -> str:
        """The description with the first action."""
        return f"{self.description} {FIRST[self.name.removeprefix('Trainfleet')]}"

    @property
    def runbook(self) -> str:
        """The URL of the alert's runbook."""
        return f"<runbook_url>/runbooks.md#{self.name.lower()}"

    @property
    def link(self) -> str:
        """A link to the runbook from a page in docs/, as Markdown."""
        return f"[{self.name}]({self.runbook.removeprefix('<runbook_url>/')})"

    @property
    def dashboard(self) -> str:
        """The URL of the dashboard that shows the object of the alert, with its variables set."""
        board, variables = "fleet" if _OF_JOBS.match(self.name) else "exporter", {"provider": "provider"}
        if self.subject:
            board, variable, label = _BOARDS[self.subject[0]]
            variables[variable] = label
        query = "&".join(f"var-{name}={{{{ $labels.{label} | urlquery }}}}" for name, label in variables.items())
        return f"<grafana_url>/d/trainfleet-{board}?{query}"


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that Prometheus evaluates in order, so that each can read the records before it."""

    name: str
    rules: Sequence[Record | Alert]
    has_tables: bool = field(default=False)
    """Whether the group begins with the records of prices and peaks."""
    interval: str = ""
    """The evaluation interval, if it is not `INTERVAL`."""
    switch: str = ""
    """The key of `records` in thresholds.yaml that turns the group off; empty if the group is always on."""


def filled(text: str, thresholds: Mapping[str, str | Number] | Callable[[str], str]) -> str:
    """Replace every `<name>` in `text`. Raises KeyError for an unknown name."""

    def value(found: re.Match[str]) -> str:
        return thresholds(found[1]) if callable(thresholds) else str(thresholds[found[1]])

    return _PLACE.sub(value, text)


def names(text: str) -> set[str]:
    """Return the names of the thresholds in `text`."""
    return set(_PLACE.findall(text))


def info(keys: str, labels: str, series: str, *, bridged: bool, bridge: str = "<bridge>") -> str:
    """Return a query for exactly one info series of each object, so that joins on `keys` never match two.

    An object has two if a label changed recently or if two exporters poll one provider. With `bridged`, an object that
    is not shown now has its last series within `bridge`.
    """
    now = f"topk by ({keys}) (1, max by ({keys}, {labels}) ({series}))"
    if not bridged:
        return now
    before = f"topk by ({keys}) (1, max by ({keys}, {labels}) (last_over_time({series}[{bridge}])))"
    return f"(\n  {now}\n  or on ({keys})\n  {before}\n)"


JOB = "provider, job_id"
JOB_OWNERS = "workspace_id, pool_id, user_id, user_name"
POOL = "provider, pool_id"

_BOARDS = {JOB: ("job", "job_id", "job_id"), POOL: ("pools", "pool", "pool_id")}


def seconds(duration: str) -> int:
    """Parse a duration of Prometheus into seconds; 0 for none."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", duration))


def indented(text: str) -> str:
    """Indent each line by two spaces."""
    return "\n".join(f"  {line}" for line in text.strip().splitlines())
