"""docs/rules.md: all records and alerts, and the families that they read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from deploy.generator.rules_accelerators import PEAK, PRICE
from deploy.generator.rules_model import Alert, Group, Record, filled
from deploy.generator.rules_yaml import Thresholds

_HEAD = """\
# Rules and alerts

[alerts.md](alerts.md) shows how to load and tune the rules.

- Prometheus evaluates every group every minute. So `sum_over_time(RECORD[R]) / 60` returns accelerator-hours for
  `user:trainfleet_held_accelerators:sum`, and money for `user:trainfleet_held_cost:per_hour`.
- Prometheus evaluates the group `trainfleet-baselines` every ten minutes. Query it with `last_over_time(RECORD[20m])`.
- To compute records of the past, run `promtool tsdb create-blocks-from rules` {depth} times with the same
  `--start` and `--end`. Records build on records, and a run does not see its own output.

These sentences hold for many records:

- A job without a known utilization is unmeasured: it counts as held, but not as used, wasted or idle.
- Costs leave out accelerators of models without a price. `provider:trainfleet_unpriced_accelerators:sum` counts them.
- A pool includes its nested pools. A provider counts nested pools once.
- `_fresh` and the power, network and busiest pod of a job need a reading that is new enough for alerts.
- `_median`, `_low` and `_usual` are absent until `baseline_readings` readings with gaps of ten minutes are known.
- Records of faults and recoveries are absent if there were none.

## Records

A record's name is `level:metric:operations`. The level names its labels, besides `provider`:

| level | labels |
|---|---|
| `job`, `pod` | `job_id`; of pods also `pod_id` |
| `user`, `workspace` | `user_id` and `user_name`; `workspace_id` |
| `pool`, `node` | `pool_id`; of nodes also `node_name` |
| `charged_to` | `charged_to`: the value of the tag `chargeback_label` of the job |
| `accelerator_model` | `accelerator_model` |

Records of accelerators, utilization and costs also have `accelerator` and `accelerator_model`, and costs `currency`.
Held accelerators and what is made of them have `charged_to` above the level of providers. At the level of jobs, they
and the age in the queue also have `workspace_id`, `pool_id`, `user_id` and `user_name`.

| record | meaning |
|---|---|
| `{price}` | Price of one accelerator for an hour, from the table of prices. |
| `{peak}` | Peak FLOP/s of one accelerator, with its `accelerator_name`, from the table of models. |
"""
_ALERTS = """
## Alerts

Alerts about a job have the labels `provider, job_id, job_name, workspace_id, pool_id, user_id, user_name`.

These alerts bridge gaps of up to `bridge`, such as missed scrapes. An alert ends at once if the cloud reports the end
of the job, except `TrainfleetJobRestartStorm`. A failed poll does not end an alert.

An `event` fires immediately and has the label `event="true"`. Its alert ends after a fixed time. Ignore this end.

Each [runbook](runbooks.md) says when its alert fires, and what to do.

| alert | severity | for |
|---|---|---|
"""
_READ = """
## What the rules read

A family is absent if `global.metrics.deny` contains it, if its collector is off, or on some clouds. Most alerts that
read it then do not fire, also if they read it through records. Records that read it are absent or less exact.

| families | alerts |
|---|---|
"""
_NAMED = re.compile(r"\b(?:[a-z_]+:)?trainfleet_[a-z_]+(?::[a-z0-9_]+)?")
_OWN = ("trainfleet_exporter_", "trainfleet_provider_up")


def page(recording: Sequence[Group], alerting: Sequence[Group], thresholds: Thresholds, depth: int) -> str:
    """Return the whole page. `depth` is that of `rules.depth()`."""
    records = [rule for group in recording for rule in group.rules if isinstance(rule, Record)]
    alerts = [rule for group in alerting for rule in group.rules if isinstance(rule, Alert)]
    return (
        _HEAD.format(depth=depth, price=PRICE, peak=PEAK)
        + "".join(_records(records))
        + _ALERTS
        + "".join(_row(alert, thresholds) for alert in alerts)
        + _READ
        + "".join(_readers(records, alerts))
    )


def _records(records: Sequence[Record]) -> Iterator[str]:
    """Yield a row for all records of one meaning."""
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for record in records:
        rows[record.meaning].append(f"`{record.name}`")
    for meaning, names in rows.items():
        yield f"| {'<br>'.join(names)} | {meaning} |\n"


def _readers(records: Sequence[Record], alerts: Sequence[Alert]) -> Iterator[str]:
    """Yield a row for the families of the exporter that the same alerts read, directly or through records."""
    expressions = {record.name: record.expr for record in records}

    def families(expr: str) -> set[str]:
        named = set(_NAMED.findall(expr))
        below = (families(expressions[name]) for name in named & set(expressions))
        return {name for name in named if ":" not in name and not name.startswith(_OWN)}.union(*below)

    by_alert = {alert.link: families(alert.expr) for alert in alerts}
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for family in sorted(set().union(*by_alert.values())):
        rows[", ".join(link for link, read in by_alert.items() if family in read)].append(f"`{family}`")
    for links, names in rows.items():
        yield f"| {'<br>'.join(names)} | {links} |\n"


def _row(alert: Alert, thresholds: Thresholds) -> str:
    wait = filled(alert.wait, thresholds) or ("event" if alert.event else "none")
    severity = alert.severity + ", or critical" * alert.by_held
    return f"| {alert.link} | {severity} | {wait} |\n"
