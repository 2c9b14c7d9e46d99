"""Families of a pool. A parent's figures include its children's."""

from __future__ import annotations

from trainfleet_exporter.exposition.family import (
    ACCELERATOR_LABELS,
    Family,
    Read,
    accelerators,
    amounts,
    described,
    info,
    number,
    word,
)
from trainfleet_exporter.model import Pool, PoolAmounts, PoolQueue, PoolWorkloads

_QUOTAS = "PAI PaiStudio ListQuotas, Quotas[]"
_DETAILS = f"{_QUOTAS}.QuotaDetails"
_POOLS = "ModelArts pools, items[]"
_RUNTIME = "ModelArts metrics/runtime/pools, items[].table"


def _pool(suffix: str, meaning: str, *sources: str, read: Read, labels: tuple[str, ...] = ()) -> Family:
    return Family(f"trainfleet_pool_{suffix}", described(meaning, *sources), "gauge", Pool, labels, read)


def _amount(which: str, what: str, quota: str) -> tuple[Family, ...]:
    """CPU, memory and accelerators of a pool; `which` is capacity or allocated."""

    def family(suffix: str, of: str, field: str, read: Read, labels: tuple[str, ...] = ()) -> Family:
        help_text = described(f"{of} of a pool{what}", f"{_DETAILS}.{quota}.{field}", f"{_RUNTIME}.{which}.value")
        return Family(f"trainfleet_pool_{which}_{suffix}", help_text, "gauge", PoolAmounts, labels, read)

    return (
        family("cpu_cores", "CPU cores", "CPU", number(f"{which}_cpu_cores")),
        family("memory_bytes", "Memory", "Memory", number(f"{which}_memory_bytes")),
        family(
            "accelerators",
            "Accelerators",
            "GPU and GPUType",
            accelerators(f"{which}_accelerators"),
            ACCELERATOR_LABELS,
        ),
    )


_CAPACITY = _amount("capacity", "", "ActualMinQuota")
_ALLOCATED = _amount("allocated", " held by placed workloads", "AllocatedQuota (or UsedQuota)")

POOL_FAMILIES = (
    _pool(
        "info",
        "What a pool is, always 1; to sum over pools take those whose parent_pool_id is empty",
        f"{_QUOTAS}.QuotaName, ResourceType, ParentQuotaId",
        f"{_POOLS}.metadata.labels, spec.type, status.parent",
        read=info("name", "resource_type", "parent_pool_id"),
        labels=("pool_name", "resource_type", "parent_pool_id"),
    ),
    _pool(
        "status",
        "1 for the present status of a pool",
        f"{_QUOTAS}.Status",
        f"{_POOLS}.status.phase",
        read=word("status"),
        labels=("status",),
    ),
    _pool(
        "nodes",
        "Nodes of a pool by condition; available ones are healthy, not free",
        f"{_POOLS}.status.resources",
        read=amounts("nodes", "status"),
        labels=("status",),
    ),
    _pool(
        "allocated_nodes",
        "Nodes of a pool on which workloads are placed",
        f"{_DETAILS}.NodeStatistics.AllocatedNodeNum",
        read=number("allocated_nodes"),
    ),
    _pool(
        "empty_nodes",
        "Nodes of a pool on which nothing is placed",
        f"{_DETAILS}.NodeStatistics.EmptyNodeNum",
        read=number("empty_nodes"),
    ),
    Family(
        name="trainfleet_pool_queued_accelerators",
        help=described(
            "Accelerators that workloads in the queue of a pool ask for: submitted and not placed",
            "PAI PaiStudio ListQuotaWorkloads, Workloads[].Resource.GPU where Status is Enqueued",
            "ModelArts pools/{pool}/workloads, items[].resourceRequirement where status is Queue",
            experimental="how the platforms count what waits is unproven",
        ),
        kind="gauge",
        of=PoolQueue,
        labels=("accelerator",),
        read=amounts("accelerators", "kind"),
    ),
    *_CAPACITY[:2],
    *_ALLOCATED[:2],
    *_CAPACITY[2:],
    *_ALLOCATED[2:],
    Family(
        name="trainfleet_pool_workloads",
        help=described(
            "Workloads of a pool by type and status",
            "PAI PaiStudio ListQuotaWorkloads, TotalCount",
            "ModelArts statistics/pools/{pool}/workloads, statistics.items[].status",
        ),
        kind="gauge",
        of=PoolWorkloads,
        labels=("workload_type", "status", "platform_status"),
        read=lambda found: (((found.workload_type, found.status, found.platform_status), found.count),),
    ),
)
