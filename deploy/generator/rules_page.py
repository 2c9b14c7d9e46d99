"""docs/rules.md: all records and alerts, and the families that they read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from deploy.generator.rules_accelerators import PEAK, PEAK_LABELS, PEAK_MEANING, PRICE, PRICE_LABELS, PRICE_MEANING
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

A record's name is `level:metric:operations`. The level names the labels, except where the table of records has others:

| level | labels |
|---|---|
{levels}
| record | other labels | meaning |
|---|---|---|
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

| family | alerts |
|---|---|
"""
_NAMED = re.compile(r"\b(?:[a-z_]+:)?trainfleet_[a-z_]+(?::[a-z0-9_]+)?")
_OWN = ("trainfleet_exporter_", "trainfleet_provider_up")


def page(recording: Sequence[Group], alerting: Sequence[Group], thresholds: Thresholds, depth: int) -> str:
    """Return the whole page. `depth` is that of `rules.depth()`."""
    records = [Record(PRICE, "", PRICE_MEANING, PRICE_LABELS), Record(PEAK, "", PEAK_MEANING, PEAK_LABELS)]
    records += [rule for group in recording for rule in group.rules if isinstance(rule, Record)]
    alerts = [rule for group in alerting for rule in group.rules if isinstance(rule, Alert)]
    return (
        _HEAD.format(
            depth=depth,
            levels="".join(f"| `{level}` | `{', '.join(usual)}` |\n" for level, usual in _levels(records).items()),
        )
        + "".join(_records(records))
        + _ALERTS
        + "".join(_row(alert, thresholds) for alert in alerts)
        + _READ
        + "".join(_readers(records, alerts))
    )


def _levels(records: Sequence[Record]) -> dict[str, tuple[str, ...]]:
    """Return the usual labels of each level."""
    found: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for record in records:
        found[record.name.partition(":")[0]][record.labels] += 1
    return {level: labels.most_common(1)[0][0] for level, labels in found.items()}


def _records(records: Sequence[Record]) -> Iterator[str]:
    """Yield a row for all records of one meaning. Levels that differ from their usual labels are listed in it."""
    levels, rows = _levels(records), defaultdict[str, tuple[list[str], dict[str, list[str]]]](lambda: ([], {}))
    for record in records:
        level = record.name.partition(":")[0]
        usual, (names, others) = levels[level], rows[record.meaning]
        more, less = (", ".join(sorted(set(a) - set(b))) for a, b in ((record.labels, usual), (usual, record.labels)))
        names.append(f"`{record.name}`")
        if other := " ".join(filter(None, (more and f"also `{more}`", less and f"not `{less}`"))):
            others.setdefault(other, []).append(level)
    for meaning, (names, others) in rows.items():
        notes = (other if len(found) == len(names) else f"{found[0]}: {other}" for other, found in others.items())
        yield f"| {'<br>'.join(names)} | {'<br>'.join(notes)} | {meaning} |\n"


def _readers(records: Sequence[Record], alerts: Sequence[Alert]) -> Iterator[str]:
    """Yield a row for each family of the exporter that alerts read, directly or through records."""
    expressions = {record.name: record.expr for record in records}

    def families(expr: str) -> set[str]:
        named = set(_NAMED.findall(expr))
        below = (families(expressions[name]) for name in named & set(expressions))
        return {name for name in named if ":" not in name and not name.startswith(_OWN)}.union(*below)

    by_alert = {alert.link: families(alert.expr) for alert in alerts}
    for family in sorted(set().union(*by_alert.values())):
        yield f"| `{family}` | {', '.join(link for link, read in by_alert.items() if family in read)} |\n"


def _row(alert: Alert, thresholds: Thresholds) -> str:
    wait = filled(alert.wait, thresholds) or ("event" if alert.event else "none")
    severity = alert.severity + ", or critical" * alert.by_held
    return f"| {alert.link} | {severity} | {wait} |\n"
