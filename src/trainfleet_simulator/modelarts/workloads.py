"""The running and waiting workloads of a dedicated pool of all kinds: their list, and their numbers.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowWorkloadStatistics.html and related pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.phases import WORKLOAD_STATUSES, workload_status
from trainfleet_simulator.modelarts.pools import host_ip, pool_of
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, total
from trainfleet_simulator.world.nouns import DAY, GIB
from trainfleet_simulator.world.pools import Pool

_TYPES = ("train", "infer", "notebook", "x-infer")
_KEPT = 3600  # seconds that a finished workload stays in the pool's list
_COUNTS_AS_TEXT = {catalog.ASCEND_TEAM}
_OTHER_KEY = {catalog.GPU: "statics"}
"""Pools whose responses follow the table in the documentation, which its example contradicts."""


@dataclass(frozen=True, slots=True)
class _Workload:
    kind: str
    name: str
    status: str
    created: int
    job: Job | None = None


def _workloads(world: World, pool: Pool) -> list[_Workload]:
    """Return the workloads, oldest first."""
    other = [
        _Workload(kind, name, status, world.started - 3 * DAY)
        for kind, name, status in catalog.OTHER_WORKLOADS.get(pool.spec.pool_id, ())
    ]
    jobs = (job for job in world.jobs.values() if job.draft.pool_id == pool.spec.pool_id and world.shows(job))
    train = [
        _Workload("train", job.draft.name, workload_status(job), job.created, job)
        for job in jobs
        if job.finished is None or world.now - job.finished < _KEPT
    ]
    return sorted([*other, *train], key=lambda workload: workload.created)


def show_workload_statistics(call: Call) -> Answer:
    """GET /v2/{project_id}/statistics/pools/{pool_name}/workloads: a status without a workload is left out."""
    pool = pool_of(call)
    counts: dict[str, Counter[str]] = {}
    for workload in _workloads(call.world, pool):
        counts.setdefault(workload.kind, Counter())[workload.status] += 1
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
    pool, world = pool_of(call), call.world
    status = call.choice("status", WORKLOAD_STATUSES)
    ascending = call.choice("ascend", ("true", "false"), "false") == "true"
    types = [value for name, value in call.request.query if name == "type"]
    if not set(types) <= set(_TYPES):
        raise call.invalid("type", ", ".join(_TYPES))
    offset, limit = call.whole("offset", 0, 0, 2**31 - 1), call.whole("limit", 0, 0, 500) or 500
    found = [
        workload
        for workload in _workloads(world, pool)
        if status in {"", workload.status} and (not types or workload.kind in types)
    ]
    if not ascending:
        found.reverse()
    page = found[offset : offset + limit]
    positions = {job_id: place for place, job_id in enumerate(pool.waiting(), 1)}
    items = [_row(world, pool, workload, positions) for workload in page]
    return Answer({"kind": "WorkloadList", "apiVersion": "v1", "metadata": {}, "total": len(found), "items": items})


def _row(world: World, pool: Pool, workload: _Workload, positions: Mapping[str, int]) -> dict[str, Any]:
    job = workload.job
    row: dict[str, Any] = {
        "apiVersion": "v1",
        "type": workload.kind,
        "name": workload.name,
        "jobName": workload.name,
        "uid": str(uuid5(NAMESPACE_DNS, f"{pool.spec.pool_id}/{workload.name}/{workload.created}")),
        "status": workload.status,
        "pendingPosition": -1,
    }
    if job is None:
        return row | {
            "userName": "li.na",
            "resourceRequirement": {"cpu": "1 Cores", "memory": "6.52 GiB"},
        }
    cpu, memory, cards = total(job.draft.roles)
    requirement = {"cpu": f"{cpu} Cores", "memory": f"{memory / GIB:.2f} GiB"}
    if cards:
        requirement[catalog.DEVICE_KEYS[pool.spec.card_type]] = str(cards)
    return row | {
        "name": f"modelarts-job-{job.job_id}",
        "jobUUID": job.job_id,
        "userName": job.draft.user.name,
        "resourceRequirement": requirement,
        "pendingPosition": positions.get(job.job_id, -1),
        "hostIps": ",".join(sorted({host_ip(pool, pod.node) for pod in job.pods})),
    }
