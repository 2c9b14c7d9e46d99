"""The reference of the metrics: the families of the clouds and the exporter's own families."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import Metric

from deploy.generator.docs_tables import code, table
from deploy.generator.metric_sources import EXPERIMENTAL, SOURCES
from trainfleet_exporter.families import KEYS, MetricFamily
from trainfleet_exporter.families import table as rows
from trainfleet_exporter.families.usage import USAGE_FAMILIES
from trainfleet_exporter.telemetry import CollectorState, Telemetry

_GROUPS: Sequence[tuple[str, tuple[MetricFamily, ...]]] = (
    ("Providers, workspaces, counts of jobs", (*rows.FLEET_FAMILIES, *rows.QUOTA_FAMILIES)),
    ("Jobs", rows.JOB_FAMILIES),
    ("Time and faults", rows.HISTORY_FAMILIES),
    ("Pods", rows.POD_FAMILIES),
    ("Pools", rows.POOL_FAMILIES),
    ("Nodes", rows.NODE_FAMILIES),
    *(
        (title, tuple(family for family in USAGE_FAMILIES if family.name.startswith(f"trainfleet_{level}_")))
        for title, level in (
            ("Usage of jobs", "job"),
            ("Usage of pods", "pod"),
            ("Usage of pools", "pool"),
            ("Usage of accelerators", "device"),
        )
    ),
)
_HEADS = ("metric", "labels, besides `provider`", "meaning and source")
_CLOUDS: Mapping[str, str] = {"alibaba_pai": "PAI", "aws_sagemaker": "SageMaker", "huawei_modelarts": "ModelArts"}
"""Short names of the platforms. The sources of a family begin with them."""
_SAID_ABOVE = re.compile(" (Absent without a recent reading|(Mean|Sum) of its pods if the source reports pods only)[.]")
"""Sentences of HELP that the page says once, in its rules."""
_USUAL = "name and unit at the source unproven"
"""What is unproven where a row with **E** says no more."""


def reference() -> str:
    """Return all tables of the page."""
    groups = [f"## {title}\n\n{table(_HEADS, map(_row, families))}" for title, families in _GROUPS]
    return "\n\n".join((*groups, "## The exporter about itself\n\n" + _own()))


def _row(family: MetricFamily) -> tuple[str, ...]:
    unproven = dict.fromkeys(note for each in _CLOUDS if (note := EXPERIMENTAL[each].get(family.name)))
    mark = "" if family.kind == "gauge" else f" ({family.kind})"
    name = code(family.name) + mark + (" **E**" if unproven else "")
    keys, _ = KEYS[family.of]
    labels = [code(label) for label in (*keys, *(family.labels or ()))]
    if family.labels is None:
        labels.append("`label_TAG` for each tag")
    notes = [note for note in unproven if note != _USUAL]
    meaning = _SAID_ABOVE.sub("", family.help) + (f" E: {'; '.join(notes)}." if notes else "")
    sources = [found for cloud in _CLOUDS if (found := _sources(cloud, family))]
    return name, ", ".join(labels), "<br>".join((meaning, *sources))


def _sources(platform: str, family: MetricFamily) -> str:
    cloud = _CLOUDS[platform]
    sources = [source.removeprefix(cloud).lstrip(" -") for source in SOURCES[platform].get(family.name, ())]
    return f"*{cloud}*: {'; '.join(sources)}" if sources else ""


def _own() -> str:
    """Return the table of the exporter's own families."""
    rows = []
    for metric in own_metrics():
        name = metric.name + ("_total" if metric.type == "counter" else "")
        mark = "" if metric.type in ("gauge", "info", "unknown") else f" ({metric.type})"
        rows.append((code(name) + mark, ", ".join(map(code, labels_of(metric))), metric.documentation))
    return table(("metric", "labels", "meaning"), rows)


def own_metrics() -> Iterator[Metric]:
    """Yield the exporter's own families, each with a sample, in the order of the page."""
    telemetry = Telemetry()
    state = CollectorState("p", "c", 60.0, success=True, duration=1.0, oldest_part=0.0)
    telemetry.watch(state)
    telemetry.attempt("p", api="a", operation="o", outcome="ok", seconds=0.1)
    telemetry.failed(state, "r")
    telemetry.watch_credentials("p", lambda: 0.0)
    telemetry.watch_budget("p", "a", 1)
    telemetry.watch_lease(lambda: True)
    telemetry.watch_writes("lease", lambda: 0)
    yield from telemetry.registry.collect()


def labels_of(metric: Metric) -> list[str]:
    """Return the label names of the first sample of a family."""
    return [label for label in metric.samples[0].labels if label != "le"]
