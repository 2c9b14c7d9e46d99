"""The rules of deploy/prometheus/rules, the Helm chart's rules and docs/rules.md, all from one table of rules."""

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
    """The content of thresholds.yaml."""

    thresholds: Thresholds
    prices: Mapping[str, Number]
    currency: str
    models: Models


def shipped() -> Tuning:
    """What deploy/prometheus/thresholds.yaml says."""
    read: dict[str, Any] = yaml.safe_load(THRESHOLDS.read_text(encoding="utf-8"))
    return Tuning(read["thresholds"], read["prices"], read["currency"], read["models"])


def records() -> Sequence[Record]:
    """Every recording rule but those of the tables of prices and models."""
    return [rule for group in RECORDING for rule in group.rules if isinstance(rule, Record)]


def alerts() -> Sequence[Alert]:
    """Every alerting rule."""
    return [rule for group in ALERTING for rule in group.rules if isinstance(rule, Alert)]


def depth() -> int:
    """How many records stand on one another: so often a recording of the past has to be made to be whole."""
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
    """A rule file with these thresholds, prices and models. Raises KeyError for a threshold that is missing."""
    return prometheus_yaml(groups, thresholds, prices=prices, currency=currency, models=models, interval=interval)


def helm_template() -> str:
    """All rules as text of a Helm template, from `groups:` on, not indented.

    Thresholds are `.Values.prometheusRule.thresholds.NAME`, prices `.Values.prometheusRule.prices` (by model), their
    currency `.Values.prometheusRule.currency`, models `.Values.prometheusRule.models`; `shipped()` has the defaults.
    """
    return helm_yaml((*RECORDING, *ALERTING), interval=INTERVAL)


def files() -> Mapping[Path, str]:
    """The rule files and the page about them, by their paths from deploy/."""
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
