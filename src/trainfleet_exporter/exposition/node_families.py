"""Families of a node of a pool: what it is, what it has, and what of it is asked for."""

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
from trainfleet_exporter.model import Node

_NODES = "PAI PaiStudio ListNodes, Nodes[]"
_ITEMS = "ModelArts pools/{pool}/nodes, items[]"
_HELD = " held by placed workloads, as they requested it"


def _node(suffix: str, meaning: str, field: str, item: str, *, read: Read, labels: tuple[str, ...] = ()) -> Family:
    """`field` is of PAI, `item` of ModelArts."""
    help_text = described(meaning, f"{_NODES}.{field}", f"{_ITEMS}.{item}")
    return Family(f"trainfleet_node_{suffix}", help_text, "gauge", Node, labels, read)


def _capacity(suffix: str, what: str, field: str, read: Read, labels: tuple[str, ...] = ()) -> Family:
    return _node(f"capacity_{suffix}", f"{what} of a node", field, "status.resources", read=read, labels=labels)


def _allocated(suffix: str, what: str, field: str, read: Read, labels: tuple[str, ...] = ()) -> Family:
    item = "status.resources less status.availableResources"
    return _node(f"allocated_{suffix}", f"{what} of a node{_HELD}", field, item, read=read, labels=labels)


NODE_FAMILIES = (
    _node(
        "info",
        "What a node of a pool is, always 1",
        "NodeType",
        "spec.flavor, status.privateIp",
        read=info("node_type", "node_ip"),
        labels=("node_type", "node_ip"),
    ),
    _node(
        "status",
        "1 for the present status of a node",
        "NodeStatus",
        "status.phase",
        read=word("status"),
        labels=("status",),
    ),
    _capacity("cpu_cores", "CPU cores", "CPU", number("capacity_cpu_cores")),
    _capacity("memory_bytes", "Memory", "Memory", number("capacity_memory_bytes")),
    _allocated("cpu_cores", "CPU cores", "RequestCPU", number("allocated_cpu_cores")),
    _allocated("memory_bytes", "Memory", "RequestMemory", number("allocated_memory_bytes")),
    _capacity(
        "accelerators", "Accelerators", "GPU and GPUType", accelerators("capacity_accelerators"), ACCELERATOR_LABELS
    ),
    _allocated(
        "accelerators",
        "Accelerators",
        "RequestGPU and GPUType",
        accelerators("allocated_accelerators"),
        ACCELERATOR_LABELS,
    ),
)
