"""The simulated PaiStudio service (version 2022-01-12): resource quotas, their queues, users and nodes.

Every amount is text. The memory of nodes is in GiB without a unit, unlike a quota's.
"""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import Any

from trainfleet_simulator.exchange import Answer, Call, utc_text
from trainfleet_simulator.pai.catalog import CORDONED, LEASE_DAYS
from trainfleet_simulator.pai.parameters import MEMBER, bool_of, iso, list_answer, list_of, memory_text
from trainfleet_simulator.pai.sts import required
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import DAY, GIB, Amount
from trainfleet_simulator.world.pools import Node, Pool

_ENQUEUED, _DEQUEUED = "Enqueued", "Dequeued"
_WORDS = {"Queuing": "Pending", "EnvPreparing": "PreAllocation", "SanityChecking": "PreAllocation"}
"""The queue's words for a job's status. Every later status is Running until its resources are released."""


def list_quotas(call: Call) -> Answer:
    """GET /api/v1/quotas/: the quotas of the workspaces that the identity is a member of."""
    verbose = bool_of(call, "Verbose")
    found = [_row(call.world, quota, verbose=verbose) for quota in call.world.pools.values() if _visible(call, quota)]
    return list_answer(call, "Quotas", found)


def _quota_of(call: Call, quota_id: str) -> Pool:
    """Return the quota with this id. Raises ApiError if it is not visible."""
    quota = call.world.pools.get(quota_id)
    if quota is None or not _visible(call, quota):
        raise call.refused("not_found")
    return quota


def _visible(call: Call, quota: Pool) -> bool:
    """Return whether the identity is a member of one of its workspaces."""
    return not (MEMBER.keys() - call.world.hidden).isdisjoint(quota.spec.workspaces)


def _family(call: Call, own: str) -> list[Pool]:
    """Return the quota in the path with its children, or only the quota if the parameter `own` says so."""
    quota = _quota_of(call, call.ids[0])
    return [quota] if bool_of(call, own) else list(call.world.family(quota.spec.pool_id))


def _row(world: World, quota: Pool, *, verbose: bool) -> dict[str, Any]:
    spec = quota.spec
    return {
        "QuotaId": spec.pool_id,
        "QuotaName": spec.name,
        "ResourceType": spec.resource_type,
        "GPUType": spec.node_type.card_type,
        "Status": spec.status,
        "ParentQuotaId": spec.parent,
        "QuotaConfig": {"WorkloadTypes": ["DLC", "DSW", "EAS", "TENSORBOARD"]},
        "GmtCreatedTime": iso(world.started - 90 * DAY),
        "QuotaDetails": _details(world, quota, verbose=verbose),
    }


def _amount(value: Amount) -> dict[str, str]:
    memory = memory_text(value.memory) if value.memory else "0"
    return {"CPU": str(value.cpu), "GPU": str(value.cards), "Memory": memory}


def _details(world: World, quota: Pool, *, verbose: bool) -> dict[str, Any]:
    actual, allocated = (world.amount(quota.spec.pool_id, attrgetter(what)) for what in ("actual", "allocated"))
    in_mib = _amount(allocated) | ({"Memory": f"{allocated.memory}Mi"} if allocated.memory else {})
    details: dict[str, Any] = {"ActualMinQuota": _amount(actual), "AllocatedQuota": in_mib, "UsedQuota": in_mib}
    if verbose:
        family = list(world.family(quota.spec.pool_id))
        in_use, nodes = sum(one.nodes_in_use for one in family), sum(len(one.nodes) for one in family)
        details["NodeStatistics"] = {"AllocatedNodeNum": in_use, "EmptyNodeNum": nodes - in_use}
    return details


