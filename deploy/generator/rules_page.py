"""docs/rules.md: every record and alert with its meaning, labels, severity and waiting time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from deploy.generator.rules_accelerators import PEAK, PEAK_LABELS, PEAK_MEANING, PRICE, PRICE_LABELS, PRICE_MEANING
from deploy.generator.rules_model import Alert, Group, Record, filled
from deploy.generator.rules_yaml import Thresholds

_HEAD = """\
# Rules and alerts

Made by `python -m deploy.generator` from the rules; `deploy/prometheus/thresholds.yaml` holds what can be tuned.

Load `deploy/prometheus/rules/*.yaml` into Prometheus 2.42 or later; `deploy/prometheus/prometheus.yml` is an example.
The scrape job is named `trainfleet-exporter` (the threshold `exporter_job` says otherwise).

Every group is evaluated every minute, so `sum_over_time(RECORD[R]) / 60` gives hours: of
`user:trainfleet_held_accelerators:sum` accelerator-hours, of `user:trainfleet_held_cost:per_hour` money. A minute in
which the exporter was not scraped has no sample, and counts as nothing. What `metrics.deny` takes away is taken from
the rules as well, without a word: the last table of this page says what. To make records of the past, run
`promtool tsdb create-blocks-from rules` {depth} times over the same time: records build on records, and one run does
not see what it writes itself.

A record's name is `level:metric:operations`; the level says what it is by. A job whose utilization nobody knows is
unmeasured: it counts as held, and as neither used nor wasted nor idle.

## Records

| record | labels | meaning |
|---|---|---|
"""
_ALERTS = """
## Alerts

Alerts of jobs carry `provider, job_id, job_name, workspace_id, pool_id, user_id, user_name`. They bridge gaps of up to
`bridge` (missed scrapes, a restart of the exporter): what the cloud says is over ends at once, and what is only gone
from the page ends so much later. That is longer than `exporter_down_for` and `provider_down_for`, so that
`deploy/alertmanager/` can silence what is not over but unknown. A poll that fails does not move them: the exporter
shows the last good answer for a few polls.

| alert | severity | for | what it says |
|---|---|---|---|
"""
_READ = """
## What they read

Where a family is absent (it is under `metrics.deny`, its collector is off, or the cloud does not tell it), the records
that read it are absent or less exact, and the alerts that read it, or such a record, mostly silent. Records are named
without level and prefix here, and the exporter's own families are left out: they cannot be denied.

| family | alerts | records |
|---|---|---|
"""
_NAMED = re.compile(r"\b(?:[a-z_]+:)?trainfleet_[a-z_]+(?::[a-z0-9_]+)?")
_OWN = ("trainfleet_exporter_", "trainfleet_provider_up")


def page(recording: Sequence[Group], alerting: Sequence[Group], thresholds: Thresholds, depth: int) -> str:
    """The whole page. `depth` is how many records stand on one another."""
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
    """A row for each family of the exporter: what reads it, itself or by the records that it stands on."""
    expressions = {record.name: record.expr for record in records}

    def families(expr: str) -> set[str]:
        named = set(_NAMED.findall(expr))
        below = (families(expressions[name]) for name in named & set(expressions))
        return {name for name in named if ":" not in name and not name.startswith(_OWN)}.union(*below)

    by_alert = {f"[{alert.name}](runbooks/{alert.name}.md)": families(alert.expr) for alert in alerts}
    by_record: dict[str, set[str]] = defaultdict(set)
    for record in records:
        by_record[f"`{record.name.partition(':')[2].removeprefix('trainfleet_')}`"] |= families(record.expr)
    for family in sorted(set().union(*by_alert.values(), *by_record.values())):
        readers = (", ".join(name for name, read in table.items() if family in read) for table in (by_alert, by_record))
        yield f"| `{family}` | {' | '.join(readers)} |\n"


def _row(alert: Alert, thresholds: Thresholds) -> str:
    wait = filled(alert.wait, thresholds) or "at once"
    link = f"[{alert.name}](runbooks/{alert.name}.md)"
    return f"| {link} | {alert.severity} | {wait} | {filled(alert.about, thresholds)} |\n"
