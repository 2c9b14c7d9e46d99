"""Each alert has its section in the runbooks. tests/docs checks the queries there."""

from __future__ import annotations

import re

from deploy.generator import DEPLOY, rules

PAGE = (DEPLOY.parent / "docs" / "runbooks.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (Trainfleet\w+)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))


def test_each_alert_has_its_section() -> None:
    assert sorted(SECTIONS) == sorted(alert.name for alert in rules.alerts())
    for alert in rules.alerts():
        assert alert.runbook == f"<runbook_url>/runbooks.md#{alert.name.lower()}"
    assert str(rules.shipped().thresholds["runbook_url"]).endswith("/docs")
