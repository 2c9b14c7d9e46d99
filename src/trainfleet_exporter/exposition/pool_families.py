"""Families of a pool. A parent's figures include its children's."""

from __future__ import annotations

from trainfleet_exporter.exposition.family import (
    ACCELERATOR_LABELS,
    Family,
    Read,
    accelerators,
    described,
    info,
    number,
    word,
)
from trainfleet_exporter.model import Pool

_DETAILS = "QuotaDetails"


def _pool(suffix: str, meaning: str, fields: str, read: Read, labels: tuple[str, ...] = ()) -> Family:
    help_text = described(meaning, f"PAI PaiStudio ListQuotas, Quotas[].{fields}")
    return Family(f"trainfleet_pool_{suffix}", help_text, "gauge", Pool, labels, read)


POOL_FAMILIES = (
    _pool(
        "info",
        "What a pool is, always 1; to sum over pools take those whose parent_pool_id is empty",
        "QuotaName, ResourceType, ParentQuotaId",
        info("name", "resource_type", "parent_pool_id"),
        ("pool_name", "resource_type", "parent_pool_id"),
    ),
    _pool("status", "1 for the present status of a pool", "Status", word("status"), ("status",)),
    _pool(
        "allocated_nodes",
        "Nodes of a pool on which workloads are placed",
        f"{_DETAILS}.NodeStatistics.AllocatedNodeNum",
        number("allocated_nodes"),
    ),
    _pool(
        "empty_nodes",
        "Nodes of a pool on which nothing is placed",
        f"{_DETAILS}.NodeStatistics.EmptyNodeNum",
        number("empty_nodes"),
    ),
    _pool(
        "capacity_cpu_cores",
        "CPU cores of a pool",
        f"{_DETAILS}.ActualMinQuota.CPU",
        number("capacity_cpu_cores"),
    ),
    _pool(
        "capacity_memory_bytes",
        "Memory of a pool",
        f"{_DETAILS}.ActualMinQuota.Memory",
        number("capacity_memory_bytes"),
    ),
    _pool(
        "allocated_cpu_cores",
        "CPU cores of a pool held by placed workloads",
        f"{_DETAILS}.AllocatedQuota.CPU",
        number("allocated_cpu_cores"),
    ),
    _pool(
        "allocated_memory_bytes",
        "Memory of a pool held by placed workloads",
        f"{_DETAILS}.AllocatedQuota.Memory",
        number("allocated_memory_bytes"),
    ),
    _pool(
        "capacity_accelerators",
        "Accelerators of a pool",
        f"{_DETAILS}.ActualMinQuota.GPU and GPUType",
        accelerators("capacity_accelerators"),
        ACCELERATOR_LABELS,
    ),
    _pool(
        "allocated_accelerators",
        "Accelerators of a pool held by placed workloads",
        f"{_DETAILS}.AllocatedQuota.GPU and GPUType",
        accelerators("allocated_accelerators"),
        ACCELERATOR_LABELS,
    ),
)
