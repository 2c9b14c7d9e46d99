"""The reference of the metrics: the tables of families, and the exporter's own telemetry, as a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric

from deploy.generator.docs_tables import code, table
from trainfleet_exporter.exposition.families import KEYS, Family
from trainfleet_exporter.exposition.fleet_families import FLEET_FAMILIES, QUOTA_FAMILIES
from trainfleet_exporter.exposition.job_families import JOB_FAMILIES
from trainfleet_exporter.exposition.node_families import NODE_FAMILIES
from trainfleet_exporter.exposition.pod_families import POD_FAMILIES
from trainfleet_exporter.exposition.pool_families import POOL_FAMILIES
from trainfleet_exporter.exposition.usage_families import USAGE_FAMILIES
from trainfleet_exporter.telemetry import CollectorState, Telemetry

_GROUPS: Sequence[tuple[str, tuple[Family, ...]]] = (
    ("Providers, workspaces, counts of jobs", (*FLEET_FAMILIES, *QUOTA_FAMILIES)),
    ("Jobs", JOB_FAMILIES),
    ("Pods", POD_FAMILIES),
    ("Pools", POOL_FAMILIES),
    ("Nodes", NODE_FAMILIES),
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
_HEADS = ("metric", "labels beside `provider`", "meaning, and where it comes from")
_HELP = re.compile(
    r"(?P<meaning>.+?\.)( Experimental: (?P<experimental>.+?)\.)? Source: (?P<sources>.+); cached between polls\."
)


@dataclass(frozen=True, slots=True)
class Said:
    """What the HELP of a family says, in its parts."""

    meaning: str
    experimental: str
    pai: tuple[str, ...]
    modelarts: tuple[str, ...]


def parts(text: str) -> Said:
    """The parts of a HELP text; ValueError where it is not made as all are (exposition.family.described)."""
    match = _HELP.fullmatch(text)
    if match is None:
        raise ValueError(f"no HELP of ours: {text}")
    sources = match["sources"].split("; or ")
    if sources == ["the config file, no API"]:
        return Said(match["meaning"], "", ("the config",), ("the config",))
    pai = tuple(source.removeprefix("none by default; ") for source in sources if "PAI" in source)
    modelarts = tuple(source for source in sources if "ModelArts" in source)
    if {*pai, *modelarts} != {source.removeprefix("none by default; ") for source in sources}:
        raise ValueError(f"a source of no cloud: {text}")
    return Said(match["meaning"], match["experimental"] or "", pai, modelarts)


def reference() -> str:
    """All tables of the page."""
    shown = [name for _, families in _GROUPS for name in (family.name for family in families)]
    assert len(shown) == len(set(shown))
    groups = [f"## {title}\n\n{table(_HEADS, map(_row, families))}" for title, families in _GROUPS]
    return "\n\n".join((*groups, "## The exporter about itself\n\n" + _own()))


def _row(family: Family) -> tuple[str, ...]:
    said = parts(family.help)
    mark = " (counter)" if family.kind == "counter" else ""
    name = code(family.name) + mark + (" **E**" if said.experimental else "")
    keys, _ = KEYS[family.of]
    labels = [code(label) for label in (*keys, *(family.labels or ()))]
    if family.labels is None:
        labels.append("`label_TAG` for each tag")
    meaning = said.meaning + (f" E: {said.experimental}." if said.experimental else "")
    sources = [f"*PAI*: {_sources(said.pai)}", f"*ModelArts*: {_sources(said.modelarts)}"]
    return name, ", ".join(labels), "<br>".join((meaning, *sources))


def _sources(found: tuple[str, ...]) -> str:
    """Without the cloud, which stands before them."""
    if any("PAI" in source and "ModelArts" in source for source in found):
        return "whichever source has readings"
    return "; ".join(re.sub("^(PAI-|PAI |ModelArts )", "", source) for source in found) or "not told"


def _own() -> str:
    """Every family that the exporter's telemetry can show, by telling it one thing of each kind."""
    rows = []
    for metric in own_metrics():
        name = metric.name + ("_total" if metric.type == "counter" else "")
        mark = "" if metric.type in ("gauge", "info", "unknown") else f" ({metric.type})"
        rows.append((code(name) + mark, ", ".join(map(code, labels_of(metric))), metric.documentation))
    return table(("metric", "labels", "meaning"), rows)


def own_metrics() -> Iterator[Metric]:
    """The exporter's own families, each with a sample, in their order on the page."""
    telemetry = Telemetry()
    state = CollectorState("p", "c", 60.0, success=True, duration=1.0, oldest_part=0.0)
    telemetry.watch(state)
    telemetry.attempt("p", api="a", operation="o", outcome="ok", seconds=0.1)
    telemetry.failed(state, "r")
    telemetry.watch_credentials("p", lambda: 0.0)
    telemetry.watch_budget("p", "a", _Budget())
    yield from telemetry.registry.collect()


class _Budget:
    calls = 1
    remaining = 1


def labels_of(metric: Metric) -> list[str]:
    """The labels of a family, as its first sample has them."""
    return [label for label in metric.samples[0].labels if label != "le"]