def list_quota_workloads(call: Call) -> Answer:
    """GET /api/v1/quotas/{QuotaId}/workloads: live workloads of a quota and its children, the waiting ones first."""
    world, family = call.world, _family(call, "ShowOwn")
    status = call.choice("Status", (_ENQUEUED, _DEQUEUED))
    kinds, words = list_of(call, "WorkloadType"), list_of(call, "WorkloadStatuses")
    places: dict[str, int] = {}
    for pool in family:
        places |= {job.job_id: place for place, job in enumerate(pool.queue, 1)}
    pool_ids = {pool.spec.pool_id for pool in family}
    jobs = (job for job in world.between(0, world.now) if job.live and job.draft.pool_id in pool_ids)
    held = [job for job in jobs if job.pods or job.status == "Queuing"]
    found = [
        row
        for job in held
        for row in (_workload(job, places.get(job.job_id)),)
        if status in {"", row["Status"]}
        and (not kinds or "dlc" in [kind.lower() for kind in kinds])
        and (not words or _WORDS.get(job.status, "Running") in words)
    ]
    found.sort(key=lambda row: (row["Status"] != _ENQUEUED, row["QuotaId"], row["Position"] or 0))
    return list_answer(call, "Workloads", found)


def _workload(job: Job, place: int | None) -> dict[str, Any]:
    return {
        "WorkloadId": job.job_id,
        "WorkloadType": "dlc",
        "Status": _ENQUEUED if place is not None else _DEQUEUED,
        "Position": place,
        "QuotaId": job.draft.pool_id,
        "Resource": _amount(job.draft.amount),
        "Code": job.reason[0],
        "UserId": job.draft.user.user_id,
        "UserName": job.draft.user.name,
    }


def list_users(call: Call) -> Answer:
    """GET /api/v1/quotas/{QuotaId}/activeuserusages: users with workloads, with the resources that they hold and that
    they have requested."""
    ids = {pool.spec.pool_id for pool in _family(call, "SelfOnly")}
    jobs: defaultdict[str, list[Job]] = defaultdict(list)
    for job in call.world.live():
        if job.draft.pool_id in ids:
            jobs[job.draft.user.user_id].append(job)
    used = {
        user_id: sum((pod.role.amount for job in own for pod in job.pods), Amount()) for user_id, own in jobs.items()
    }
    found = [
        {
            "UserId": user_id,
            "Username": jobs[user_id][0].draft.user.name,
            "Resources": {"Used": _amount(used[user_id])},
        }
        for user_id in sorted(jobs, key=lambda user_id: used[user_id].cards, reverse=True)
    ]
    return list_answer(call, "QuotaUserUsages", found)


def list_nodes(call: Call) -> Answer:
    """GET /api/v1/nodes: the nodes of one quota and its children, with figures of use on demand."""
    world, verbose = call.world, bool_of(call, "Verbose")
    pools = list(world.family(_quota_of(call, required(call, "QuotaId")).spec.pool_id))
    rows = [
        _node(world, pool, node, place) | (_use(pool, node) if verbose else {})
        for pool in pools
        for place, node in enumerate(pool.nodes.values())
    ]
    return list_answer(call, "Nodes", sorted(rows, key=lambda row: str(row["NodeName"]), reverse=True), default_size=50)


def _gib(mib: int) -> str:
    return f"{mib / GIB:.10g}"


def _node(world: World, pool: Pool, node: Node, place: int) -> dict[str, Any]:
    spec, kind = pool.spec, pool.spec.node_type
    is_cordoned = spec.pool_id in CORDONED and place == len(pool.nodes) - 1
    lease = LEASE_DAYS.get(spec.pool_id)
    expires = "" if lease is None else utc_text(world.started + (lease + 30 * place) * DAY)
    return {
        "NodeName": node.name,
        "NodeType": kind.name,
        "NodeStatus": "Ready",
        "ReasonCode": "CordonByUser" if is_cordoned else "",
        "GmtExpiredTime": expires,
        "OrderStatus": "Normal",
        "GPUType": spec.node_type.card_type,
        "CPU": str(kind.cpu),
        "GPU": str(kind.cards),
        "Memory": _gib(kind.memory),
    }


def _use(pool: Pool, node: Node) -> dict[str, Any]:
    taken = pool.spec.node_type.usable - node.free
    return {"RequestCPU": str(taken.cpu), "RequestGPU": str(taken.cards), "RequestMemory": _gib(taken.memory)}
