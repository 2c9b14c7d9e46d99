"""The utilization of the nodes of a pool's cluster by its jobs, in percent of the nodes' resources, and of their disks.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowPoolMonitor.html
"""

from __future__ import annotations

import re
from functools import lru_cache
from statistics import fmean
from typing import Any

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.modelarts.pools import pool_of
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Role
from trainfleet_simulator.world.nouns import NodeType
from trainfleet_simulator.world.usage import reading

_STATISTICS = ("maximum", "minimum", "sum", "average", "sampleCount")
_LOADS = {
    "cpuUsage": "CpuCoreUsage",
    "memUsedRate": "MemoryUsage",
    "gpuUtil": "GpuCoreUsage",
    "gpuMemUsage": "GpuMemoryUsage",
    "npuUtil": "GpuCoreUsage",
    "npuMemUsage": "GpuMemoryUsage",
}
"""Metrics of nodes, and the world's names for them."""
_IDLE = {"cpuUsage": 1.5, "memUsedRate": 4.0}
"""Use by a node's own system. Cards are idle without a job."""
_NO_DATA = -1
_NOT_THERE_YET = 20  # seconds until a point of the newest minute appears
_TIME_RANGE = re.compile(r"(-1|\d{13})\.(-1|\d{13})\.([1-9]\d{0,4})", re.ASCII)
_DISK_OF_A_NODE = 3_000_000.0  # megabytes
_DISK_USED = 31.5  # percent, constant


class Monitor:
    """Computes and caches the utilization, because each call requests again the minutes of the previous one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known = lru_cache(20_000)(lambda root, metric, at: _statistics(_loads(world, root, metric, at)))

    def show_pool_monitor(self, call: Call) -> Answer:
        """GET /v2/{project_id}/pools/{pool_name}/monitor: in percent, disks also in megabytes; -1 is no data.

        The points are those of a cluster: a logical pool shows those of its parent. A pool that was never created has
        none.
        """
        pool, world = pool_of(call), self._world
        statistic = call.choice("statistics", _STATISTICS, "maximum")
        period = int(call.choice("period", ("60", "300", "900", "3600"), "60"))
        present = min(world.present, int(call.now))  # a clock that was set back is also the clock of the points
        given = _TIME_RANGE.fullmatch(call.text("time_range", "-1.-1.60"))
        times = range(0)
        if given is not None:
            end = present if given[2] == "-1" else min(int(given[2]) // 1000, present)
            start = end - int(given[3]) * 60 if given[1] == "-1" else int(given[1]) // 1000
            times = range(-(-start // period) * period, end + 1, period)
        if given is None or max(len(times), int(given[3]) * 60 / period) > 1440:
            raise call.invalid("time_range", "startMs.endMs.minutes, of at most 1440 periods")
        if pool.spec.status == "CreationFailed":
            times = range(0)
        root = pool.spec.parent or pool.spec.pool_id
        cluster = [{"name": "clusterId", "value": f"83df17f1-d74c-11ec-a070-{root[5:9]}0000"}]
        metrics = []
        for name, (unit, values) in self._series(root, statistic, times, present).items():
            points = [
                {"timestamp": at * 1000, "unit": unit, "statistics": [{"statistic": statistic, "value": value}]}
                for at, value in zip(times, values, strict=True)
            ]
            metric = {"metricName": name, "namespace": "PAAS.AGGR", "dimensions": cluster}
            metrics.append({"metric": metric, "dataPoints": points})
        return Answer({"metrics": metrics})

    def _series(self, root: str, statistic: str, times: range, present: int) -> dict[str, tuple[str, list[float]]]:
        """Return unit and values of every metric."""
        there = [at for at in times if present - at >= _NOT_THERE_YET]
        late: list[float] = [_NO_DATA] * (len(times) - len(there))
        nodes = sum(len(pool.nodes) for pool in self._world.family(root))
        found: dict[str, tuple[str, list[float]]] = {}
        for name in _LOADS:
            known = [self._known(root, name, at) for at in there]
            # Without NPUs, the unit is absent, too.
            unit = "" if name.startswith("npu") and not any(known) else "Percent"
            found[name] = unit, [one.get(statistic, _NO_DATA) for one in known] + late
        capacity = _DISK_OF_A_NODE * nodes
        for name, unit, value in (
            ("diskUsedRate", "Percent", _DISK_USED),
            ("diskCapacity", "Megabytes", capacity),
            ("diskAvailableCapacity", "Megabytes", capacity * (1 - _DISK_USED / 100)),
        ):
            found[name] = unit, [value if nodes else _NO_DATA] * len(there) + late
        return found


def _loads(world: World, root: str, metric: str, at: int) -> list[float]:
    """Return the use of each node that has the resource of the metric."""
    kind = metric[:3]
    pools = {
        pool.spec.pool_id: pool.spec.node_type
        for pool in world.family(root)
        if kind not in {"gpu", "npu"} or pool.spec.card_type.startswith("ascend") == (kind == "npu")
    }
    loads = {name: _IDLE.get(metric, 0.0) for pool_id in pools for name in world.pools[pool_id].nodes}
    for job in world.jobs.values():
        is_over = job.finished is not None and job.finished < at
        if job.draft.pool_id in pools and job.running is not None and job.running <= at and not is_over:
            for pod in job.pods:
                for one in pod.incarnations:
                    used = reading(_LOADS[metric], job, one, at)
                    if used is not None:
                        loads[one.node] += used * _share(one.role, pools[job.draft.pool_id], metric)
    return [min(load, 100.0) for load in loads.values()]


def _share(role: Role, kind: NodeType, metric: str) -> float:
    """Return the share of its node that a pod has."""
    if metric == "cpuUsage":
        return role.cpu / kind.cpu
    return role.memory / kind.memory if metric == "memUsedRate" else role.cards / kind.cards


def _statistics(loads: list[float]) -> dict[str, float]:
    """Return the statistics of nodes; empty without nodes."""
    if not loads:
        return {}
    values: tuple[Any, ...] = (max(loads), min(loads), sum(loads), fmean(loads), float(len(loads)))
    return {name: round(value, 3) for name, value in zip(_STATISTICS, values, strict=True)}
