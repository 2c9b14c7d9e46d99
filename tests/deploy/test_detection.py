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
from benchmarks import detection, detection_rules, detection_samples, detection_world
from benchmarks.detection_rules import Firing, fired, seconds
from benchmarks.detection_world import Episode, Job, Week
from deploy.generator import DEPLOY, rules
from deploy.generator.docs_detection import PAGE

from tests.support.programs import need

MINUTES = 330
NAMES = ("TrainfleetJobHung", "TrainfleetJobIdle", "TrainfleetPodStraggling", "TrainfleetJobFailed")
_SAMPLE = re.compile(r"(?P<series>\S.*\}) (?P<value>\S+) (?P<time>\d+)\n")


def _job(job_id: str, pods: int, *parts: tuple[str, int], status: str = "running") -> Job:
    """Return a job with parts of a kind and a number of minutes."""
    job, at = Job(job_id, pods, 0, 0, 0, status), 0
    for kind, minutes in parts:
        job.timeline.append(Episode(kind, job_id, at, at + minutes, 1 if kind == "straggler" else 0, 0.5))
        at += minutes
    return replace(job, end=at if status != "running" else detection_world.MINUTES)


def _planted() -> Week:
    work = ("work", 400)
    jobs = [
        _job("hangs", 4, ("work", 150), ("hang", 60), work),
        _job("rests", 1, ("work", 100), ("idle", 90), work),
        _job("naps", 1, ("work", 100), ("idle", 30), work),
        _job("fails", 1, ("work", 100), status="failed"),
        _job("evaluates", 4, ("work", 150), ("evaluation", 40), work),
        _job("limps", 8, ("work", 100), ("straggler", 60), work),
    ]
    week = replace(detection_world.simulate(1, jobs=0), jobs=jobs)
    failed = Episode("failed", "fails", 100, 130)
    return replace(week, episodes=[*(one for job in jobs for one in job.timeline), failed])


def _alerts() -> list[Any]:
    return [alert for alert in rules.alerts() if alert.name in NAMES]


def test_alert_fires_after_an_unbroken_wait() -> None:
    minutes = [0, 1, 2, 3, 5, 6, 7, 8, 9, 20]
    found = list(fired("A", {}, [60 * minute for minute in minutes], 180))
    assert found == [Firing("A", {}, 180, 180), Firing("A", {}, 480, 540)]
    assert len(list(fired("A", {}, [60 * minute for minute in minutes], 0))) == 3
    assert list(fired("A", {}, [], 0)) == []
    assert [seconds(text) for text in ("", "90s", "20m", "1h30m")] == [0, 90, 1200, 5400]


def test_score_counts_false_alarms_and_misses() -> None:
    week = _planted()
    at = detection_samples.when
    found = [
        Firing("TrainfleetJobHung", {"job_id": "hangs"}, at(165), at(209)),
        Firing("TrainfleetJobHung", {"job_id": "evaluates"}, at(165), at(170)),
        Firing("TrainfleetPodStraggling", {"job_id": "limps", "pod_id": "limps-2"}, at(120), at(125)),
    ]
    scores = detection.score(week, found)
    hung, straggling = scores["TrainfleetJobHung"], scores["TrainfleetPodStraggling"]
    assert (hung.precision, hung.recall) == (0.5, 1.0)
    assert hung.delay == pytest.approx(15, abs=1)
    assert dict(hung.false) == {"evaluation": 1}
    assert (straggling.precision, straggling.recall) == (0.0, 0.0), "another pod than the one that is slow"
    assert scores["TrainfleetJobIdle"].recall == 0.0


@pytest.mark.long
def test_planted_jobs_are_scored_as_promtool_fires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # promtool evaluates every group each minute.
    monkeypatch.setattr(rules, "RECORDING", [replace(group, interval="") for group in rules.RECORDING])
    for program in ("prometheus", "promtool"):
        need(program)
    week, samples = _planted(), tmp_path / "week.om"
    detection_samples.write(week, samples, seed=1)
    when = detection_samples.when
    found = detection_rules.firings(samples, _alerts(), tmp_path, when(0), when(MINUTES - 1))
    scores = detection.score(week, found)
    for name in NAMES:
        one = scores[name]
        assert (name, one.precision, one.recall, one.wanted) == (name, 1.0, 1.0, 1)
    assert {firing.labels["job_id"] for firing in found} == {"hangs", "rests", "fails", "limps"}
    _promtool(samples, found, tmp_path)


def _promtool(samples: Path, found: list[Firing], folder: Path) -> None:
    """Let promtool evaluate the same samples. Each alert must start and end at the same minutes."""
    read = [yaml.safe_load(path.read_text()) for path in sorted((DEPLOY / "prometheus" / "rules").glob("*.yaml"))]
    groups = [group for file in read for group in file["groups"]]
    for group in groups:
        for rule in group["rules"]:
            rule.pop("annotations", None)
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    minute_of = {detection_samples.when(minute): minute for minute in range(MINUTES)}
    series: defaultdict[str, list[str]] = defaultdict(lambda: ["_"] * MINUTES)
    for sample in _SAMPLE.finditer(samples.read_text()):
        minute = minute_of.get(int(sample["time"]))
        if minute is not None:
            series[sample["series"]][minute] = sample["value"]
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


def test_page_has_a_row_for_every_alert() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [alert.name for alert in rules.alerts() if f"[{alert.name}](" not in text] == []
    assert set(detection.EXPECTED) <= {alert.name for alert in rules.alerts()}
    assert len(re.findall(r"\S*\w\S*", text.partition("<!--")[0])) <= 1000
