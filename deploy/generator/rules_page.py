"""docs/rules.md: every record and alert with its meaning, labels, severity and waiting time."""

from __future__ import annotations

from collections.abc import Sequence

from deploy.generator.rules_accelerators import PRICE, PRICE_LABELS, PRICE_MEANING
from deploy.generator.rules_model import Alert, Group, Record, filled
from deploy.generator.rules_yaml import Thresholds

_HEAD = """\
# Rules and alerts

Made by `python -m deploy.generator` from the rules; `deploy/prometheus/thresholds.yaml` holds what can be tuned.

Load `deploy/prometheus/rules/*.yaml` into Prometheus 2.42 or later; `deploy/prometheus/prometheus.yml` is an example.
The scrape job is named `trainfleet-exporter` (the threshold `exporter_job` says otherwise).

Every group is evaluated every minute, so `sum_over_time(RECORD[R]) / 60` gives hours: of
`user:trainfleet_held_accelerators:sum` accelerator-hours, of `user:trainfleet_held_cost:per_hour` money. A minute in
which the exporter was not scraped has no sample, and counts as nothing. The rules need `trainfleet_job_info` and
`trainfleet_pool_info`: do not put them under `metrics.deny`. To make records of the past, run
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

Alerts of jobs carry `provider, job_id, job_name, workspace_id, pool_id, user_id, user_name`. What they say bridges gaps
of up to `bridge` (missed scrapes, a restart of the exporter), and resolves so much later. A poll that fails does not
move them: the exporter shows the last good answer for a few polls.

| alert | severity | for | what it says |
|---|---|---|---|
"""


def page(recording: Sequence[Group], alerting: Sequence[Group], thresholds: Thresholds, depth: int) -> str:
    """The whole page. `depth` is how many records stand on one another."""
    records = [Record(PRICE, "", PRICE_MEANING, PRICE_LABELS)]
    records += [rule for group in recording for rule in group.rules if isinstance(rule, Record)]
    alerts = [rule for group in alerting for rule in group.rules if isinstance(rule, Alert)]
    return (
        _HEAD.format(depth=depth)
        + "".join(f"| `{one.name}` | `{', '.join(one.labels)}` | {one.meaning} |\n" for one in records)
        + _ALERTS
        + "".join(_row(alert, thresholds) for alert in alerts)
    )


def _row(alert: Alert, thresholds: Thresholds) -> str:
    wait = filled(alert.wait, thresholds) or "at once"
    link = f"[{alert.name}](runbooks/{alert.name}.md)"
    return f"| {link} | {alert.severity} | {wait} | {filled(alert.about, thresholds)} |\n"
