"""The reference of the rules: all records and alerts, and the families that they read."""

from __future__ import annotations

import re
from collections import defaultdict

from deploy.generator import rules
from deploy.generator.docs_tables import code, table
from deploy.generator.rules_accelerators import PEAK, PRICE
from deploy.generator.rules_model import Alert, filled

_TABLES = (
    (code(PRICE), "Price of one accelerator for an hour, from the table of prices."),
    (code(PEAK), "Peak FLOP/s of one accelerator, with its `accelerator_name`, from the table of models."),
)
_NAMED = re.compile(r"\b(?:[a-z_]+:)?trainfleet_[a-z_]+(?::[a-z0-9_]+)?")
_OWN = ("trainfleet_exporter_", "trainfleet_provider_up")


def records() -> str:
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for record in rules.records():
        rows[record.meaning].append(code(record.name))
    cells = (("<br>".join(names), meaning) for meaning, names in rows.items())
    return table(("record", "meaning"), (*_TABLES, *cells)) + f"\n\nRecords have {rules.depth()} levels."


def alerts() -> str:
    return table(("alert", "severity", "for"), map(_row, rules.alerts()))


def _row(alert: Alert) -> tuple[str, str, str]:
    wait = filled(alert.wait, rules.shipped().thresholds) or ("event" if alert.event else "none")
    return alert.link, alert.severity + ", or critical" * alert.by_held, wait


def families() -> str:
    """Return the table of the exporter's families, each row with those that the same alerts read, also by records."""
    expressions = {record.name: record.expr for record in rules.records()}

    def read_by(expr: str) -> set[str]:
        named = set(_NAMED.findall(expr))
        below = (read_by(expressions[name]) for name in named & set(expressions))
        return {name for name in named if ":" not in name and not name.startswith(_OWN)}.union(*below)

    by_alert = {alert.link: read_by(alert.expr) for alert in rules.alerts()}
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for family in sorted(set().union(*by_alert.values())):
        rows[", ".join(link for link, read in by_alert.items() if family in read)].append(code(family))
    return table(("families", "alerts"), (("<br>".join(names), links) for links, names in rows.items()))
