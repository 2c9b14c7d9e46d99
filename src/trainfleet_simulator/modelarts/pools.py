"""The simulated dedicated pools: their list, allocation, workloads, and the maintenance and utilization of nodes.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListPools.html and related pages.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from operator import attrgetter
from statistics import fmean
from typing import Any, NamedTuple
from uuid import NAMESPACE_DNS, uuid5

from trainfleet_simulator.exchange import Answer, Call, utc_text
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.catalog import workspace_of
from trainfleet_simulator.modelarts.job_rows import READINGS, WORKLOAD_STATUSES, workload_status
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Role
from trainfleet_simulator.world.nouns import DAY, GIB, HOUR, Amount, Machine
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.usage import reading

_QUERY_STATUS = {"Running": "created", "Abnormal": "created", "Creating": "creating", "CreationFailed": "failed"}
_ORDERED_NODES = 2  # of a pool that has none yet


def pool_of(call: Call) -> Pool:
    """Return the pool in the path."""
    pool = call.world.pools.get(call.ids[0])
    if pool is None or not call.world.offers(pool):
        raise call.refused("not_found")
    return pool


def list_pools(call: Call) -> Answer:
    """GET /v2/{project_id}/pools: every pool of one workspace, unpaged."""
    status = call.choice("status", ("created", "failed", "creating"))
    workspace = workspace_of(call.world, call.text("workspaceId"))
    rows = [
        _row(call.world, pool)
        for pool in call.world.pools.values()
        if workspace in pool.spec.workspaces and status in {"", _QUERY_STATUS[pool.spec.status]}
    ]
    return Answer({"items": rows})


def _row(world: World, pool: Pool) -> dict[str, Any]:
    spec = pool.spec
    family = list(world.family(spec.pool_id))
    broken = sum(catalog.ABNORMAL_NODES.get(one.spec.pool_id, 0) for one in family)
    nodes = sum(len(one.nodes) for one in family)
    states = {"available": nodes, "abnormal": broken}
    if spec.status == "Creating":
        states["creating"] = _ORDERED_NODES
    return {
        "metadata": {"name": spec.pool_id, "labels": {"os.modelarts/name": spec.name}},
        "spec": {"type": spec.resource_type},
        "status": {
            "phase": spec.status,
            "root": spec.parent or spec.pool_id,
            **({"parent": spec.parent} if spec.parent else {}),
            # A state without a node is left out.
            "resources": {state: [{"count": count}] for state, count in states.items() if count},
        },
    }


def show_metrics(call: Call) -> Answer:
    """GET /v2/{project_id}/metrics/runtime/pools: the allocation of every pool, including its children's."""
    world = call.world
    items = []
    for pool_id, pool in world.pools.items():
        if pool.nodes and world.offers(pool):
            table = {
                what: {"value": _quantities(pool, world.amount(pool_id, attrgetter(of)))}
                for what, of in (("allocated", "allocated"), ("capacity", "actual"))
            }
            items.append({"metadata": {"name": pool_id, "labels": {}}, "table": table})
    return Answer({"items": items})


def _quantities(pool: Pool, amount: Amount) -> dict[str, Any]:
    """Return Kubernetes quantities. Each pool is in another cluster, and each cluster writes them differently."""
    device = catalog.DEVICE_KEYS[pool.spec.node_type.card_type]
    match pool.spec.pool_id:
        case catalog.ASCEND:
            return {"cpu": str(amount.cpu), "memory": f"{amount.memory}Mi", device: amount.cards}
        case catalog.ASCEND_TEAM:
            return {"cpu": f"{amount.cpu * 1000}m", "memory": f"{amount.memory * 1024}Ki", device: str(amount.cards)}
        case _:
            return {"cpu": amount.cpu, "memory": amount.memory * 2**20, device: str(amount.cards)}


