"""docs/rules.md: all records and alerts, and the families that they read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from deploy.generator.rules_accelerators import PEAK, PEAK_LABELS, PEAK_MEANING, PRICE, PRICE_LABELS, PRICE_MEANING
from deploy.generator.rules_model import Alert, Group, Record, filled
from deploy.generator.rules_yaml import Thresholds

_HEAD = """\
# Rules and alerts

`python -m deploy.generator` generates this page from the rules. [alerts.md](alerts.md) shows how to load and tune
them.

- Load `deploy/prometheus/rules/*.yaml` into Prometheus 2.42 or later.
- Name the scrape job `trainfleet-exporter`, or set `exporter_job` in `deploy/prometheus/thresholds.yaml`.
- Prometheus evaluates every group every minute. So `sum_over_time(RECORD[R]) / 60` returns accelerator-hours for
  `user:trainfleet_held_accelerators:sum`, and money for `user:trainfleet_held_cost:per_hour`.
- Prometheus evaluates the group `trainfleet-baselines` every ten minutes. Its records are medians and usual values of
  power and network. Query them with `last_over_time(RECORD[20m])`.
- A minute without a scrape has no sample and does not count.
- If `global.metrics.deny` contains a family, the rules that read it get no data.
  [The last table](#what-the-rules-read) shows which rules read it.
- To compute records of the past, run `promtool tsdb create-blocks-from rules` {depth} times with the same
  `--start` and `--end`. Records build on records, and a run does not see its own output.

A record's name is `level:metric:operations`. The level names the labels that the record groups
by. A job without a known utilization is unmeasured: it counts as held, but not as used, wasted or idle.

## Records

| record | labels | meaning |
|---|---|---|
"""
_ALERTS = """
## Alerts

Alerts about a job have the labels `provider, job_id, job_name, workspace_id, pool_id, user_id, user_name`.

These alerts bridge gaps of up to `bridge`, such as missed scrapes or a restart of the exporter. An alert ends
immediately if the cloud reports the end of the job, except `TrainfleetJobRestartStorm`. If the job's series only
disappear, the alert ends after `bridge`.
`bridge` is longer than `exporter_down_for` and `provider_down_for`, so `deploy/alertmanager/` can mute alerts whose
state is unknown. A failed poll does not end an alert, because the exporter shows the last good values for a few polls.

An `event` fires immediately and has the label `event="true"`. Its alert ends after a fixed time. Ignore this end.

| alert | severity | for | what it says |
|---|---|---|---|
"""
_READ = """
## What the rules read

A family is absent in these cases:

- `global.metrics.deny` contains the family.
- The collector of the family is off.
- The cloud does not report the family.

Records
that read it are then absent or less exact. Most alerts that read it do not fire. Records appear without level and
prefix here. The exporter's own families are not listed, because they cannot be denied.

| family | alerts | records |
|---|---|---|
"""
_NAMED = re.compile(r"\b(?:[a-z_]+:)?trainfleet_[a-z_]+(?::[a-z0-9_]+)?")
_OWN = ("trainfleet_exporter_", "trainfleet_provider_up")


def page(recording: Sequence[Group], alerting: Sequence[Group], thresholds: Thresholds, depth: int) -> str:
    """Return the whole page. `depth` is that of `rules.depth()`."""
    records = [Record(PRICE, "", PRICE_MEANING, PRICE_LABELS), Record(PEAK, "", PEAK_MEANING, PEAK_LABELS)]
    records += [rule for group in recording for rule in group.rules if isinstance(rule, Record)]
    alerts = [rule for group in alerting for rule in group.rules if isinstance(rule, Alert)]
    return (
        _HEAD.format(depth=depth)
        + "".join(f"| `{one.name}` | `{', '.join(one.labels)}` | {one.meaning} |\n" for one in records)
        + _ALERTS
        + "".join(_row(alert, thresholds) for alert in alerts)
        + _READ
        + "".join(_readers(records, alerts))
    )


def _readers(records: Sequence[Record], alerts: Sequence[Alert]) -> Iterator[str]:
    """Yield a row for each family of the exporter: the alerts and records that read it, directly or through records."""
    expressions = {record.name: record.expr for record in records}

    def families(expr: str) -> set[str]:
        named = set(_NAMED.findall(expr))
        below = (families(expressions[name]) for name in named & set(expressions))
        return {name for name in named if ":" not in name and not name.startswith(_OWN)}.union(*below)

    by_alert = {alert.link: families(alert.expr) for alert in alerts}
    by_record: dict[str, set[str]] = defaultdict(set)
    for record in records:
        by_record[f"`{record.name.partition(':')[2].removeprefix('trainfleet_')}`"] |= families(record.expr)
    for family in sorted(set().union(*by_alert.values(), *by_record.values())):
        readers = (", ".join(name for name, read in table.items() if family in read) for table in (by_alert, by_record))
        yield f"| `{family}` | {' | '.join(readers)} |\n"


def _row(alert: Alert, thresholds: Thresholds) -> str:
    wait = filled(alert.wait, thresholds) or ("event" if alert.event else "none")
    severity = alert.severity + ", or critical" * alert.by_held
    return f"| {alert.link} | {severity} | {wait} | {filled(alert.about, thresholds)} |\n"
