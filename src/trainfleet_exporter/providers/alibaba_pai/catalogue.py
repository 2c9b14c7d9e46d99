"""CloudMonitor's catalogue of metrics (DescribeMetricMetaList): what each is of, in which unit, and how it is given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from trainfleet_exporter.providers.alibaba_pai.payloads import MetricMeta

DLC = "acs_pai_dlc"
QUOTA = "acs_pai_quota"
Level: TypeAlias = Literal["job", "pod", "device", "pool"]
"""What a metric has a value for each of."""

POD_KEYS = ("pod", "podId", "podName")
"""How the dimension of a pod may be called."""
_NODE_KEYS = ("nodeId", "nodeName")
_KNOWN_KEYS = frozenset(
    {"userId", "regionId", "workspaceId", "jobId", "quotaId", "quotaName", "instanceId", *POD_KEYS, *_NODE_KEYS}
)
_DEVICE = re.compile("gpu|card|device|npu", re.IGNORECASE)
_OF_A_DEVICE = re.compile("(type|model|name|count|num)$", re.IGNORECASE)
_BY_NAME: Mapping[str, Level] = {"JOB": "job", "POD": "pod", "CARD": "device", "QUOTA": "pool"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a namespace. Empty where the catalogue does not say; periods are seconds."""

    name: str
    unit: str = ""
    dimensions: tuple[str, ...] = ()
    periods: tuple[int, ...] = ()
    statistics: tuple[str, ...] = ()

    @property
    def period(self) -> int | None:
        """The period to ask for, None for the default: minutes, since what is finer costs as much and goes sooner."""
        if 60 in self.periods:
            return 60
        return min((each for each in self.periods if each > 60), default=max(self.periods, default=None))

    @property
    def level(self) -> Level | None:
        """What the metric has a value for each of, by its dimensions; None for what no family is of (nodes)."""
        dimensions = self.dimensions
        if not dimensions:
            return _BY_NAME.get(self.name.partition("_")[0])
        if "jobId" not in dimensions:
            is_pool = "quotaId" in dimensions or "quotaName" in dimensions
            return "pool" if is_pool and not set(_NODE_KEYS) & set(dimensions) else None
        if any(map(is_device_key, dimensions)):
            return "device"
        return "pod" if set(POD_KEYS) & set(dimensions) else "job"


def is_device_key(dimension: str) -> bool:
    """Whether a dimension tells the cards of a pod apart. How it is called is not documented."""
    return (
        dimension not in _KNOWN_KEYS
        and _DEVICE.search(dimension) is not None
        and _OF_A_DEVICE.search(dimension) is None
    )


def metric(row: MetricMeta) -> Metric:
    """A row of the catalogue."""
    return Metric(
        name=row.metric_name or "",
        unit=row.unit or "",
        dimensions=_listed(row.dimensions),
        periods=tuple(int(period) for period in _listed(row.periods) if period.isascii() and period.isdigit()),
        statistics=_listed(row.statistics),
    )


def _listed(given: str | None) -> tuple[str, ...]:
    return tuple(item for item in (part.strip() for part in (given or "").split(",")) if item)
