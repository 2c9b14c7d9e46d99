"""The reference of the metrics: the families of the clouds and the exporter's own families."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import Metric

from deploy.generator.docs_tables import code, table
from deploy.generator.metric_sources import EXPERIMENTAL, SOURCES, UNPROVEN
from trainfleet_exporter.families import FAMILIES, KEYS, MetricFamily
from trainfleet_exporter.families.usage import MEASURES, PROFILING, USAGE_FAMILIES, Level
from trainfleet_exporter.telemetry import CollectorState, Telemetry

_LEVELS: Sequence[Level] = ("job", "pod", "pool", "device")
_BY_NAME = {family.name: family for family in USAGE_FAMILIES}
_MEASURES = [
    [_BY_NAME.pop(f"trainfleet_{family.suffix}") for level in _LEVELS if (family := measure.at(level))]
    for measure in (*MEASURES.values(), *PROFILING.values())
]
_CLASSES = {
    "Providers, workspaces, counts of jobs": "ProviderFacts Workspace JobCount FinishedCount ProviderQuota",
    "Jobs": "Job QueuePlace JobPods",
    "Time and faults": "JobTime JobFaults NodeFaults PoolWaits PodExit",
    "Pods": "Pod",
    "Pools": "Pool PoolAmounts PoolQueue PoolWorkloads PoolUser",
    "Nodes": "Node NodeMaintenance",
}
_HEADS = ("metric", "labels, besides `provider`", "meaning and source")
_CLOUDS: Mapping[str, str] = {"alibaba_pai": "PAI", "aws_sagemaker": "SageMaker", "huawei_modelarts": "ModelArts"}
"""Short names of the platforms. The sources of a family begin with them."""
_SAID_ABOVE = re.compile(
    " (Absent without a recent reading|(Mean|Sum) of its pods if the source reports pods only"
    "|Absent if the platform (reports none|does not report (it|them))|Absent for the other statuses)[.]"
)
"""Sentences of HELP that the page says once, in its rules."""


def tables() -> str:
    """Return the tables of all families but those of usage."""
    groups = {title: [each for each in FAMILIES if each.of.__name__ in of.split()] for title, of in _CLASSES.items()}
    groups["Disks of pools, and sources of usage"] = [*_BY_NAME.values()]
    return "\n\n".join(
        f"## {title}\n\n{table(_HEADS, (_row([each], KEYS[each.of][0]) for each in found))}"
        for title, found in groups.items()
    )


def usage() -> str:
    """Return the table of usage. A row has the families of one measure."""
    return table(("metrics", "further labels", _HEADS[2]), (_row(families) for families in _MEASURES))


def _row(families: Sequence[MetricFamily], keys: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the row of the families of one measure. `keys` are labels besides those of the first family."""
    first = families[0]
    unproven = [note for family in families if (note := EXPERIMENTAL.get(family.name))]
    mark = ("" if first.kind == "gauge" else f" ({first.kind})") + (" **E**" if unproven else "")
    labels = [code(label) for label in (*keys, *(first.labels or ()))]
    if first.labels is None:
        labels.append("`label_TAG` for each tag")
    notes = [note for note in dict.fromkeys(unproven) if note != UNPROVEN]
    meaning = _SAID_ABOVE.sub("", first.help).replace("Unix time in seconds", "Time") + (
        f" E: {'; '.join(notes)}." if notes else ""
    )
    sources = [found for cloud in _CLOUDS if (found := _sources(cloud, families))]
    names = "<br>".join(code(family.name) for family in families)
    return names + mark, ", ".join(labels), "<br>".join((meaning, *sources))


def _sources(platform: str, families: Sequence[MetricFamily]) -> str:
    cloud, fields = _CLOUDS[platform], dict[str, dict[str, None]]()
    for source in (found for family in families for found in SOURCES[platform].get(family.name, ())):
        api, *rest = source.removeprefix(cloud).lstrip(" -").split(", ", 1)
        fields.setdefault(api, {}).update(dict.fromkeys(rest))
    return f"*{cloud}*: {'; '.join(', '.join((api, *found)) for api, found in fields.items())}" if fields else ""


def own() -> str:
    """Return the table of the exporter's own families."""
    rows = []
    for metric in (each for each in own_metrics() if each.name.startswith("trainfleet_")):
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
