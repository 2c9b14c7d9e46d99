"""The usage of each dedicated pool (its monitor): one call for each pool.

The series are those of a pool's cluster: a logical pool shows the usage of the whole physical pool. Times count
milliseconds. -1 is "no data", in a point as in a whole series (a kind of accelerator that the pool does not have).

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowPoolMonitor.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.families.usage import DISKS, MEASURES, Family
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.usage import FamilyReadings, NewestReadings, Subjects, count, publish_fresh
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.polling import FairQueue, Part, Poll
from trainfleet_exporter.providers.huawei_modelarts.client import Api, segment
from trainfleet_exporter.providers.huawei_modelarts.pools import Pools, unless_deleted
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import kind_of
from trainfleet_exporter.providers.values import number, unix_time

# The answer, with the fields that are read.


class MonitorName(Struct, gc=False, rename="camel"):
    metric_name: str | None = None


class MonitorValue(Struct, gc=False):
    statistic: str | None = None
    value: str | float | None = None


class MonitorPoint(Struct, gc=False):
    """In `Percent` or `Megabytes`."""

    timestamp: float | None = None
    unit: str | None = None
    statistics: list[MonitorValue] | None = None

    @property
    def average(self) -> str | float | None:
        """None if the point has none."""
        return next((row.value for row in self.statistics or () if row.statistic == "average"), None)


class MonitorMetric(Struct, gc=False, rename="camel"):
    metric: MonitorName | None = None
    data_points: list[MonitorPoint] | None = None


class PoolMonitor(Struct, gc=False):
    metrics: list[MonitorMetric] | UnsetType | None = UNSET


# Words.

UNITS = {"Percent": 0.01, "Megabytes": 2.0**20}
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

# From the answer to readings.


def columns_of(
    answer: PoolMonitor, pool_id: str, dropped: Counter[str], *, now: float, max_age: float
) -> list[FamilyReadings]:
    """The newest reading of each metric. Unix time and seconds. BadAnswer if the answer holds no list at all."""
    if isinstance(answer.metrics, UnsetType):
        raise BadAnswer("the answer has no metrics", operation="ShowPoolMonitor")
    found: dict[str, NewestReadings] = {}
    for item in answer.metrics or ():
        metric = (item.metric and item.metric.metric_name) or ""
        if metric not in MONITORED:
            dropped["malformed"] += not metric
            continue
        usable = []
        for point in item.data_points or ():
            at, value = unix_time(point.timestamp, per_second=1000), number(point.average)
            dropped["malformed"] += at is None or point.average is None
            if at is not None and value is not None:
                usable.append((at, value, point.unit))
        if not usable:
            continue
        at, value, unit = max(usable, key=lambda each: each[0])
        if unit != MONITORED[metric][1]:
            dropped["malformed"] += 1
            continue
        if metric not in found:
            kind, begun = kind_of(metric), {pool_id: 0.0}
            found[metric] = NewestReadings("pool", begun, now=now, max_age=max_age, once=True, accelerator=kind)
        found[metric].put((pool_id,), at, value)  # the same metric may come again, of another cluster
    columns: list[FamilyReadings] = []
    for metric, readings in found.items():
        family, unit = MONITORED[metric]
        columns += readings.of_families({family: UNITS[unit]}, period=0)
        dropped.update(readings.dropped)
    return columns


# The collector.

_MINUTES = 5
"""Of the server's clock that are asked for."""


class PoolUsage:
    """The collector of the usage of pools."""

    def __init__(self, api: Api, fleet: Workspaces, pools: Pools) -> None:
        self._api, self._fleet, self._pools = api, fleet, pools
        self._turns = FairQueue()

    @collector("pool_usage")
    async def pool_usage(self, poll: Poll) -> None:
        """A part for each pool."""
        pool_ids = list(await self._pools.listed.get())
        poll.keep_only(pool_ids)
        await self._turns.read_each(poll, pool_ids, unless_deleted(self._read), at_once=self._fleet.at_once)

    async def _read(self, part: Part) -> None:
        """One-minute means: without `statistics` they would be maxima."""
        query = {"time_range": f"-1.-1.{_MINUTES}", "statistics": "average", "period": "60"}
        path = f"pools/{segment(part.key)}/monitor"
        answer = await self._api.get("ShowPoolMonitor", path, PoolMonitor, query, deadline=part.deadline)
        age, clock = self._fleet.max_data_age, self._fleet.clock
        begun, dropped = {part.key: 0.0}, Counter[str]()
        max_age = max(age, 2 * part.interval)
        columns = columns_of(answer, part.key, dropped, now=clock.now(), max_age=max_age)
        count(part, dropped)
        await publish_fresh(part, columns, Subjects().readings, begun=lambda: begun, max_data_age=age, clock=clock)