def list_pool_nodes(call: Call) -> Answer:
    """GET /v2/{project_id}/pools/{pool_name}/nodes: the pool's own nodes, paged by a token."""
    pool = pool_of(call)
    limit = call.whole("limit", 500, 0, 500) or 500
    start = call.whole("continue", 0, 1, 1_000_000)
    kind, device = pool.spec.node_type, catalog.NODE_DEVICE_KEYS[pool.spec.node_type.card_type]

    def resources(amount: Amount) -> dict[str, str]:
        return {"cpu": f"{amount.cpu * 1000}m", "memory": f"{amount.memory}Mi", device: str(amount.cards)}

    nodes = [(name, host_ip(pool, name), "Available", node.free) for name, node in pool.nodes.items()]
    broken = catalog.ABNORMAL_NODES.get(pool.spec.pool_id, 0)
    nodes += [(f"{kind.prefix}-broken-{place}", f"10.9.{place}.1", "Abnormal", Amount()) for place in range(broken)]
    page = nodes[start : start + limit]
    items = [
        {
            "metadata": {"name": name},
            "spec": {"flavor": kind.name},
            "status": {
                "phase": phase,
                "privateIp": address,
                "resources": resources(kind.whole),
                "availableResources": resources(free),
            },
        }
        for name, address, phase, free in page
    ]
    left = len(nodes) - start - len(page)
    metadata = {"continue": str(start + limit), "remainingItemCount": left} if left > 0 else {}
    return Answer({"metadata": metadata, "items": items})


def host_ip(pool: Pool, node: str) -> str:
    """Return the private address of one of the pool's nodes."""
    return f"{pool.nodes[node].ip_prefix}.1"


class Announcement(NamedTuple):
    """Maintenance of one node of a pool, by its place. Times are in seconds after the world's start; negative ones are
    before it.

    Without `lasts`, the maintenance does not begin until a user agrees.
    """

    event_id: str
    pool_id: str
    place: int
    type: str
    published: int
    begins: int | None
    lasts: int | None
    end: str = "completed"

    def state(self, elapsed: int) -> str:
        """Return the state, so many seconds after the world's start."""
        if self.begins is None or self.lasts is None:
            return "inquiring"
        if elapsed < self.begins:
            return "scheduled"
        return "executing" if elapsed < self.begins + self.lasts else self.end


ANNOUNCED = (
    Announcement("event-reboot-1", catalog.ASCEND, 0, "node_reboot", -2 * DAY, 6 * HOUR, 1800),
    Announcement("event-disk-2", catalog.ASCEND, 1, "localdisk-recovery", -HOUR, None, None),
    Announcement("event-redeploy-3", catalog.ASCEND, 2, "node_redeploy", -9 * DAY, -8 * DAY, HOUR),
    Announcement("event-old-4", catalog.ASCEND, 3, "node_reboot", -9 * DAY, -8 * DAY, HOUR, "canceled"),
    Announcement("event-system-5", catalog.GPU, 1, "system-maintenance", -3 * HOUR, -2 * HOUR, 9 * HOUR),
)


def list_events(call: Call) -> Answer:
    """GET /v1/{project_id}/scheduled-events: of one workspace, ended ones included. `offset` counts records."""
    world = call.world
    workspace = workspace_of(world, call.text("workspaceId"))
    offset, limit = call.whole("offset", 0, 0, 1_000_000_000), call.whole("limit", 100, 1, 100)
    rows = [_event(world, one) for one in ANNOUNCED if workspace in world.pools[one.pool_id].spec.workspaces]
    return Answer({"events": rows[offset : offset + limit], "count": len(rows)})


def _event(world: World, one: Announcement) -> dict[str, Any]:
    pool, start = world.pools[one.pool_id], world.started
    row: dict[str, Any] = {
        "id": one.event_id,
        "type": one.type,
        "state": one.state(world.now - start),
        "nodeName": list(pool.nodes)[one.place % len(pool.nodes)],
        "poolName": one.pool_id,
        "publishTime": utc_text(start + one.published),
    }
    if one.begins is None:
        return row
    row["notBefore"] = utc_text(start + one.begins)
    if row["state"] not in {"scheduled", "canceled"}:
        row["startTime"] = row["notBefore"]
    return row


_KEPT = 3600  # seconds that a finished workload stays in the pool's list
_COUNTS_AS_TEXT = {catalog.ASCEND_TEAM}
_OTHER_KEY = {catalog.GPU: "statics"}
"""Pools whose responses follow the table in the documentation, which its example contradicts."""


