"""What the Helm chart has of other folders, since a chart reads its own files only: rules, thresholds, dashboards.

And the rules as a plain manifest. The other manifests are what Helm makes of the chart: kubernetes_manifests.py writes
them, with the digest of what they were made of, to which a test holds them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.generator import DEPLOY, dashboards, rules

CHART = Path("kubernetes/chart")
MANIFESTS = Path("kubernetes/manifests")
_BEGIN = "  # From here on: made by python -m deploy.generator of deploy/prometheus/thresholds.yaml.\n"
_END = "  # Up to here.\n"
_DURATION = "^([0-9]+(ms|[smhdwy]))+$"
_MADE = "Made by python -m deploy.generator of the table in deploy/generator and deploy/prometheus/thresholds.yaml"
_RULE_HEAD = """\
{{- /* %s. */}}
{{- if .Values.prometheusRule.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ include "trainfleet.fullname" . }}
  namespace: {{ .Values.prometheusRule.namespace | default .Release.Namespace }}
  labels:
    {{- include "trainfleet.labels" . | nindent 4 }}
    {{- with .Values.prometheusRule.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.prometheusRule.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
"""
_RULE_MANIFEST = """\
# %s.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: trainfleet-exporter
  namespace: monitoring
  labels:
    app.kubernetes.io/name: trainfleet-exporter
    app.kubernetes.io/part-of: trainfleet
spec:
"""


def files() -> Mapping[Path, str]:
    """The generated files of the chart and the manifests, by their paths from deploy/."""
    tuning = rules.shipped()
    rendered = rules.render(tuning.thresholds, tuning.prices, tuning.models, currency=tuning.currency)
    copies = {
        CHART / "dashboards" / path.name: text for path, text in dashboards.files().items() if path.suffix == ".json"
    }
    return {
        CHART / "templates" / "prometheusrule.yaml": (
            _RULE_HEAD % _MADE + _indented(rules.helm_template()) + "{{- end }}\n"
        ),
        CHART / "values.yaml": _values(),
        CHART / "values.schema.json": _schema(),
        MANIFESTS / "prometheusrule.yaml": _RULE_MANIFEST % _MADE + _indented(rendered),
        **copies,
    }


def digest() -> str:
    """Of all that the rendered manifests are made of: the chart without its generated parts, and their values."""
    chart = DEPLOY / CHART
    parts = [*sorted((chart / "templates").glob("*")), chart / "Chart.yaml", chart / "ci" / "manifests-values.yaml"]
    found = hashlib.sha256()
    for path in parts:
        if path.name not in {"prometheusrule.yaml", "NOTES.txt"}:
            found.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    before, _, after = _around((chart / "values.yaml").read_text(encoding="utf-8"))
    found.update((before + after).encode())
    return found.hexdigest()


def _values() -> str:
    """The chart's values with all that can be tuned about the rules as thresholds.yaml has it, comments and all."""
    before, _, after = _around((DEPLOY / CHART / "values.yaml").read_text(encoding="utf-8"))
    lines = rules.THRESHOLDS.read_text(encoding="utf-8").splitlines(keepends=True)
    head = next(number for number, line in enumerate(lines) if not line.startswith("#"))  # it is about that file
    return before + _indented("".join(lines[head:]).strip("\n") + "\n") + after


def _around(values: str) -> tuple[str, str, str]:
    """The values before the generated part, that part, and what comes after it."""
    before, begin, rest = values.partition(_BEGIN)
    between, end, after = rest.partition(_END)
    assert begin, "values.yaml lacks the line after which the generated part begins"
    assert end, "values.yaml lacks the line before which the generated part ends"
    return before + begin, between, end + after


def _schema() -> str:
    """The schema of the values, in which every threshold is known by its name."""
    schema: dict[str, Any] = json.loads((DEPLOY / CHART / "values.schema.json").read_text(encoding="utf-8"))
    section = schema["properties"]["prometheusRule"]["properties"]
    section["thresholds"]["properties"] = {
        name: _threshold(value) for name, value in rules.shipped().thresholds.items()
    }
    return json.dumps(schema, indent=2) + "\n"


def _threshold(value: str | float) -> dict[str, Any]:
    """What may take the place of a threshold: what is a duration stays one, or the operator refuses all the rules."""
    if not isinstance(value, str):
        return {"type": "number", "minimum": 0}
    return {"type": "string", "pattern": _DURATION if re.match(_DURATION, value) else "."}


def _indented(text: str) -> str:
    return "".join(f"  {line}" if line.strip() else line for line in text.splitlines(keepends=True))
