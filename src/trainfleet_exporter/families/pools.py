"""Families of a pool and its nodes: what they are, what they have, and what of it is taken.

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
from trainfleet_exporter.model import Node, Pool, PoolAmounts, PoolQueue, PoolWorkloads


def _workloads(found: PoolWorkloads) -> Samples:
    return (((found.workload_type, found.status, found.platform_status), found.count),)


def _pool(suffix: str, meaning: str, read: Read, labels: tuple[str, ...] = (), *, of: type = Pool) -> MetricFamily:
    return MetricFamily(f"trainfleet_pool_{suffix}", meaning, "gauge", of, labels, read)


def _node(suffix: str, meaning: str, read: Read, labels: tuple[str, ...] = ()) -> MetricFamily:
    return MetricFamily(f"trainfleet_node_{suffix}", meaning, "gauge", Node, labels, read)


def _pool_amounts(which: str, held: str = "") -> tuple[MetricFamily, ...]:
    """CPU, memory and accelerators of a pool; `which` is capacity or allocated."""
    return (
        _pool(f"{which}_cpu_cores", f"CPU cores of a pool{held}.", number(f"{which}_cpu_cores"), of=PoolAmounts),
        _pool(f"{which}_memory_bytes", f"Memory of a pool{held}.", number(f"{which}_memory_bytes"), of=PoolAmounts),
        _pool(
            f"{which}_accelerators",
            f"Accelerators of a pool{held}.",
            accelerators(f"{which}_accelerators"),
            ACCELERATOR_LABELS,
            of=PoolAmounts,
        ),
    )


def _node_amounts(which: str, held: str = "") -> tuple[MetricFamily, ...]:
    """The same of a node."""
    return (
        _node(f"{which}_cpu_cores", f"CPU cores of a node{held}.", number(f"{which}_cpu_cores")),
        _node(f"{which}_memory_bytes", f"Memory of a node{held}.", number(f"{which}_memory_bytes")),
        _node(
            f"{which}_accelerators",
            f"Accelerators of a node{held}.",
            accelerators(f"{which}_accelerators"),
            ACCELERATOR_LABELS,
        ),
    )


_POOL_HAS = _pool_amounts("capacity")
_POOL_HELD = _pool_amounts("allocated", " held by placed workloads")
_NODE_HAS = _node_amounts("capacity")
_NODE_HELD = _node_amounts("allocated", " held by placed workloads, as they requested it")

POOL_FAMILIES = (
    _pool(
        "info",
        "What a pool is, always 1; to sum over pools take those whose parent_pool_id is empty.",
        info("name", "resource_type", "parent_pool_id"),
        ("pool_name", "resource_type", "parent_pool_id"),
    ),
    _pool("status", "1 for the present status of a pool.", word("status"), ("status",)),
    _pool(
        "nodes",
        "Nodes of a pool by condition; available ones are healthy, not free.",
        amounts("nodes", "status"),
        ("status",),
    ),
    _pool("allocated_nodes", "Nodes of a pool on which workloads are placed.", number("allocated_nodes")),
    _pool("empty_nodes", "Nodes of a pool on which nothing is placed.", number("empty_nodes")),
    _pool(
        "queued_accelerators",
        "Accelerators that workloads in the queue of a pool ask for: submitted and not placed.",
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
        "Workloads of a pool by type and status.",
        _workloads,
        ("workload_type", "status", "platform_status"),
        of=PoolWorkloads,
    ),
)

NODE_FAMILIES = (
    _node(
        "info",
        "What a node of a pool is, always 1.",
        info("node_type", "node_ip"),
        ("node_type", "node_ip"),
    ),
    _node("status", "1 for the present status of a node.", word("status"), ("status",)),
    *_NODE_HAS[:2],
    *_NODE_HELD[:2],
    *_NODE_HAS[2:],
    *_NODE_HELD[2:],
)
