"""The simulated PaiStudio service (version 2022-01-12): resource quotas, their queues, users and nodes.

Every amount is text. The memory of nodes is in GiB without a unit, unlike a quota's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError, Call, utc_text
from trainfleet_simulator.pai.catalog import CORDONED, LEASE_DAYS
from trainfleet_simulator.pai.parameters import MEMBER, bool_of, iso, list_answer, list_of, memory_text
from trainfleet_simulator.pai.sts import required
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, total
from trainfleet_simulator.world.nouns import DAY, GIB, LIVE, Amount, PoolSpec
from trainfleet_simulator.world.pools import Node, Pool, pod_amount

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
        raise ApiError(404, "NotFound", f"The quota {quota_id} is not found.")
    return quota


def _resource_group(spec: PoolSpec) -> str:
    """Return the id of the resource group of a quota's nodes."""
    return f"lingjsim{spec.pool_id[-6:]}" if spec.resource_type == "Lingjun" else "rgsimgeneral"


def _visible(call: Call, quota: Pool) -> bool:
    """Return whether the identity is a member of one of its workspaces."""
    return not (MEMBER.keys() - call.world.hidden).isdisjoint(quota.spec.workspaces)


def _family(call: Call, own: str) -> list[Pool]:
    """Return the quota in the path with its children, or only the quota if the parameter `own` says so."""
    quota = _quota_of(call, call.ids[0])
    return [quota] if bool_of(call, own) else list(call.world.family(quota.spec.pool_id))


def _row(world: World, quota: Pool, *, verbose: bool) -> dict[str, Any]:
    spec = quota.spec
    nodes = sum(len(q.nodes) for q in world.family(spec.pool_id))
    children = [q.spec for q in world.pools.values() if q.spec.parent == spec.pool_id]
    return {
        "QuotaId": spec.pool_id,
        "QuotaName": spec.name,
        "ResourceType": spec.resource_type,
        "GPUType": spec.card_type,
        "Status": spec.status,
        "ReasonCode": "",
        "ReasonMessage": "",
        "ParentQuotaId": spec.parent,
        "SubQuotas": [{"QuotaId": child.pool_id, "QuotaName": child.name} for child in children],
        "Workspaces": [
            {"WorkspaceId": w, "WorkspaceName": MEMBER[w]}
            for w in spec.workspaces
            if w in MEMBER and w not in world.hidden
        ],
        "ResourceGroupIds": [_resource_group(spec)],
        "Min": {"NodeSpecs": [{"Type": spec.node_type.name, "Count": nodes}]},
        "QueueStrategy": "PaiStrategyStrictFIFO",
        "QuotaConfig": {"WorkloadTypes": ["DLC", "DSW", "EAS", "TENSORBOARD"]},
        "Version": "v1",
        "GmtCreatedTime": iso(world.started - 90 * DAY),
        "QuotaDetails": _details(world, quota, verbose=verbose),
    }


def _amount(value: Amount) -> dict[str, str]:
    memory = memory_text(value.memory) if value.memory else "0"
    return {"CPU": str(value.cpu), "GPU": str(value.cards), "Memory": memory}


def _details(world: World, quota: Pool, *, verbose: bool) -> dict[str, Any]:
    spec = quota.spec
    family = list(world.family(spec.pool_id))

    def amount(value: Amount) -> dict[str, str]:
        amounts = _amount(value)
        memory = amounts.pop("Memory")
        return amounts | {"GPUMemory": f"{value.cards * spec.node_type.card_memory}Gi", "Memory": memory}

    def whole(what: str) -> Amount:
        return world.amount(spec.pool_id, lambda q: getattr(q, what))

    actual, allocated, queued = whole("actual"), whole("allocated"), whole("queued")
    # The pool that is being created was ordered with two nodes and has none yet.
    asked = actual if quota.nodes else spec.node_type.whole.times(2)
    in_mib = amount(allocated) | ({"Memory": f"{allocated.memory}Mi"} if allocated.memory else {})
    details: dict[str, Any] = {
        "DesiredMinQuota": amount(asked) | {"GPUType": spec.card_type},
        "ActualMinQuota": amount(actual),
        "AllocatableQuota": amount(whole("free") + allocated),
        "SystemReservedQuota": amount(actual - whole("free") - allocated),
        "AllocatedQuota": in_mib,
        "UsedQuota": in_mib,
        "RequestedQuota": in_mib,
        "SelfAllocatedQuota": amount(quota.allocated),
        "DescendantsAllocatedQuota": amount(allocated - quota.allocated),
        "AncestorsAllocatedQuota": amount(Amount()),
        "SelfSubmittedQuota": amount(allocated + queued),
    }
    if verbose:
        in_use, nodes = sum(q.nodes_in_use for q in family), sum(len(q.nodes) for q in family)
        details["NodeStatistics"] = {
            "ActualMinNodeNum": nodes,
            "AllocatedNodeNum": in_use,
            "EmptyNodeNum": nodes - in_use,
        }
    return details


