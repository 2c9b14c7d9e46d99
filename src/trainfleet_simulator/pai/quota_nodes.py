"""The nodes of quotas in the simulated PaiStudio. Every amount is text. Memory is in GiB without a unit, unlike a
quota's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from trainfleet_simulator.exchange import Answer, Call, utc_text
from trainfleet_simulator.pai.catalog import CORDONED, LEASE_DAYS
from trainfleet_simulator.pai.paistudio import quota_of, resource_group
from trainfleet_simulator.pai.parameters import MEMBER, bool_of, list_answer
from trainfleet_simulator.pai.sts import required
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import DAY, GIB, LIVE
from trainfleet_simulator.world.pools import Node, Pool


def list_nodes(call: Call) -> Answer:
    """GET /api/v1/nodes: the nodes of one quota and its children, with figures of use on demand."""
    world, verbose = call.world, bool_of(call, "Verbose")
    pools = list(world.family(quota_of(call, required(call, "QuotaId")).spec.pool_id))
    workloads = _workloads(world, pools) if verbose else {}
    rows = [
        _row(world, pool, node, place) | (_use(pool, node, workloads) if verbose else {})
        for pool in pools
        for place, node in enumerate(pool.nodes.values())
    ]
    return list_answer(call, "Nodes", sorted(rows, key=lambda row: str(row["NodeName"]), reverse=True), default_size=50)


def _gib(mib: int) -> str:
    return f"{mib / GIB:.10g}"


def _row(world: World, pool: Pool, node: Node, place: int) -> dict[str, Any]:
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
        "ResourceGroupId": resource_group(spec),
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
