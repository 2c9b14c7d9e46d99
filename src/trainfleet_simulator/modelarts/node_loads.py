"""The utilization of the nodes of a cluster by its jobs, in percent of the nodes' resources."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Role
from trainfleet_simulator.world.nouns import NodeType
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.usage import reading

STATISTICS = ("maximum", "minimum", "sum", "average", "sampleCount")
LOADS = {
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
_MOST_KEPT = 20_000


class NodeLoads:
    """Computes and caches the utilization, because each call requests again the minutes of the previous one."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], dict[str, float]] = {}

    def statistics(self, world: World, root: str, metric: str, times: Iterable[int]) -> list[dict[str, float]]:
        """Return for each time the statistics of the nodes of a pool and its children; empty without such nodes."""
        wanted = list(times)
        new = [at for at in wanted if (root, metric, at) not in self._known]
        if len(self._known) + len(new) > _MOST_KEPT:
            self._known.clear()
            new = wanted
        if new:
            pools = [pool for pool in world.family(root) if pool.nodes and _fits(pool, metric)]
            jobs = _running(world, {pool.spec.pool_id for pool in pools}, min(new), max(new))
            for at in new:
                self._known[root, metric, at] = _statistics(_loads(pools, jobs, metric, at))
        return [self._known[root, metric, at] for at in wanted]


def _fits(pool: Pool, metric: str) -> bool:
    """Return whether the nodes have the resource of a metric."""
    kind = metric[:3]
    return kind not in {"gpu", "npu"} or pool.spec.card_type.startswith("ascend") == (kind == "npu")


def _running(world: World, pools: set[str], since: int, until: int) -> list[Job]:
    """Yield jobs that held nodes at some time in the range."""
    return [
        job
        for job in world.jobs.values()
        if job.draft.pool_id in pools
        and job.running is not None
        and job.running <= until
        and (job.finished is None or job.finished >= since)
    ]


def _loads(pools: list[Pool], jobs: list[Job], metric: str, at: int) -> list[float]:
    idle = _IDLE.get(metric, 0.0)
    loads = {name: idle for pool in pools for name in pool.nodes}
    kinds = {pool.spec.pool_id: pool.spec.node_type for pool in pools}
    for job in jobs:
        kind = kinds[job.draft.pool_id]
        for pod in job.pods:
            for one in pod.incarnations:
                used = reading(LOADS[metric], job, one, at)
                if used is not None:
                    loads[one.node] += used * _share(one.role, kind, metric)
    return [min(load, 100.0) for load in loads.values()]


def _share(role: Role, kind: NodeType, metric: str) -> float:
    """Return the share of its node that a pod has."""
    if metric == "cpuUsage":
        return role.cpu / kind.cpu
    return role.memory / kind.memory if metric == "memUsedRate" else role.cards / kind.cards


def _statistics(loads: list[float]) -> dict[str, float]:
    if not loads:
        return {}
    values = (max(loads), min(loads), sum(loads), fmean(loads), float(len(loads)))
    return {name: round(value, 3) for name, value in zip(STATISTICS, values, strict=True)}
