"""Rules as YAML for Prometheus, and as a Helm template of the same YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from deploy.generator.rules_accelerators import PEAK, PRICE
from deploy.generator.rules_model import Alert, Group, Number, Record, filled

Thresholds = Mapping[str, str | Number]
Models = Mapping[str, Mapping[str, Any]]
"""The readable `name` and the `peak_tflops` of one accelerator, by `accelerator_model`."""


class _Dumper(yaml.SafeDumper):
    """Writes long text as blocks, indents lists and does not fold lines."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _dumped(content: Any) -> str:
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    return text


def _rule(rule: Record | Alert) -> dict[str, Any]:
    if isinstance(rule, Record):
        return {"record": rule.name, "expr": rule.expr}
    return {
        "alert": rule.name,
        "expr": rule.expr,
        **({"for": rule.wait} if rule.wait else {}),
        **({"keep_firing_for": "<keep_firing_for>"} if rule.flaps else {}),
        "labels": {"severity": rule.label, **({"event": "true"} if rule.event else {})},
        "annotations": {
            "summary": rule.summary,
            "description": rule.text,
            "runbook_url": rule.runbook,
            "dashboard_url": rule.dashboard,
        },
    }


def _group(group: Group, interval: str, rules: str) -> str:
    """Return a group as an item of `groups`. `rules` is the text of its rules."""
    return f"  - name: {group.name}\n    interval: {group.interval or interval}\n    rules:\n{rules}"


def _rules(group: Group) -> str:
    """Return the text of a group's rules, with `<name>` for thresholds."""
    return "".join(f"      {line}\n" for line in _dumped([_rule(rule) for rule in group.rules]).splitlines())


def _price(model: str, price: str, currency: str) -> str:
    return (
        f"      - record: {PRICE}\n        expr: vector({price})\n"
        f"        labels:\n          accelerator_model: {model}\n          currency: {currency}\n"
    )


def _peak(model: str, name: str, tflops: str) -> str:
    return (
        f"      - record: {PEAK}\n        expr: vector({tflops}) * 1e12\n"
        f"        labels:\n          accelerator_model: {model}\n          accelerator_name: {name}\n"
    )


def _quoted(text: str) -> str:
    """Return any text as a YAML scalar in double quotes."""
    found: str = yaml.dump(text, default_style='"', width=10_000, allow_unicode=True)
    return found.rstrip("\n")


def prometheus_yaml(
    groups: Sequence[Group],
    thresholds: Thresholds,
    *,
    prices: Mapping[str, Number],
    currency: str,
    models: Models,
    interval: str,
) -> str:
    """Return a rule file. Raises KeyError for an unknown threshold."""
    tables = "".join(_price(_quoted(model), str(price), _quoted(currency)) for model, price in prices.items())
    tables += "".join(
        _peak(_quoted(model), _quoted(each["name"]), str(each["peak_tflops"])) for model, each in models.items()
    )
    return "groups:\n" + "".join(
        _group(group, interval, (tables if group.has_tables else "") + filled(_rules(group), thresholds))
        for group in groups
    )


def helm_yaml(groups: Sequence[Group], *, interval: str) -> str:
    """Return the rules as a Helm template that reads thresholds and tables from the chart's values."""
    values = "Values.prometheusRule"
    tables = (
        f"      {{{{- range $model, $price := .{values}.prices }}}}\n"
        + _price("{{ $model | quote }}", "{{ $price }}", f"{{{{ $.{values}.currency | quote }}}}")
        + "      {{- end }}\n"
        + f"      {{{{- range $model, $each := .{values}.models }}}}\n"
        + _peak("{{ $model | quote }}", "{{ $each.name | quote }}", "{{ $each.peak_tflops }}")
        + "      {{- end }}\n"
    )

    def rules(group: Group) -> str:
        # Helm must not fill in the templates of Prometheus.
        text = _rules(group).replace("{{", '{{ "{{" }}')
        return (tables if group.has_tables else "") + filled(
            text, lambda name: f"{{{{ .{values}.thresholds.{name} }}}}"
        )

    def whole(group: Group) -> str:
        text = _group(group, interval, rules(group))
        return f"  {{{{- if .{values}.records.{group.switch} }}}}\n{text}  {{{{- end }}}}\n" if group.switch else text

    return "groups:\n" + "".join(map(whole, groups))
