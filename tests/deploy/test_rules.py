"""promtool accepts the rules, and every rule has tests."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.generator import DEPLOY, __main__, rules
from deploy.generator.docs_metrics import own_metrics
from deploy.generator.rules_accelerators import PEAK, PRICE
from deploy.generator.rules_model import Alert, Record, names
from deploy.generator.rules_yaml import Tuning

from tests.support.programs import need
from trainfleet_exporter.families import FAMILIES, KEYS
from trainfleet_exporter.providers.huawei_modelarts.history import CAUSES

PROMETHEUS = DEPLOY / "prometheus"
RULE_FILES = sorted((PROMETHEUS / "rules").glob("*.yaml"))
RULES = {path: yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)["groups"] for path in RULE_FILES}
TESTS = sorted((PROMETHEUS / "tests").glob("*.yaml"))
GROUPS = (*rules.RECORDING, *rules.ALERTING)
JOB_LABELS = {"provider", "job_id", "job_name", "workspace_id", "pool_id", "user_id", "user_name"}
_RULE = re.compile(r"\b[a-z_]+:trainfleet_[a-z_]+:[a-z0-9_]+\b|\bTrainfleet\w+")
_METRIC = re.compile(r"\btrainfleet_[a-z_]+\b")


def _promtool(*arguments: str | Path) -> str:
    done = subprocess.run([need("promtool"), *arguments], capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def _families() -> set[str]:
    """Return the names of the exporter's metrics, as in queries."""
    own = {metric.name + ("_total" if metric.type == "counter" else "") for metric in own_metrics()}
    return {family.name for family in FAMILIES} | own


def _metrics(text: str) -> set[str]:
    """Return the exporter's metrics that a text names, without records."""
    return set(_METRIC.findall(re.sub(r"\b[a-z_]+:trainfleet_[a-z_]+:[a-z0-9_]+\b", "", text)))


@cache
def _rows(file: Path) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["tests"]
    return tests


def test_promtool_takes_the_rules() -> None:
    said = _promtool("check", "rules", *RULE_FILES)
    assert re.findall(r"SUCCESS: (\d+) rules found", said) == [
        str(len(rules.alerts())),
        str(len(rules.records()) + len(rules.shipped().prices) + len(rules.shipped().models)),
    ]


@pytest.mark.long
@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_the_rules_do_what_their_tests_say(file: Path, tmp_path: Path) -> None:
    """promtool evaluates every rule each minute, so it gets only the rules that these tests need."""
    text = file.read_text(encoding="utf-8")
    needed = _needed(text)
    for folder in ("rules", "tests"):
        (tmp_path / folder).mkdir()
    for path, groups in RULES.items():
        kept = [{**group, "rules": [rule for rule in group["rules"] if _name(rule) in needed]} for group in groups]
        (tmp_path / "rules" / path.name).write_text(yaml.dump({"groups": kept}, Dumper=yaml.CSafeDumper), "utf-8")
    (tmp_path / "tests" / file.name).write_text(text, "utf-8")
    assert "SUCCESS" in _promtool("test", "rules", tmp_path / "tests" / file.name)


def _name(rule: Mapping[str, Any]) -> str:
    return str(rule.get("record") or rule["alert"])


def _needed(text: str) -> set[str]:
    """Return the names of the rules that a text names, and of those that they name in turn."""
    texts = [(_name(rule), str(rule)) for groups in RULES.values() for group in groups for rule in group["rules"]]
    needed: set[str] = set()
    waiting = [text]
    while waiting:
        found = set(_RULE.findall(waiting.pop())) - needed
        needed |= found
        waiting += [rule for name, rule in texts if name in found]
    return needed


