"""All rules: the rule files of Prometheus, the Helm template and docs/rules.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy.generator import DEPLOY
from deploy.generator.rules_accelerators import ACCELERATORS
from deploy.generator.rules_alerts_exporter import EXPORTER_ALERTS
from deploy.generator.rules_alerts_jobs import JOB_ALERTS
from deploy.generator.rules_alerts_pools import POOL_ALERTS
from deploy.generator.rules_goodput import GOODPUT
from deploy.generator.rules_model import INTERVAL, Alert, Group, Number, Record
from deploy.generator.rules_page import page
from deploy.generator.rules_pools import ENDINGS, POOLS, QUEUES
from deploy.generator.rules_readings import READINGS
from deploy.generator.rules_signals import SIGNAL_RECORDS
from deploy.generator.rules_yaml import Models, Thresholds, helm_yaml, prometheus_yaml

RECORDING = (ACCELERATORS, READINGS, SIGNAL_RECORDS, QUEUES, POOLS, ENDINGS, GOODPUT)
ALERTING = (EXPORTER_ALERTS, JOB_ALERTS, POOL_ALERTS)
_RECORD = re.compile(r"\b[a-z_]+:trainfleet_[a-z_]+:[a-z0-9_]+\b")
THRESHOLDS = DEPLOY / "prometheus" / "thresholds.yaml"


@dataclass(frozen=True, slots=True)
class Tuning:
    """The content of thresholds.yaml: thresholds, prices and models."""

    thresholds: Thresholds
    prices: Mapping[str, Number]
    currency: str
    models: Models


def shipped() -> Tuning:
    """Read deploy/prometheus/thresholds.yaml."""
    read: dict[str, Any] = yaml.safe_load(THRESHOLDS.read_text(encoding="utf-8"))
    return Tuning(read["thresholds"], read["prices"], read["currency"], read["models"])


def records() -> Sequence[Record]:
    """Return all recording rules, except those of prices and models."""
    return [rule for group in RECORDING for rule in group.rules if isinstance(rule, Record)]


def alerts() -> Sequence[Alert]:
    """Return all alerting rules."""
    return [rule for group in ALERTING for rule in group.rules if isinstance(rule, Alert)]


def depth() -> int:
    """Return the length of the longest chain of records that read records.

    Records of the past are complete after this many runs of promtool.
    """
    expressions = {record.name: record.expr for record in records()}

    def of(name: str) -> int:
        below = (other for other in _RECORD.findall(expressions.get(name, "")))
        return 1 + max(map(of, below), default=0)

    return max(map(of, expressions))


def render(
    thresholds: Thresholds,
    prices: Mapping[str, Number],
    models: Models,
    *,
    groups: Sequence[Group] = (*RECORDING, *ALERTING),
    currency: str = "CNY",
    interval: str = INTERVAL,
) -> str:
    """Return a rule file. Raises KeyError for a missing threshold."""
    return prometheus_yaml(groups, thresholds, prices=prices, currency=currency, models=models, interval=interval)


def helm_template() -> str:
    """Return all rules as a Helm template that begins with `groups:`.

    It reads `thresholds`, `prices`, `currency` and `models` of `.Values.prometheusRule`.
    """
    return helm_yaml((*RECORDING, *ALERTING), interval=INTERVAL)


def files() -> Mapping[Path, str]:
    """Return the rule files and docs/rules.md. Paths are relative to deploy/."""
    tuning = shipped()
    head = "# Made by python -m deploy.generator from thresholds.yaml; edit that, or the table in deploy/generator.\n"

    def rule_file(groups: Sequence[Group]) -> str:
        return head + render(tuning.thresholds, tuning.prices, tuning.models, groups=groups, currency=tuning.currency)

    folder = Path("prometheus/rules")
    return {
        folder / "trainfleet-recording.yaml": rule_file(RECORDING),
        folder / "trainfleet-alerts.yaml": rule_file(ALERTING),
        Path("../docs/rules.md"): page(RECORDING, ALERTING, tuning.thresholds, depth()),
    }
