"""Each alert has a runbook page, and the queries of the pages are valid."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from deploy.generator import DEPLOY, rules
from deploy.generator.docs_metrics import labels_of, own_metrics
from deploy.generator.rules_accelerators import PRICE, PRICE_LABELS

from tests.support.programs import need
from trainfleet_exporter.families import FAMILIES, KEYS

RUNBOOKS = DEPLOY.parent / "docs" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
_SPAN = re.compile(r"```promql\n(.*?)```|(?<!`)`([^`\n]+)`(?!`)", re.DOTALL)
_NAME = re.compile(r"\b(?:[a-z_]+:)?(?:trainfleet_[a-z_]*[a-z]|process_[a-z_]+)(?::[a-z0-9_]+)?")
_SELECTOR = re.compile(rf"({_NAME.pattern})\{{([^}}]*)\}}")


def _known() -> dict[str, set[str]]:
    """Return the series that a page may name, with their labels."""
    found = {family.name: {"provider", *KEYS[family.of][0], *(family.labels or ())} for family in FAMILIES}
    found |= {metric.name + "_total" * (metric.type == "counter"): set(labels_of(metric)) for metric in own_metrics()}
    found |= {record.name: set(record.labels) for record in rules.records()} | {PRICE: set(PRICE_LABELS)}
    return {name: {*labels, "job", "instance"} for name, labels in found.items()}


def _queries(text: str) -> Iterator[str]:
    for block, span in _SPAN.findall(text):
        query = (block or span).strip()
        if _NAME.match(query) or (re.match(r"[a-z_-]+ ?(by )?\(", query) and _NAME.search(query)):
            yield query


def test_each_alert_has_its_page_and_each_page_its_alert() -> None:
    assert [page.stem for page in PAGES] == sorted(alert.name for alert in rules.alerts())
    for alert in rules.alerts():
        assert alert.runbook == f"<runbook_url>/runbooks/{alert.name}.md"
    assert str(rules.shipped().thresholds["runbook_url"]).endswith("/docs")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_runbook_has_what_the_person_on_call_needs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {page.stem}\n")
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    assert parts[::2] == HEADINGS
    assert all(len(part.split()) >= 8 for part in parts[1::2])
    assert any(_NAME.search(query) for query in _queries(parts[5])), "Diagnosis names a query"
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert "://" in link or (page.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_series_that_a_page_names_exist_and_have_the_labels(page: Path) -> None:
    known = _known()
    text = page.read_text(encoding="utf-8")
    assert [name for name in _NAME.findall(text) if name not in known] == []
    for name, matchers in _SELECTOR.findall(text):
        assert set(re.findall(r"(\w+)=", matchers)) <= known[name], name


def test_every_query_of_every_page_parses(tmp_path: Path) -> None:
    queries = [query for page in PAGES for query in _queries(page.read_text(encoding="utf-8"))]
    assert len(queries) > 60
    checked = [{"record": f"q{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "pages", "rules": checked}]}), encoding="utf-8")
    done = subprocess.run([need("promtool"), "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries)} rules found" in done.stdout
