"""The simulated PaiStudio service (version 2022-01-12): resource quotas. Every amount is text."""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.pai.catalog import WORKSPACES
from trainfleet_simulator.pai.dlc_rows import memory_text
from trainfleet_simulator.pai.parameters import (
    Call,
    bool_of,
    iso,
    list_answer,
    page_of,
)
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import DAY, PoolSpec
from trainfleet_simulator.world.pools import Amount, Pool

_MEMBER = {workspace.workspace_id: workspace.name for workspace in WORKSPACES if workspace.member}
VISIBLE = tuple(_MEMBER)
"""The ids of the workspaces that the identity is a member of."""


def list_quotas(call: Call) -> Answer:
    """GET /api/v1/quotas/: the quotas of the workspaces that the identity is a member of."""
    world, verbose = call.world, bool_of(call.query, "Verbose")
    offset, size = page_of(call.query, 10)
    found = [quota for quota in world.pools.values() if visible(world, quota)]
    rows = [_row(world, quota, verbose=verbose) for quota in found[offset : offset + size]]
    return list_answer("Quotas", rows, len(found), ("QuotaId", "Status", "QuotaDetails"))


def quota_of(call: Call, quota_id: str = "") -> Pool:
    """Return the quota with this id, or the one in the path. Raises ApiError if it is not visible."""
    quota_id = quota_id or call.ids[0]
    quota = call.world.pools.get(quota_id)
    if quota is None or not visible(call.world, quota):
        raise ApiError(404, "NotFound", f"The quota {quota_id} is not found.")
    return quota


def resource_group(spec: PoolSpec) -> str:
    """Return the id of the resource group of a quota's nodes."""
    return f"lingjsim{spec.pool_id[-6:]}" if spec.resource_type == "Lingjun" else "rgsimgeneral"


def visible(world: World, quota: Pool) -> bool:
    """Return whether the identity is a member of one of its workspaces."""
    return not (_MEMBER.keys() - world.hidden).isdisjoint(quota.spec.workspaces)


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
            {"WorkspaceId": w, "WorkspaceName": _MEMBER[w]}
            for w in spec.workspaces
            if w in _MEMBER and w not in world.hidden
        ],
        "ResourceGroupIds": [resource_group(spec)],
        "Min": {"NodeSpecs": [{"Type": spec.node_type.name, "Count": nodes}]},
        "QueueStrategy": "PaiStrategyStrictFIFO",
        "QuotaConfig": {"WorkloadTypes": ["DLC", "DSW", "EAS", "TENSORBOARD"]},
        "Version": "v1",
        "GmtCreatedTime": iso(world.started - 90 * DAY),
        "QuotaDetails": _details(world, quota, verbose=verbose),
    }


def _details(world: World, quota: Pool, *, verbose: bool) -> dict[str, Any]:
    spec = quota.spec
    family = list(world.family(spec.pool_id))

    def amount(value: Amount, *, with_type: bool = False) -> dict[str, str]:
        shown = {
            "CPU": str(value.cpu),
            "GPU": str(value.cards),
            "GPUMemory": f"{value.cards * spec.node_type.card_memory}Gi",
            "Memory": "0" if not value.memory else memory_text(value.memory),
        }
        return shown | {"GPUType": spec.card_type} if with_type else shown

    def whole(what: str) -> Amount:
        return world.amount(spec.pool_id, lambda q: getattr(q, what))

    actual, allocated, queued = whole("actual"), whole("allocated"), whole("queued")
    # The pool that is being created was ordered with two nodes and has none yet.
    asked = (
        actual if family[0].nodes else Amount(spec.node_type.cpu, spec.node_type.memory, spec.node_type.cards).times(2)
    )
    in_mib = amount(allocated) | ({"Memory": f"{allocated.memory}Mi"} if allocated.memory else {})
    details: dict[str, Any] = {
        "DesiredMinQuota": amount(asked, with_type=True),
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
