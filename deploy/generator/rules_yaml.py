"""Rules as YAML for Prometheus, and as a Helm template of the same YAML.

An override gives other thresholds to the jobs and pools of a provider, or of one pool. An alert whose thresholds it
names is written once more for them, and the alert for all others leaves them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from deploy.generator.rules_accelerators import PEAK, PRICE
from deploy.generator.rules_model import Alert, Group, Number, Record, filled

Thresholds = Mapping[str, str | Number]


@dataclass(frozen=True, slots=True)
class Tuning:
    """The content of thresholds.yaml.

    An override has a `provider`, perhaps a `pool` (its `pool_id`), and `thresholds`. `models` has the readable `name`
    and the `peak_tflops` of one accelerator, by `accelerator_model`. `records` has the groups that are on.
    """

    thresholds: Thresholds
    prices: Mapping[str, Number] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    overrides: Sequence[Mapping[str, Any]] = ()
    records: Mapping[str, bool] = field(default_factory=dict)
    currency: str = "CNY"


_PAD = " " * 10
_END = "<selected>"
"""The last line of an expression that overrides change, indented by `_PAD`."""


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
        "expr": f"{rule.expr}\n{_END}" if rule.subject else rule.expr,
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


def _group(group: Group, interval: str, tables: str, written: Callable[[Record | Alert, str], str]) -> str:
    """Return a group as an item of `groups`. `written` completes the text of a rule, with `<name>` for thresholds."""
    texts = ((rule, _dumped([_rule(rule)]).splitlines()) for rule in group.rules)
    rules = "".join(written(rule, "".join(f"      {line}\n" for line in lines)) for rule, lines in texts)
    head = f"  - name: {group.name}\n    interval: {group.interval or interval}\n    rules:\n"
    return head + (tables if group.has_tables else "") + rules


def _selection(rule: Alert, how: str, matchers: str) -> str:
    """Return the lines that keep (`and`) or drop (`unless`) the jobs or pools with some labels."""
    assert rule.subject
    labels, family = rule.subject
    return f"{_PAD}{how} on ({labels})\n{_PAD}last_over_time({family}{{ {matchers} }}[<bridge>])\n"


def _with_overrides(rule: Alert, text: str, tuning: Tuning) -> Iterator[str]:
    """Yield the text of an alert for all others, and for each override that changes it."""
    ours = [each for each in tuning.overrides if rule.thresholds & set(each["thresholds"])]
    for number, override in enumerate(({"thresholds": {}}, *ours)):
        lines = ""
        for each in ours[:number] if number else ours:
            pool = f",pool_id={json.dumps(each['pool'])}" if each.get("pool") else ""
            how = "and" if each is override else "unless"
            lines += _selection(rule, how, f"provider={json.dumps(each['provider'])}{pool}")
        yield filled(text.replace(f"{_PAD}{_END}\n", lines), {**tuning.thresholds, **override["thresholds"]})


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


def prometheus_yaml(groups: Sequence[Group], tuning: Tuning, *, interval: str) -> str:
    """Return a rule file. Raises KeyError for an unknown threshold."""
    tables = "".join(
        _price(json.dumps(model), str(price), json.dumps(tuning.currency)) for model, price in tuning.prices.items()
    )
    models = (
        (json.dumps(model), json.dumps(each["name"]), each["peak_tflops"]) for model, each in tuning.models.items()
    )
    tables += "".join(_peak(model, name, str(tflops)) for model, name, tflops in models)

    def written(rule: Record | Alert, text: str) -> str:
        if isinstance(rule, Alert) and rule.subject:
            return "".join(_with_overrides(rule, text, tuning))
        return filled(text, tuning.thresholds)

    return "groups:\n" + "".join(_group(group, interval, tables, written) for group in groups)


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

    def written(rule: Record | Alert, text: str) -> str:
        # Helm must not fill in the templates of Prometheus.
        text = text.replace("{{", '{{ "{{" }}')
        if not (isinstance(rule, Alert) and rule.subject):
            return filled(text, lambda name: f"{{{{ .{values}.thresholds.{name} }}}}")
        words, none = "|".join(sorted(rule.thresholds)), '"thresholds" dict'
        changes = f'(regexMatch "\\\\b({words})\\\\b" (keys $%s.thresholds | join " "))'
        matchers = "provider={{ $each.provider | quote }}{{ with $each.pool }},pool_id={{ . | quote }}{{ end }}"
        how = "{{ if eq $index (int (add1 $number)) }}and{{ else }}unless{{ end }}"
        lines = (
            f"      {{{{- range $number, $each := $.{values}.overrides }}}}\n"
            f"      {{{{- if and {changes % 'each'} (or (not $index) (lt $number $index)) }}}}\n"
            + _selection(rule, how, matchers)
            + "      {{- end }}\n      {{- end }}\n"
        )
        return (
            f"      {{{{- range $index, $override := prepend .{values}.overrides (dict {none}) }}}}\n"
            f"      {{{{- if or (not $index) {changes % 'override'} }}}}\n"
            f"      {{{{- $thresholds := mergeOverwrite (dict) $.{values}.thresholds $override.thresholds }}}}\n"
            + filled(text.replace(f"{_PAD}{_END}\n", lines), lambda name: f"{{{{ $thresholds.{name} }}}}")
            + "      {{- end }}\n      {{- end }}\n"
        )

    def whole(group: Group) -> str:
        text = _group(group, interval, tables, written)
        return f"  {{{{- if .{values}.records.{group.switch} }}}}\n{text}  {{{{- end }}}}\n" if group.switch else text

    return "groups:\n" + "".join(map(whole, groups))
