"""The queue of a quota in the simulated PaiStudio: workloads that wait, with their positions, and those that hold
resources."""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.exchange import Answer
from trainfleet_simulator.pai.dlc_rows import memory_text
from trainfleet_simulator.pai.paistudio import quota_of
from trainfleet_simulator.pai.parameters import Call, bool_of, choice_of, iso, list_answer, list_of, page_of
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, total
from trainfleet_simulator.world.nouns import LIVE

_ENQUEUED, _DEQUEUED = "Enqueued", "Dequeued"
_WORDS = {"Queuing": "Pending", "EnvPreparing": "PreAllocation", "SanityChecking": "PreAllocation"}
"""The queue's words for a job's status. Every later status is Running until its resources are released."""


def list_quota_workloads(call: Call) -> Answer:
    """GET /api/v1/quotas/{QuotaId}/workloads: live workloads of a quota and its children, the waiting ones first."""
    query, world = call.query, call.world
    quota = quota_of(call)
    status = choice_of(query, "Status", (_ENQUEUED, _DEQUEUED))
    offset, size = page_of(query, 10)
    kinds = list_of(query, "WorkloadType")
    words = list_of(query, "WorkloadStatuses")
    own = bool_of(query, "ShowOwn")
    family = [quota] if own else list(world.family(quota.spec.pool_id))
    places: dict[str, int] = {}
    for pool in family:
        places |= {job_id: place for place, job_id in enumerate(pool.waiting(), 1)}
    found = [
        row
        for row in (_row(job, places.get(job.job_id)) for job in _held(world, {pool.spec.pool_id for pool in family}))
        if status in {"", row["Status"]}
        and (kinds is None or "dlc" in [kind.lower() for kind in kinds])
        and (words is None or row["WorkloadStatus"] in words)
    ]
    found.sort(key=lambda row: (row["Status"] != _ENQUEUED, row["QuotaId"], row["Position"] or 0))
    noted = ("WorkloadId", "WorkloadStatus", "Status", "Position")
    return list_answer("Workloads", found[offset : offset + size], len(found), noted)


def _held(world: World, pool_ids: set[str]) -> list[Job]:
    """Return live jobs that wait in one of the pools or hold a part of it, oldest first."""
    workspaces = {workspace for pool_id in pool_ids for workspace in world.pools[pool_id].spec.workspaces}
    workspaces -= world.hidden
    keys = [(workspace, status) for workspace in sorted(workspaces) for status in LIVE]
    jobs = map(world.jobs.__getitem__, world.index.between(keys, 0, world.now).ids())
    return [job for job in jobs if job.draft.pool_id in pool_ids and (job.pods or job.status == "Queuing")]


def _row(job: Job, place: int | None) -> dict[str, Any]:
    cpu, memory, cards = total(job.draft.roles)
    dequeued = next((since for status, since in job.statuses if status == "EnvPreparing"), None)
    return {
        "WorkloadId": job.job_id,
        "WorkloadName": job.draft.name,
        "WorkloadType": "dlc",
        "WorkloadStatus": _WORDS.get(job.status, "Running"),
        "Status": _ENQUEUED if place is not None else _DEQUEUED,
        "Position": place,
        "Priority": job.draft.priority,
        "QuotaId": job.draft.pool_id,
        "Resource": {"CPU": str(cpu), "GPU": str(cards), "Memory": memory_text(memory)},
        "Code": job.reason[0],
        "Reason": job.reason[1],
        "UserId": job.draft.user.user_id,
        "UserName": job.draft.user.name,
        "WorkspaceId": job.draft.workspace_id,
        "UseOversoldResource": False,
        "GmtCreatedTime": iso(job.created),
        "GmtEnqueuedTime": iso(job.submitted),
        "GmtDequeuedTime": iso(dequeued),
        "GmtPositionModifiedTime": iso(job.submitted),
    }
