"""The average utilization of the nodes of a pool's cluster by its jobs, in percent of the nodes' resources, and of
their disks.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowPoolMonitor.html
"""

from __future__ import annotations

import re
from functools import lru_cache
from statistics import fmean

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.modelarts.pools import pool_of
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Role
from trainfleet_simulator.world.nouns import Machine
from trainfleet_simulator.world.usage import reading

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
_LAST_MINUTES = re.compile(r"-1\.-1\.([1-9]\d{0,3})", re.ASCII)
_DISK_OF_A_NODE = 3_000_000.0  # megabytes
_DISK_USED = 31.5  # percent, constant


class Monitor:
    """Computes and caches the utilization, because each call requests again the minutes of the previous one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known = lru_cache(20_000)(lambda root, metric, at: _average(world, root, metric, at))

    def show_pool_monitor(self, call: Call) -> Answer:
        """GET /v2/{project_id}/pools/{pool_name}/monitor: the last minutes in percent, disks also in megabytes; -1 is
        no data.

        The points are those of a cluster: a logical pool shows those of its parent. A pool that was never created has
        none.
        """
        pool, world = pool_of(call), self._world
        call.choice("statistics", ("average",))
        call.choice("period", ("60",))
        given = _LAST_MINUTES.fullmatch(call.text("time_range"))
        if given is None or int(given[1]) > 1440:
            raise call.invalid("time_range", "-1.-1.minutes, of at most 1440 minutes")
        present = min(world.present, int(call.now))  # a clock that was set back is also the clock of the points
        times = range((-(-present // 60) - int(given[1])) * 60, present + 1, 60)
        if pool.spec.status == "CreationFailed":
            times = range(0)
        root = pool.spec.parent or pool.spec.pool_id
        nodes = sum(len(one.nodes) for one in world.family(root))
        capacity = _DISK_OF_A_NODE * nodes
        disks = {
            "diskUsedRate": ("Percent", _DISK_USED),
            "diskCapacity": ("Megabytes", capacity),
            "diskAvailableCapacity": ("Megabytes", capacity * (1 - _DISK_USED / 100)),
        }
        metrics = []
        for name in (*_LOADS, *disks):
            unit, constant = disks.get(name, ("Percent", _NO_DATA))
            there = [at for at in times if present - at >= _NOT_THERE_YET]
            if name in _LOADS:
                values = [self._known(root, name, at) for at in there]
                # Without NPUs, the unit is absent, too.
                unit = "" if name.startswith("npu") and set(values) <= {_NO_DATA} else unit
            else:
                values = [constant if nodes else _NO_DATA] * len(there)
            values += [_NO_DATA] * (len(times) - len(there))
            points = [
                {"timestamp": at * 1000, "unit": unit, "statistics": [{"statistic": "average", "value": value}]}
                for at, value in zip(times, values, strict=True)
            ]
            metrics.append({"metric": {"metricName": name}, "dataPoints": points})
        return Answer({"metrics": metrics})


def _average(world: World, root: str, metric: str, at: int) -> float:
    """Return the mean use of the nodes that have the resource of the metric."""
    kind = metric[:3]
    pools = {
        pool.spec.pool_id: pool.spec.node_type
        for pool in world.family(root)
        if kind not in {"gpu", "npu"} or pool.spec.node_type.card_type.startswith("ascend") == (kind == "npu")
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
    return round(fmean(min(load, 100.0) for load in loads.values()), 3) if loads else _NO_DATA


def _share(role: Role, kind: Machine, metric: str) -> float:
    """Return the share of its node that a pod has."""
    if metric == "cpuUsage":
        return role.cpu / kind.cpu
    return role.memory / kind.memory if metric == "memUsedRate" else role.cards / kind.cards
