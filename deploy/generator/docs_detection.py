"""The table in docs/detection.md of alerts that the simulated weeks do not measure, with the tests of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from deploy.generator import DEPLOY, rules

PAGE = DEPLOY.parent / "docs" / "detection.md"
_TESTS = DEPLOY / "prometheus" / "tests"
_MEASURED = re.compile(r"^\| \[?(Trainfleet\w+)", re.MULTILINE)


def reference() -> str:
    """Return a row for each alert that has no row in the measured part of the page."""
    return elsewhere(PAGE.read_text(encoding="utf-8").partition("<!--")[0])


def elsewhere(measured: str) -> str:
    """Return a row for each alert that has no row in `measured`, with the files of rule tests that test it."""
    known = set(_MEASURED.findall(measured))
    files: dict[str, list[str]] = {}
    for path in sorted(_TESTS.glob("*.yaml")):
        tests: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
        for name in sorted({row["alertname"] for test in tests for row in test.get("alert_rule_test", [])}):
            files.setdefault(name, []).append(_link(path))
    rows = (
        f"| {alert.link} | {', '.join(files.get(alert.name, []))} |\n"
        for alert in rules.alerts()
        if alert.name not in known
    )
    return "| alert | tested by |\n|---|---|\n" + "".join(rows)


def _link(path: Path) -> str:
    return f"[{path.name}](../deploy/prometheus/tests/{path.name})"
