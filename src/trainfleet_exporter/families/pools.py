"""Families of a pool and its nodes: names, statuses, capacity, and what workloads hold.

A parent pool's figures include its children's.
"""

from __future__ import annotations

from trainfleet_exporter.families.family import (
    ACCELERATOR_LABELS,
    MetricFamily,
    Read,
    Samples,
    accelerators,
    amounts,
    info,
    number,
    word,
)
from trainfleet_exporter.model import Node, NodeMaintenance, Pool, PoolAmounts, PoolQueue, PoolUser, PoolWorkloads


def _workloads(found: PoolWorkloads) -> Samples:
    return (((found.workload_type, found.status, found.platform_status), found.count),)


def _maintenance(found: NodeMaintenance) -> Samples:
    return () if found.begins is None else (((found.kind, found.state), found.begins),)


def _pool(suffix: str, meaning: str, read: Read, labels: tuple[str, ...] = (), *, of: type = Pool) -> MetricFamily:
    return MetricFamily(f"trainfleet_pool_{suffix}", meaning, of, read, labels)


def _node(suffix: str, meaning: str, read: Read, labels: tuple[str, ...] = ()) -> MetricFamily:
    return MetricFamily(f"trainfleet_node_{suffix}", meaning, Node, read, labels)


def _pool_amounts(which: str, held: str = "") -> tuple[MetricFamily, ...]:
    """CPU, memory and accelerators of a pool; `which` is capacity or allocated."""
    rest = f" of a pool and its nested pools{held}. Absent if the platform reports none."
    return (
        _pool(f"{which}_cpu_cores", f"CPU cores{rest}", number(f"{which}_cpu_cores"), of=PoolAmounts),
        _pool(f"{which}_memory_bytes", f"Memory in bytes{rest}", number(f"{which}_memory_bytes"), of=PoolAmounts),
        _pool(
            f"{which}_accelerators",
            f"Accelerators{rest}",
            accelerators(f"{which}_accelerators"),
            ACCELERATOR_LABELS,
            of=PoolAmounts,
        ),
    )


def _node_amounts(which: str, held: str = "") -> tuple[MetricFamily, ...]:
    """The same of a node."""
    rest = f" of a node{held}. Absent if the platform reports none."
    return (
        _node(f"{which}_cpu_cores", f"CPU cores{rest}", number(f"{which}_cpu_cores")),
        _node(f"{which}_memory_bytes", f"Memory in bytes{rest}", number(f"{which}_memory_bytes")),
        _node(
            f"{which}_accelerators",
            f"Accelerators{rest}",
            accelerators(f"{which}_accelerators"),
            ACCELERATOR_LABELS,
        ),
    )


_POOL_HAS = _pool_amounts("capacity")
_POOL_HELD = _pool_amounts("allocated", " that workloads hold")
_NODE_HAS = _node_amounts("capacity")
_NODE_HELD = _node_amounts("allocated", " that its workloads request")

POOL_FAMILIES = (
    _pool(
        "info",
        "Name, type and parent of a pool; always 1. In sums, select pools with an empty parent_pool_id.",
        info("name", "resource_type", "parent_pool_id"),
        ("pool_name", "resource_type", "parent_pool_id"),
    ),
    _pool(
        "status",
        "1 for the current status of a pool. Absent for the other statuses.",
        word("status"),
        ("status",),
    ),
    _pool(
        "nodes",
        "Nodes of a pool, by status. Available nodes are healthy, but may be in use.",
        amounts("nodes", "status"),
        ("status",),
    ),
    _pool(
        "allocated_nodes",
        "Nodes of a pool that have workloads. Absent if the platform does not report it.",
        number("allocated_nodes"),
    ),
    _pool(
        "empty_nodes",
        "Nodes of a pool that have no workloads. Absent if the platform does not report it.",
        number("empty_nodes"),
    ),
    _pool(
        "queued_accelerators",
        "Accelerators that queued workloads of a pool request.",
        amounts("accelerators", "kind"),
        ("accelerator",),
        of=PoolQueue,
    ),
    *_POOL_HAS[:2],
    *_POOL_HELD[:2],
    *_POOL_HAS[2:],
    *_POOL_HELD[2:],
    _pool(
        "workloads",
        "Workloads of a pool, by type and status.",
        _workloads,
        ("workload_type", "status", "platform_status"),
        of=PoolWorkloads,
    ),
    _pool(
        "user_accelerators",
        "Accelerators that workloads of a user hold in a pool, without its nested pools.",
        amounts("accelerators", "kind"),
        ("accelerator",),
        of=PoolUser,
    ),
)

NODE_FAMILIES = (
    _node(
        "info",
        "Type and address of a node; always 1.",
        info("node_type", "node_ip"),
        ("node_type", "node_ip"),
    ),
    _node(
        "status",
        "1 for the current status of a node. Absent for the other statuses.",
        word("status"),
        ("status",),
    ),
    _node(
        "status_reason",
        "1 for the platform's reason code of a node that is not ready or takes no workloads. Absent without a reason.",
        word("reason"),
        ("reason",),
    ),
    _node(
        "expiry_timestamp_seconds",
        "Unix time in seconds at which the lease of a node ends. Absent if the platform reports no end.",
        number("expires"),
    ),
    *_NODE_HAS[:2],
    *_NODE_HELD[:2],
    *_NODE_HAS[2:],
    *_NODE_HELD[2:],
    MetricFamily(
        "trainfleet_node_maintenance_timestamp_seconds",
        "Unix time in seconds at which announced maintenance of a node begins. Absent after the maintenance ends.",
        NodeMaintenance,
        _maintenance,
        ("kind", "state"),
    ),
)