def _workloads(world: World, pool: Pool) -> list[dict[str, Any]]:
    """Return the workloads, oldest first."""
    spec, found = pool.spec, []
    for kind, name, status in catalog.OTHER_WORKLOADS.get(spec.pool_id, ()):
        row: dict[str, Any] = {"userName": "li.na", "resourceRequirement": {"cpu": "1 Cores", "memory": "6.52 GiB"}}
        found.append((world.started - 3 * DAY, _workload(pool, kind, name, status, world.started - 3 * DAY) | row))
    positions = {job.job_id: place for place, job in enumerate(pool.queue, 1)}
    for job in world.jobs.values():
        if job.draft.pool_id != spec.pool_id or not world.shows(job):
            continue
        if job.finished is not None and world.now - job.finished >= _KEPT:
            continue
        amount = job.draft.amount
        requirement = {"cpu": f"{amount.cpu} Cores", "memory": f"{amount.memory / GIB:.2f} GiB"}
        if amount.cards:
            requirement[catalog.DEVICE_KEYS[spec.node_type.card_type]] = str(amount.cards)
        row = {
            "name": f"modelarts-job-{job.job_id}",
            "jobUUID": job.job_id,
            "userName": job.draft.user.name,
            "resourceRequirement": requirement,
            "pendingPosition": positions.get(job.job_id, -1),
            "hostIps": ",".join(sorted({host_ip(pool, pod.node) for pod in job.pods})),
        }
        found.append((job.created, _workload(pool, "train", job.draft.name, workload_status(job), job.created) | row))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def _workload(pool: Pool, kind: str, name: str, status: str, created: int) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "jobName": name,
        "uid": str(uuid5(NAMESPACE_DNS, f"{pool.spec.pool_id}/{name}/{created}")),
        "status": status,
        "pendingPosition": -1,
    }


def show_workload_statistics(call: Call) -> Answer:
    """GET /v2/{project_id}/statistics/pools/{pool_name}/workloads: a status without a workload is left out."""
    pool = pool_of(call)
    counts: dict[str, Counter[str]] = {}
    for workload in _workloads(call.world, pool):
        counts.setdefault(workload["type"], Counter())[workload["status"]] += 1
    as_text = pool.spec.pool_id in _COUNTS_AS_TEXT
    items = [
        {
            "type": kind,
            "total": by_status.total(),
            "status": {status: str(count) if as_text else count for status, count in by_status.items()},
        }
        for kind, by_status in counts.items()
    ]
    key = _OTHER_KEY.get(pool.spec.pool_id, "statistics")
    return Answer({key: {"total": len(items), "items": items}})


def list_workloads(call: Call) -> Answer:
    """GET /v2/{project_id}/pools/{pool_name}/workloads: `offset` counts records, unlike that of the job search."""
    pool = pool_of(call)
    status = call.choice("status", WORKLOAD_STATUSES)
    ascending = call.choice("ascend", ("true", "false"), "false") == "true"
    offset, limit = call.whole("offset", 0, 0, 2**31 - 1), call.whole("limit", 0, 0, 500) or 500
    found = [workload for workload in _workloads(call.world, pool) if status in {"", workload["status"]}]
    if not ascending:
        found.reverse()
    return Answer({"total": len(found), "items": found[offset : offset + limit]})


# The utilization of nodes.

_LOADS = ("cpuUsage", "memUsedRate", "gpuUtil", "gpuMemUsage", "npuUtil", "npuMemUsage")
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
        call.choice("statistics", ("average",), "maximum")
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
        disks = {
            "diskUsedRate": _DISK_USED,
            "diskCapacity": _DISK_OF_A_NODE * nodes,
            "diskAvailableCapacity": _DISK_OF_A_NODE * nodes * (1 - _DISK_USED / 100),
        }

        def value(name: str, at: int) -> float:
            if present - at < _NOT_THERE_YET or not nodes:
                return _NO_DATA
            return disks[name] if name in disks else self._known(root, name, at)

        def points(name: str) -> list[dict[str, Any]]:
            values = [value(name, at) for at in times]
            unit = "Megabytes" if name.endswith("Capacity") else "Percent"
            if name.startswith("npu") and set(values) <= {_NO_DATA}:  # without NPUs, the unit is absent, too
                unit = ""
            return [
                {"timestamp": at * 1000, "unit": unit, "statistics": [{"statistic": "average", "value": one}]}
                for at, one in zip(times, values, strict=True)
            ]

        names = (*_LOADS, *disks)
        return Answer({"metrics": [{"metric": {"metricName": name}, "dataPoints": points(name)} for name in names]})


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
                    used = reading(READINGS[metric], job, one, at)
                    if used is not None:
                        loads[one.node] += used * _share(one.role, pools[job.draft.pool_id], metric)
    return round(fmean(min(load, 100.0) for load in loads.values()), 3) if loads else _NO_DATA


def _share(role: Role, kind: Machine, metric: str) -> float:
    """Return the share of its node that a pod has."""
    if metric == "cpuUsage":
        return role.cpu / kind.cpu
    return role.memory / kind.memory if metric == "memUsedRate" else role.cards / kind.cards
