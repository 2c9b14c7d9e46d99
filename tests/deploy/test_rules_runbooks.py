"""Each alert has its section in the runbooks. tests/docs checks the queries there."""

from __future__ import annotations

import re

import pytest
from deploy.generator import DEPLOY, rules

PAGE = (DEPLOY.parent / "docs" / "runbooks.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (Trainfleet\w+)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))
_NAME = re.compile(r"\b(?:[a-z_]+:)?(?:trainfleet_[a-z_]*[a-z]|process_[a-z_]+)(?::[a-z0-9_]+)?")


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
