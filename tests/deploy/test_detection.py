"""`python -m benchmarks detection` finds the same alerts as promtool, on planted jobs with known alerts."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks import detection_rules, detection_second, detection_signals
from benchmarks import detection_second_samples as samples
from benchmarks.detection_rules import Firing
from benchmarks.detection_second_world import SOURCES, Event, Job, Spell, World
from deploy.generator import DEPLOY, rules

from tests.support.programs import need

PAGE = DEPLOY.parent / "docs" / "detection.md"
MINUTES = 330
NAMES = ("TrainfleetJobHung", "TrainfleetJobIdle", "TrainfleetPodStraggling", "TrainfleetJobFailed")
_SAMPLE = re.compile(r"(?P<series>\S.*\}) (?P<value>\S+) (?P<time>\d+)\n")


def _job(job_id: str, pods: int, *parts: tuple[str, int], status: str = "running") -> Job:
    """Return a job with parts of a kind and a number of minutes, and an hour of readings before."""
    source = SOURCES[2]
    job, at = Job(job_id, source, "data parallel", source.cards[0], pods, 8, 0, status=status), 0
    for kind, minutes in parts:
        job.timeline.append(Spell(kind, at, at + minutes, 1 if kind == "throttled" else -1, 0.5))
        at += minutes
    return job


def _planted() -> World:
    jobs = [
        _job("hangs", 4, ("train", 150), ("hang", 60), ("train", MINUTES)),
        _job("rests", 1, ("train", 100), ("idle", 90), ("train", MINUTES)),
        _job("naps", 1, ("train", 100), ("idle", 30), ("train", MINUTES)),
        _job("fails", 1, ("train", 100), status="failed"),
        _job("evaluates", 4, ("train", 150), ("evaluation", 40), ("train", MINUTES)),
        _job("limps", 4, ("train", 180), ("throttled", 90), ("train", MINUTES)),
    ]
    kinds = {"hang": "hang", "idle": "idle", "throttled": "straggler"}
    events = [
        Event(job.job_id, kinds[one.what], one.start, one.end, "yes" if one.end - one.start >= 60 else "may", one.pod)
        for job in jobs
        for one in job.timeline
        if one.what in kinds
    ]
    return World(1, jobs, [*events, Event("fails", "failed", 100, 160, "yes")])


def _alerts() -> list[Any]:
    return [alert for alert in rules.alerts() if alert.name in NAMES]


@pytest.mark.long
def test_planted_jobs_are_scored_as_promtool_fires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # promtool evaluates every group each minute.
    monkeypatch.setattr(rules, "RECORDING", [replace(group, interval="") for group in rules.RECORDING])
    for program in ("prometheus", "promtool"):
        need(program)
    world, file = _planted(), tmp_path / "week.om"
    samples.write(world, file, detection_signals.Shape)
    found = detection_rules.firings(file, _alerts(), tmp_path, samples.START, samples.START + (MINUTES - 1) * 60)
    result = detection_second.score(world, found)
    assert {(one.alert, one.verdict) for one in result.alarms} == {(name, "right") for name in NAMES}
    assert {one.alert for one in result.wanted if one.delay is not None} == set(NAMES)
    assert {firing.labels["job_id"] for firing in found} == {"hangs", "rests", "fails", "limps"}
    _promtool(file, found, tmp_path)


def _promtool(file: Path, found: list[Firing], folder: Path) -> None:
    """Let promtool evaluate the same samples. Each alert must start and end at the same minutes."""
    read = [yaml.safe_load(path.read_text()) for path in sorted((DEPLOY / "prometheus" / "rules").glob("*.yaml"))]
    groups = [group for file in read for group in file["groups"]]
    wanted_rules = {record.name for turn in detection_rules.needed(_alerts()) for record, _ in turn} | {*NAMES}
    for group in groups:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert", rule.get("record")) in wanted_rules]
        for rule in group["rules"]:
            rule.pop("annotations", None)
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    minute_of = {samples.START + 60 * minute: minute for minute in range(MINUTES)}
    series: defaultdict[str, list[str]] = defaultdict(lambda: ["_"] * MINUTES)
    for sample in _SAMPLE.finditer(file.read_text()):
        minute = minute_of.get(int(sample["time"]))
        if minute is not None:  # the time of promtool begins at 0
            is_time = "timestamp_seconds" in sample["series"]
            series[sample["series"]][minute] = str(int(sample["value"]) - samples.START) if is_time else sample["value"]
    added = {each.name: {"severity": each.severity, **({"event": "true"} if each.event else {})} for each in _alerts()}
    wanted: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for firing in found:
        start, end = minute_of[firing.start], minute_of[firing.end]
        for minute in {max(start - 1, 0), start, end, end + 1} - {MINUTES}:
            wanted[firing.name, minute] += []
            for other in found:
                if other.name == firing.name and minute_of[other.start] <= minute <= minute_of[other.end]:
                    labels = {**other.labels, **added[other.name]}
                    if {"exp_labels": labels} not in wanted[firing.name, minute]:
                        wanted[firing.name, minute].append({"exp_labels": labels})
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": " ".join(_with_ends(values))} for name, values in series.items()],
        "alert_rule_test": [
            {"alertname": name, "eval_time": f"{minute}m", "exp_alerts": alerts}
            for (name, minute), alerts in wanted.items()
        ],
    }
    order = [group.name for group in (*rules.RECORDING, *rules.ALERTING)]
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "group_eval_order": order, "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(content))
    done = subprocess.run([need("promtool"), "test", "rules", folder / "test.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[:5000]


def _with_ends(values: list[str]) -> list[str]:
    """Add a stale marker where a series ends, as Prometheus does."""
    return [
        "stale" if value == "_" and number and values[number - 1] != "_" else value
        for number, value in enumerate(values)
    ]


def test_page_has_a_row_for_every_judged_alert() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in detection_second.MEANINGS if f"[{name}](" not in text] == []
    assert set(detection_second.MEANINGS) <= {alert.name for alert in rules.alerts()}
