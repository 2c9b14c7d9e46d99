"""How busy the nodes of a pool are, from what its jobs use.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowPoolMonitor.html
"""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import fmean

from trainfleet_exporter.simulator.exchange import Answer
from trainfleet_exporter.simulator.modelarts.parameters import Call, choice_of, refused
from trainfleet_exporter.simulator.modelarts.pools import pool_of
from trainfleet_exporter.simulator.modelarts.training import has
from trainfleet_exporter.simulator.world.fleet import World
from trainfleet_exporter.simulator.world.pools import Pool
from trainfleet_exporter.simulator.world.usage import reading

_NO_DATA = -1
_TIME_RANGE = re.compile(r"(-1|\d{13})\.(-1|\d{13})\.([1-9]\d{0,4})")
_MONITORED = {
    "cpuUsage": "CpuCoreUsage",
    "memUsedRate": "MemoryUsage",
    "gpuUtil": "GpuCoreUsage",
    "gpuMemUsage": "GpuMemoryUsage",
    "npuUtil": "GpuCoreUsage",
    "npuMemUsage": "GpuMemoryUsage",
}
_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "maximum": max,
    "minimum": min,
    "sum": sum,
    "average": fmean,
    "sampleCount": len,
}


def show_pool_monitor(call: Call) -> Answer:
    """GET /v2/{project_id}/pools/{pool_name}/monitor: how busy the pool's nodes are, in percent; -1 is no data."""
    pool, world = pool_of(call), call.world
    statistic = choice_of(call, "statistics", ("maximum", "minimum", "sum", "average", "sampleCount"), "maximum")
    period = int(choice_of(call, "period", ("60", "300", "900", "3600"), "60"))
    given = _TIME_RANGE.fullmatch(call.text("time_range", "-1.-1.60"))
    if given is None or int(given[3]) * 60 / period > 1440:
        raise refused("50004000", "The parameter time_range is startMs.endMs.minutes, of at most 1440 periods.")
    end = world.now if given[2] == "-1" else min(int(given[2]) // 1000, world.now)
    times = range(-(-(end - int(given[3]) * 60) // period) * period, end + 1, period)
    cluster = [{"name": "clusterId", "value": f"83df17f1-d74c-11ec-a070-{pool.spec.pool_id[5:9]}0000"}]
    metrics, newest = [], []
    for name in (*_MONITORED, "diskUsedRate"):
        values = [_monitored(pool, world, name, statistic, at) for at in times]
        unit = "Percent" if any(value != _NO_DATA for value in values) else ""
        points = [
            {"timestamp": at * 1000, "unit": unit, "statistics": [{"statistic": statistic, "value": value}]}
            for at, value in zip(times, values, strict=True)
        ]
        metric = {"metricName": name, "namespace": "PAAS.AGGR", "dimensions": cluster}
        metrics.append({"metric": metric, "dataPoints": points})
        newest.append([name, *points[-1:]])
    return Answer({"metrics": metrics}, rows=newest)


def _monitored(pool: Pool, world: World, name: str, statistic: str, at: int) -> float:
    if name == "diskUsedRate":
        return 31.5 if pool.nodes else _NO_DATA
    found = [
        value
        for job in world.live()
        if job.draft.pool_id == pool.spec.pool_id
        for pod in job.pods
        if has(pod.role, name) and (value := reading(_MONITORED[name], job, pod, at)) is not None
    ]
    return round(_STATISTICS[statistic](found), 3) if found else _NO_DATA
