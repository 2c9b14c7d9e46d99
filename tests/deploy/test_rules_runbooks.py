"""Each alert has its section in the runbooks, and the queries there are valid."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from deploy.generator import DEPLOY, rules
from deploy.generator.docs_metrics import labels_of, own_metrics
from deploy.generator.rules_accelerators import PRICE

from tests.support.programs import need
from trainfleet_exporter.families import FAMILIES, KEYS

PAGE = (DEPLOY.parent / "docs" / "runbooks.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (Trainfleet\w+)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))
_SPAN = re.compile(r"```promql\n(.*?)```|(?<!`)`([^`\n]+)`(?!`)", re.DOTALL)
_NAME = re.compile(r"\b(?:[a-z_]+:)?(?:trainfleet_[a-z_]*[a-z]|process_[a-z_]+)(?::[a-z0-9_]+)?")
_SELECTOR = re.compile(rf"({_NAME.pattern})\{{([^}}]*)\}}")


def _known() -> dict[str, set[str]]:
    """Return the series that a page may name, with their labels."""
    found = {family.name: {"provider", *KEYS[family.of][0], *(family.labels or ())} for family in FAMILIES}
    found |= {metric.name + "_total" * (metric.type == "counter"): set(labels_of(metric)) for metric in own_metrics()}
    labels = set(re.findall(r"\w+", " ".join(record.expr for record in rules.records())))
    found |= {record.name: labels for record in rules.records()}
    found[PRICE] = {"accelerator_model", "currency"}
    return {name: {*labels, "job", "instance"} for name, labels in found.items()}


def _queries(text: str) -> Iterator[str]:
    for block, span in _SPAN.findall(text):
        query = (block or span).strip()
        if _NAME.match(query) or (re.match(r"[a-z_-]+ ?(by )?\(", query) and _NAME.search(query)):
            yield query


def test_each_alert_has_its_section() -> None:
    assert sorted(SECTIONS) == sorted(alert.name for alert in rules.alerts())
    for alert in rules.alerts():
        assert alert.runbook == f"<runbook_url>/runbooks.md#{alert.name.lower()}"
    assert str(rules.shipped().thresholds["runbook_url"]).endswith("/docs")


@pytest.mark.parametrize("alert", SECTIONS)
def test_a_section_says_meaning_queries_and_remedy(alert: str) -> None:
    meaning, *looks, remedy = [
        part for part in re.split(r"\n\n|^(?=- )", SECTIONS[alert].strip(), flags=re.MULTILINE) if part
    ]
    assert not meaning.startswith("-")
    assert all(look.startswith("- ") for look in looks)
    assert not remedy.startswith("-")
    assert any(_NAME.search(look) for look in looks)


def test_the_named_series_exist_and_have_the_labels() -> None:
    known = _known()
    assert [name for name in _NAME.findall(PAGE) if name not in known] == []
    for name, matchers in _SELECTOR.findall(PAGE):
        assert set(re.findall(r"(\w+)=", matchers)) <= known[name], name


def test_every_query_parses(tmp_path: Path) -> None:
    queries = list(_queries(PAGE))
    assert len(queries) > 60
    checked = [{"record": f"q{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "pages", "rules": checked}]}), encoding="utf-8")
    done = subprocess.run([need("promtool"), "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries)} rules found" in done.stdout
