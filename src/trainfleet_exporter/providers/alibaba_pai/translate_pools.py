"""From PaiStudio's JSON about quotas to the model: what they are and have, their queues, their nodes.

Shapes: ListQuotas (Verbose), ListQuotaWorkloads, ListNodes (Verbose). Amounts are texts, memory with its suffix; but
ListNodes gives memory as bare numbers of GiB. A function answers None for an object that has no id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainfleet_exporter.model import Accelerators, Node, Pool, PoolAmounts, PoolStatus, QueuePlace
from trainfleet_exporter.providers.states import POOL_STATUS
from trainfleet_exporter.quantities import GIB, mapping, number, quantity, text, whole

Row = Mapping[str, Any]

JOBS = "dlc"
"""The type under which training jobs stand in the queue of a quota."""
_NOT_QUEUED = frozenset({"Dequeued", "Running", "Succeeded", "Failed", "Stopped"})
"""States of workloads that wait for nothing; the service may answer more than what was asked for."""
ENQUEUED = "Enqueued"


def pool(row: Row) -> Pool | None:
    """What a row of ListQuotas (Verbose) says a quota is."""
    pool_id = text(row, "QuotaId")
    if not pool_id:
        return None
    nodes = mapping(mapping(row, "QuotaDetails"), "NodeStatistics")
    return Pool(
        pool_id=pool_id,
        name=text(row, "QuotaName"),
        resource_type=text(row, "ResourceType"),
        parent_pool_id=text(row, "ParentQuotaId"),
        status=POOL_STATUS.get(text(row, "Status"), PoolStatus.UNKNOWN),
        allocated_nodes=whole(nodes, "AllocatedNodeNum"),
        empty_nodes=whole(nodes, "EmptyNodeNum"),
    )


@dataclass(frozen=True, slots=True)
class Quota:
    """What other collectors need to know of a quota."""

    name: str
    accelerator_model: str
    """GPUType; empty where the quota has no accelerators."""
    workload_types: tuple[str, ...]
    """In lower case, as the queue of the quota takes them."""


def quota(row: Row) -> Quota:
    """What other collectors need of a row of ListQuotas. A quota that does not name its workload types runs jobs."""
    capacity = pool_amounts(row).capacity_accelerators
    types = mapping(row, "QuotaConfig").get("WorkloadTypes")
    named = [name.lower() for name in types if isinstance(name, str) and name] if isinstance(types, list) else []
    return Quota(
        name=text(row, "QuotaName"),
        accelerator_model=capacity[0].model if capacity else "",
        workload_types=tuple(dict.fromkeys(named)) or (JOBS,),
    )


def pool_amounts(row: Row) -> PoolAmounts:
    """What a row of ListQuotas says a quota has: ActualMinQuota, which is what is bound to it now."""
    details = mapping(row, "QuotaDetails")
    capacity = mapping(details, "ActualMinQuota")
    # UsedQuota is being retired in favour of AllocatedQuota.
    allocated = mapping(details, "AllocatedQuota") or mapping(details, "UsedQuota")
    model = text(row, "GPUType")
    return PoolAmounts(
        pool_id=text(row, "QuotaId"),
        capacity_cpu_cores=quantity(capacity, "CPU"),
        capacity_memory_bytes=quantity(capacity, "Memory"),
        capacity_accelerators=gpus(quantity(capacity, "GPU"), model),
        allocated_cpu_cores=quantity(allocated, "CPU"),
        allocated_memory_bytes=quantity(allocated, "Memory"),
        allocated_accelerators=gpus(quantity(allocated, "GPU"), model),
    )


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits in a quota and its descendants."""

    by_type: Mapping[str, int]
    accelerators: float | None
    """What all of it asks for together; None where one entry does not say."""
    places: tuple[QueuePlace, ...]
    """The jobs that wait in this very quota."""


def queue(rows: Iterable[Row], quota_id: str, *, unreadable: int = 0) -> Queue:
    """The rows of ListQuotaWorkloads (Status Enqueued) of one quota, and how many others could not be read.

    What waits for how much is not known where a row cannot be read, or is in a state that is not known.
    """
    by_type: Counter[str] = Counter()
    places = []
    accelerators: float | None = None if unreadable else 0.0
    for row in rows:
        status = text(row, "Status")
        if status not in ("", ENQUEUED):
            accelerators = accelerators if status in _NOT_QUEUED else None
            continue
        workload_type = text(row, "WorkloadType").lower()
        by_type[workload_type] += 1
        resource = mapping(row, "Resource")
        # Who asks for no accelerator may leave them out; who has no amounts at all, or unreadable ones, does not say.
        asked = quantity(resource, "GPU") if resource.get("GPU") not in (None, "") else 0.0 if resource else None
        accelerators = None if accelerators is None or asked is None else accelerators + asked
        position = whole(row, "Position")
        if workload_type == JOBS and text(row, "QuotaId") == quota_id and position is not None:
            places.append(QueuePlace(text(row, "WorkloadId"), position))
    return Queue(by_type, accelerators, tuple(places))


def node(row: Row, quota_id: str) -> Node | None:
    """A row of ListNodes. What is requested of a node is what the workloads on it hold, not what they use."""
    name = text(row, "NodeName")
    if not name:
        return None
    model = text(row, "GPUType")
    return Node(
        pool_id=quota_id,
        node_name=name,
        node_type=text(row, "NodeType"),
        status=POOL_STATUS.get(text(row, "NodeStatus"), PoolStatus.UNKNOWN),
        capacity_cpu_cores=quantity(row, "CPU"),
        capacity_memory_bytes=_node_memory(row, "Memory"),
        capacity_accelerators=gpus(quantity(row, "GPU"), model),
        allocated_cpu_cores=quantity(row, "RequestCPU"),
        allocated_memory_bytes=_node_memory(row, "RequestMemory"),
        allocated_accelerators=gpus(quantity(row, "RequestGPU"), model),
    )


def gpus(count: float | None, model: str) -> tuple[Accelerators, ...]:
    """PAI knows GPUs only: other accelerators would come under GPU, too, with a GPUType of their own."""
    return () if count is None else (Accelerators("gpu", model, count),)


def _node_memory(row: Row, key: str) -> float | None:
    bare = number(row, key)
    return quantity(row, key) if bare is None else bare * GIB
