"""The utilization of the nodes of a pool's cluster, and of their disks.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowPoolMonitor.html
"""

from __future__ import annotations

import re

from trainfleet_simulator.exchange import Answer
from trainfleet_simulator.modelarts.node_loads import LOADS, STATISTICS
from trainfleet_simulator.modelarts.parameters import Call, choice_of, refused
from trainfleet_simulator.modelarts.pools import pool_of

_NO_DATA = -1
_NOT_THERE_YET = 20  # seconds until a point of the newest minute appears
_TIME_RANGE = re.compile(r"(-1|\d{13})\.(-1|\d{13})\.([1-9]\d{0,4})", re.ASCII)
_DISK_OF_A_NODE = 3_000_000.0  # megabytes
_DISK_USED = 31.5  # percent, constant


def show_pool_monitor(call: Call) -> Answer:
    """GET /v2/{project_id}/pools/{pool_name}/monitor: in percent, disks also in megabytes; -1 is no data.

    The points are those of a cluster: a logical pool shows those of its parent. A pool that was never created has none.
    """
    pool, world = pool_of(call), call.world
    statistic = choice_of(call, "statistics", STATISTICS, "maximum")
    period = int(choice_of(call, "period", ("60", "300", "900", "3600"), "60"))
    given = _TIME_RANGE.fullmatch(call.text("time_range", "-1.-1.60"))
    if given is None or int(given[3]) * 60 / period > 1440:
        raise refused("50004000", "The parameter time_range is startMs.endMs.minutes, of at most 1440 periods.")
    present = min(world.present, int(call.now))  # a clock that was set back is also the clock of the points
    end = present if given[2] == "-1" else min(int(given[2]) // 1000, present)
    start = end - int(given[3]) * 60 if given[1] == "-1" else int(given[1]) // 1000
    times = range(-(-start // period) * period, end + 1, period)
    if len(times) > 1440:
        raise refused("50004000", "The parameter time_range is startMs.endMs.minutes, of at most 1440 periods.")
    if pool.spec.status == "CreationFailed":
        times = range(0)
    root = pool.spec.parent or pool.spec.pool_id
    cluster = [{"name": "clusterId", "value": f"83df17f1-d74c-11ec-a070-{root[5:9]}0000"}]
    metrics, newest = [], []
    for name, (unit, values) in _series(call, root, statistic, times, present).items():
        points = [
            {"timestamp": at * 1000, "unit": unit, "statistics": [{"statistic": statistic, "value": value}]}
            for at, value in zip(times, values, strict=True)
        ]
        metric = {"metricName": name, "namespace": "PAAS.AGGR", "dimensions": cluster}
        metrics.append({"metric": metric, "dataPoints": points})
        newest.append([name, *points[-2:]])
    return Answer({"metrics": metrics}, rows=newest)


def _series(call: Call, root: str, statistic: str, times: range, present: int) -> dict[str, tuple[str, list[float]]]:
    """Return unit and values of every metric."""
    there = [at for at in times if present - at >= _NOT_THERE_YET]
    late: list[float] = [_NO_DATA] * (len(times) - len(there))
    nodes = sum(len(pool.nodes) for pool in call.world.family(root))
    found: dict[str, tuple[str, list[float]]] = {}
    for name in LOADS:
        known = call.loads.statistics(call.world, root, name, there)
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