def test_every_rule_is_under_test() -> None:
    """Each record has expected samples, and each alert has tests in which it fires and does not fire."""
    reported: defaultdict[str, int] = defaultdict(int)
    firing: defaultdict[str, int] = defaultdict(int)
    quiet: defaultdict[str, int] = defaultdict(int)
    bridged: set[str] = set()
    for test in [test for file in TESTS for test in _rows(file)]:
        for expected in test.get("promql_expr_test", []):
            for name in re.findall(r"[a-z_]+:trainfleet_[a-z_]+:[a-z0-9_]+", expected["expr"]):
                reported[name] += len(expected["exp_samples"])
        for expected in test.get("alert_rule_test", []):
            (firing if expected["exp_alerts"] else quiet)[expected["alertname"]] += 1
            if any("stale" in str(series["values"]) for series in test["input_series"]):
                bridged.add(expected["alertname"])
    assert set(reported) == {PRICE, PEAK, *(record.name for record in rules.records())}
    assert min(reported.values()) > 0
    wanted = {alert.name for alert in rules.alerts()}
    assert set(firing) == wanted
    assert {name for name, times in quiet.items() if times >= 2} == wanted, (
        "each alert needs two tests in which it does not fire"
    )
    assert bridged == wanted, "each alert needs a test with a failed scrape"


def test_series_of_rule_tests_have_the_labels_of_the_exporter() -> None:
    """Otherwise a rule may rely on a label that no family has."""
    known = {
        family.name: {"provider", *KEYS[family.of][0], *family.labels}
        for family in FAMILIES
        if family.labels is not None
    }
    for series in {str(one["series"]) for file in TESTS for test in _rows(file) for one in test["input_series"]}:
        name, _, labels = series.partition("{")
        found = set(re.findall(r'(\w+)="', labels)) - {"instance", "job"}
        assert found <= known.get(name, found), series


def test_every_threshold_is_used_and_there_is_no_other() -> None:
    spoken: set[str] = set()
    for rule in (rule for group in GROUPS for rule in group.rules):
        spoken |= names(rule.expr)
        if isinstance(rule, Alert):
            spoken |= names(rule.wait + rule.label + rule.description + rule.dashboard + rule.runbook)
    assert spoken | {"keep_firing_for"} == set(rules.shipped().thresholds)


@pytest.mark.parametrize("rule", [rule for group in GROUPS for rule in group.rules], ids=lambda rule: rule.name)
def test_a_rule_is_well_made(rule: Record | Alert) -> None:
    assert _metrics(rule.expr) <= _families()
    if isinstance(rule, Record):
        assert re.fullmatch(r"[a-z_]+:trainfleet_[a-z_]+:[a-z0-9_]+", rule.name)
        return
    assert rule.name.startswith("Trainfleet")
    assert rule.severity in {"critical", "warning", "info"}
    assert all((rule.summary, rule.description))
    link = re.fullmatch(r"<grafana_url>/d/([a-z-]+)\?(.+)", rule.dashboard)
    assert link is not None
    board = json.loads((DEPLOY / "grafana" / "dashboards" / f"{link[1]}.json").read_text(encoding="utf-8"))
    assert board["uid"] == link[1]
    assert {found.partition("=")[0] for found in link[2].split("&")} <= {
        f"var-{variable['name']}" for variable in board["templating"]["list"]
    }


def test_platform_reasons_agree_with_the_causes_of_modelarts() -> None:
    reasons = re.compile(str(rules.shipped().thresholds["platform_reasons"]))
    of_platform = {code for code in CAUSES if reasons.fullmatch(code)}
    assert of_platform == {code for code, cause in CAUSES.items() if cause in {"accelerator", "node", "preempted"}}


def test_example_config_loads_with_the_rules_next_to_it() -> None:
    said = _promtool("check", "config", PROMETHEUS / "prometheus.yml")
    assert "2 rule files found" in said
    scrapes = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert [scrape["job_name"] for scrape in scrapes] == [rules.shipped().thresholds["exporter_job"]]


