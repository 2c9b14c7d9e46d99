"""The table of metrics: every family that is made from what clouds report, in the order of the public contract.

HELP texts, heads, the series forecast, `metrics.deny` and the tests all read this one table. It names no cloud: each
platform says which of its APIs and fields feed which family. The exporter's telemetry about itself, and
`trainfleet_provider_up`, are made elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from trainfleet_exporter.families.family import KEYS, MetricFamily
from trainfleet_exporter.families.fleet import FLEET_FAMILIES, QUOTA_FAMILIES
from trainfleet_exporter.families.history import HISTORY_FAMILIES
from trainfleet_exporter.families.jobs import JOB_FAMILIES, POD_FAMILIES
from trainfleet_exporter.families.pools import NODE_FAMILIES, POOL_FAMILIES
from trainfleet_exporter.families.usage import USAGE_FAMILIES

__all__ = ["FAMILIES", "KEYS", "MetricFamily", "described"]

FAMILIES: tuple[MetricFamily, ...] = (
    *FLEET_FAMILIES,
    *JOB_FAMILIES,
    *POD_FAMILIES,
    *POOL_FAMILIES,
    *NODE_FAMILIES,
    *QUOTA_FAMILIES,
    *USAGE_FAMILIES,
    *HISTORY_FAMILIES,
)


class HasSources(Protocol):
    """The part of a platform that `described` reads (providers.registry.Platform)."""

    @property
    def name(self) -> str: ...
    @property
    def sources(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def experimental(self) -> Mapping[str, str]: ...


def described(platforms: Iterable[HasSources]) -> tuple[MetricFamily, ...]:
    """The families with complete HELP texts: what is unproven and on which platforms, and every source.

    Sources are in the order of the platforms' names. A family without a source on any platform keeps its meaning alone.
    """
    ordered = sorted(platforms, key=lambda platform: platform.name)
    return tuple(replace(family, help=_help(family, ordered)) for family in FAMILIES)


def _help(family: MetricFamily, platforms: Sequence[HasSources]) -> str:
    sources: dict[str, None] = {}  # a set in order: what several platforms share is named once
    names_of: dict[str, list[str]] = {}
    for platform in platforms:
        sources |= dict.fromkeys(platform.sources.get(family.name, ()))
        if unproven := platform.experimental.get(family.name):
            names_of.setdefault(unproven, []).append(platform.name)
    notes = [f"{unproven} ({', '.join(names)})" for unproven, names in names_of.items()]
    text = family.help
    if notes:
        text += f" Experimental: {'; '.join(notes)}."
    if sources:
        text += f" Source: {'; or '.join(sources)}; cached between polls."
    return text