def list_quota_workloads(call: Call) -> Answer:
    """GET /api/v1/quotas/{QuotaId}/workloads: live workloads of a quota and its children, the waiting ones first."""
    world, family = call.world, _family(call, "ShowOwn")
    status = call.choice("Status", (_ENQUEUED, _DEQUEUED))
    kinds, words = list_of(call, "WorkloadType"), list_of(call, "WorkloadStatuses")
    places: dict[str, int] = {}
    for pool in family:
        places |= {job_id: place for place, job_id in enumerate(pool.waiting(), 1)}
    pool_ids = {pool.spec.pool_id for pool in family}
    workspaces = {workspace for pool in family for workspace in pool.spec.workspaces} - world.hidden
    keys = [(workspace, live) for workspace in sorted(workspaces) for live in LIVE]
    jobs = map(world.jobs.__getitem__, world.index.between(keys, 0, world.now).ids())
    held = [job for job in jobs if job.draft.pool_id in pool_ids and (job.pods or job.status == "Queuing")]
    found = [
        row
        for row in (_workload(job, places.get(job.job_id)) for job in held)
        if status in {"", row["Status"]}
        and (not kinds or "dlc" in [kind.lower() for kind in kinds])
        and (not words or row["WorkloadStatus"] in words)
    ]
    found.sort(key=lambda row: (row["Status"] != _ENQUEUED, row["QuotaId"], row["Position"] or 0))
    return list_answer(call, "Workloads", found)


def _workload(job: Job, place: int | None) -> dict[str, Any]:
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


def list_users(call: Call) -> Answer:
    """GET /api/v1/quotas/{QuotaId}/activeuserusages: users with workloads, with the resources that they hold and that
    they have requested."""
    ids = {pool.spec.pool_id for pool in _family(call, "SelfOnly")}
    jobs: defaultdict[str, list[Job]] = defaultdict(list)
    for job in call.world.live():
        if job.draft.pool_id in ids:
            jobs[job.draft.user.user_id].append(job)
    used = {
        user_id: sum((pod_amount(pod.role) for job in own for pod in job.pods), Amount())
        for user_id, own in jobs.items()
    }
    found = [
        {
            "UserId": user_id,
            "Username": jobs[user_id][0].draft.user.name,
            "WorkloadCount": len(jobs[user_id]),
            "Resources": {
                "Used": _amount(used[user_id]),
                "Submitted": _amount(sum((Amount(*total(job.draft.roles)) for job in jobs[user_id]), Amount())),
            },
        }
        for user_id in sorted(jobs, key=lambda user_id: used[user_id].cards, reverse=True)
    ]
    return list_answer(call, "QuotaUserUsages", found)


def list_nodes(call: Call) -> Answer:
    """GET /api/v1/nodes: the nodes of one quota and its children, with figures of use on demand."""
    world, verbose = call.world, bool_of(call, "Verbose")
    pools = list(world.family(_quota_of(call, required(call, "QuotaId")).spec.pool_id))
    workloads = _workloads(world, pools) if verbose else {}
    rows = [
        _node(world, pool, node, place) | (_use(pool, node, workloads) if verbose else {})
        for pool in pools
        for place, node in enumerate(pool.nodes.values())
    ]
    return list_answer(call, "Nodes", sorted(rows, key=lambda row: str(row["NodeName"]), reverse=True), default_size=50)


def _gib(mib: int) -> str:
    return f"{mib / GIB:.10g}"


def _node(world: World, pool: Pool, node: Node, place: int) -> dict[str, Any]:
    spec, kind = pool.spec, pool.spec.node_type
    bound = [spec] + ([world.pools[spec.parent].spec] if spec.parent else [])
    is_cordoned = spec.pool_id in CORDONED and place == len(pool.nodes) - 1
    lease = LEASE_DAYS.get(spec.pool_id)
    expires = "" if lease is None else utc_text(world.started + (lease + 30 * place) * DAY)
    return {
        "NodeName": node.name,
        "NodeType": kind.name,
        "NodeStatus": "Ready",
        "ReasonCode": "CordonByUser" if is_cordoned else "",
        "ReasonMessage": "cordoned by alice, driver update" if is_cordoned else "",
        "GmtExpiredTime": expires,
        "OrderStatus": "Normal",
        "AcceleratorType": "GPU",
        "GPUType": spec.card_type,
        "CPU": str(kind.cpu),
        "GPU": str(kind.cards),
        "Memory": _gib(kind.memory),
        "GPUMemory": str(kind.cards * kind.card_memory),
        "NodeGPUMemoryBytes": kind.cards * kind.card_memory * 2**30,
        "AllocatableCPU": str(kind.cpu - kind.reserved_cpu),
        "AllocatableMemory": _gib(kind.memory - kind.reserved_memory),
        "SystemReservedCPU": str(kind.reserved_cpu),
        "SystemReservedMemory": _gib(kind.reserved_memory),
        "ResourceGroupId": _resource_group(spec),
        "ResourceGroupName": "general" if spec.resource_type == "ECS" else spec.name,
        "BoundQuotas": [{"QuotaId": quota.pool_id, "QuotaName": quota.name} for quota in bound],
        "HyperZone": "",
    }


def _use(pool: Pool, node: Node, workloads: dict[str, int]) -> dict[str, Any]:
    taken = pool.spec.node_type.usable - node.free
    requested = {"CPU": str(taken.cpu), "GPU": str(taken.cards), "Memory": _gib(taken.memory)}
    return {
        **{f"Request{name}": amount for name, amount in requested.items()},
        **{f"Limit{name}": amount for name, amount in requested.items()},
        "PodNum": node.pods,
        "WorkloadNum": workloads.get(node.name, 0),
        "SelfQuotaWorkloadNum": workloads.get(node.name, 0),
    }


def _workloads(world: World, pools: Iterable[Pool]) -> dict[str, int]:
    """Count the jobs with a pod on each node."""
    pool_ids = {pool.spec.pool_id for pool in pools}
    found: defaultdict[str, set[str]] = defaultdict(set)
    keys = [(workspace, status) for workspace in MEMBER for status in LIVE]
    for job_id in world.index.between(keys, 0, world.now).ids():
        job = world.jobs[job_id]
        if job.draft.pool_id in pool_ids:
            for pod in job.pods:
                found[pod.node].add(job_id)
    return {name: len(job_ids) for name, job_ids in found.items()}