def test_promtool_accepts_rules_of_other_thresholds_and_tables(tmp_path: Path) -> None:
    tuning = rules.shipped()
    file = tmp_path / "rules.yaml"
    hostile = 'a "model": {{ $x }} # <idle_ratio>'
    thresholds = {**tuning.thresholds, "idle_ratio": 0.125, "idle_for": "2h"}
    models = {hostile: {"name": hostile, "peak_tflops": 0.5}}
    file.write_text(rules.render(Tuning(thresholds, {hostile: 1e-05}, models, currency="EUR")), encoding="utf-8")
    _promtool("check", "rules", file)
    read = yaml.safe_load(file.read_text(encoding="utf-8"))
    found: Mapping[str, Any] = {
        rule.get("alert", rule.get("record")): rule for group in read["groups"] for rule in group["rules"]
    }
    assert found[PRICE] == {
        "record": PRICE,
        "expr": "vector(1e-05)",
        "labels": {"accelerator_model": hostile, "currency": "EUR"},
    }
    assert found[PEAK] == {
        "record": PEAK,
        "expr": "vector(0.5) * 1e12",
        "labels": {"accelerator_model": hostile, "accelerator_name": hostile},
    }
    assert found["TrainfleetJobIdle"]["for"] == "2h"
    assert "< 0.125" in found["TrainfleetJobIdle"]["expr"]
    with pytest.raises(KeyError, match="chargeback_label"):
        rules.render(Tuning({}))


def test_groups_of_records_can_be_switched_off(tmp_path: Path) -> None:
    tuning, file = rules.shipped(), tmp_path / "rules.yaml"

    def groups(**switches: bool) -> set[str]:
        text = rules.render(Tuning(tuning.thresholds, records={**tuning.records, **switches}))
        file.write_text(text, encoding="utf-8")
        _promtool("check", "rules", file)
        return {group["name"] for group in yaml.safe_load(text)["groups"]}

    everything = groups()
    assert everything - groups(pods=False) == {"trainfleet-stragglers"}
    assert everything - groups(goodput=False) == {"trainfleet-goodput"}


def test_first_override_that_fits_a_job_sets_its_thresholds(tmp_path: Path) -> None:
    thresholds = {**rules.shipped().thresholds, "queued_seconds": 600}
    overrides = [
        {"provider": "p", "pool": "q", "thresholds": {"queued_seconds": 1200}},
        {"provider": "p", "thresholds": {"queued_seconds": 1800, "saturated_for": "1h"}},
    ]
    text = rules.render(Tuning(thresholds, overrides=overrides))
    (tmp_path / "rules.yaml").write_text(text, encoding="utf-8")
    series = []
    for provider, pool in (("p", "q"), ("p", "other"), ("o", "q")):
        of = f'provider="{provider}",job_id="{provider}-{pool}"'
        series += [
            {"series": f'trainfleet_job_info{{{of},pool_id="{pool}"}}', "values": "1x45"},
            {"series": f'trainfleet_job_status{{{of},status="queued"}}', "values": "1x45"},
            {"series": f"trainfleet_job_submitted_timestamp_seconds{{{of}}}", "values": "0x45"},
        ]
    checks: list[dict[str, Any]] = []
    for minute, jobs in {20: ("o-q",), 30: ("o-q", "p-q"), 40: ("o-q", "p-other", "p-q")}.items():
        firing = 'count by (job_id) (ALERTS{alertname="TrainfleetJobQueuedTooLong",alertstate="firing"})'
        samples = [{"labels": f'{{job_id="{job}"}}', "value": 1} for job in jobs]
        checks.append({"expr": firing, "eval_time": f"{minute}m", "exp_samples": samples})
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert "SUCCESS" in _promtool("test", "rules", tmp_path / "test.yaml")
    with pytest.raises(ValueError, match="unknown threshold 'stale_for'; allowed: bridge"):
        rules.render(Tuning(thresholds, overrides=[{"provider": "p", "thresholds": {"stale_for": "1h"}}]))


def test_an_idle_job_needs_more_than_the_oldest_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = rules.THRESHOLDS.read_text(encoding="utf-8").replace("idle_for: 20m", "idle_for: 15m")
    monkeypatch.setattr(rules, "THRESHOLDS", file := tmp_path / "thresholds.yaml")
    file.write_text(hasty, encoding="utf-8")
    with pytest.raises(SystemExit, match="idle_for: found 15m; allowed: over 900 s"):
        __main__.main(["--check"])
