"""The usage of each dedicated pool (its monitor): one call for each pool.

The series are those of a pool's cluster: a logical pool shows the usage of the whole physical pool.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowPoolMonitor.html
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trainfleet_exporter.errors import BadAnswer, NotFound
from trainfleet_exporter.families.usage import DISKS, MEASURES, Family
from trainfleet_exporter.model import Accelerator
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.collectors import PerPoolCollector
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.usage.sheet import Sheet
from trainfleet_exporter.providers.usage.staleness import count, max_age, publish_until_stale
from trainfleet_exporter.providers.values import amount

_LONGEST_NUMBER = 40
"""Characters of a number given as text."""
_UNITS = {"Percent": 0.01, "Megabytes": 2.0**20}
_MINUTES = 5

MONITORED: Mapping[str, tuple[Family, str]] = {
    "cpuUsage": (MEASURES["cpu_utilization_ratio"].of("pool"), "Percent"),
    "memUsedRate": (MEASURES["memory_utilization_ratio"].of("pool"), "Percent"),
    "gpuUtil": (MEASURES["accelerator_utilization_ratio"].of("pool"), "Percent"),
    "gpuMemUsage": (MEASURES["accelerator_memory_utilization_ratio"].of("pool"), "Percent"),
    "npuUtil": (MEASURES["accelerator_utilization_ratio"].of("pool"), "Percent"),
    "npuMemUsage": (MEASURES["accelerator_memory_utilization_ratio"].of("pool"), "Percent"),
    "diskUsedRate": (DISKS["utilization_ratio"], "Percent"),
    "diskCapacity": (DISKS["capacity_bytes"], "Megabytes"),
    "diskAvailableCapacity": (DISKS["available_bytes"], "Megabytes"),
}
"""By metric of the monitor, what it feeds and its unit."""


def add_pool(sheet: Sheet, answer: payloads.PoolMonitor) -> None:
    """Take over what the monitor reads now. BadAnswer if the answer holds no list at all.

    -1 is "no data", in a point as in a whole series (a kind of accelerator that the pool does not have).
    """
    if isinstance(answer.metrics, msgspec.UnsetType):
        raise BadAnswer("the answer has no metrics", operation="ShowPoolMonitor")
    for item in answer.metrics or ():
        metric = (item.metric and item.metric.metric_name) or ""
        if metric not in MONITORED:
            sheet.dropped["malformed"] += not metric
            continue
        family, unit = MONITORED[metric]
        points = item.data_points or []
        newest = _newest(points)
        if newest is None:
            sheet.dropped["malformed"] += any(not _is_none(point) for point in points)
        elif newest[2] != unit:
            sheet.dropped["malformed"] += 1
        else:  # the same metric may come again, of another cluster
            kind: Accelerator = "npu" if metric.startswith("npu") else "gpu"
            sheet.put(family, (), newest[1], _UNITS[unit], time=newest[0], kind=kind)


def _newest(points: Iterable[payloads.MonitorPoint]) -> tuple[float, float, str] | None:
    """Unix seconds, value and unit of the newest point that is one; None if there is none."""
    newest: tuple[float, float, str] | None = None
    for point in points:
        at = amount(point.timestamp)
        raw = next((_raw(row.value) for row in point.statistics or () if row.statistic == "average"), None)
        if at is not None and raw is not None and raw != -1 and (newest is None or at / 1000 > newest[0]):
            newest = at / 1000, raw, point.unit or ""
    return newest


def _is_none(point: payloads.MonitorPoint) -> bool:
    return any(_raw(row.value) == -1 for row in point.statistics or ())


def _raw(value: str | float | None) -> float | None:
    """A number of any sign, given as a number or as text."""
    if value is None or (isinstance(value, str) and len(value) > _LONGEST_NUMBER):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return None if math.isnan(found) else found


class PoolUsageCollector(PerPoolCollector[ModelArtsShared]):
    """A part for each pool."""

    async def read(self, part: Part) -> None:
        """Read the monitor of one pool."""
        try:
            answer = await self._shared.client.pool_monitor(part.key, minutes=_MINUTES, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        sheet = Sheet(part.key, now=self._shared.clock.now(), max_age=max_age(part, self._shared.max_data_age))
        add_pool(sheet, answer)
        del answer  # before publishing, during which other pools are read
        count(part, sheet.dropped)

        async def build(since: float) -> tuple[Sequence[object], float]:
            return sheet.readings(since), sheet.oldest(since)

        await publish_until_stale(part, build, self._shared.max_data_age, clock=self._shared.clock)
