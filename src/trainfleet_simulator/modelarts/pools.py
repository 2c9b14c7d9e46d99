"""The simulated dedicated pools: their list, allocation and nodes, and announcements of maintenance of nodes.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListPools.html and related pages.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from trainfleet_simulator.exchange import Answer, Call, utc_text
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.catalog import refused, workspace_of
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import DAY, HOUR, Amount
from trainfleet_simulator.world.pools import Pool

_QUERY_STATUS = {"Running": "created", "Abnormal": "created", "Creating": "creating", "CreationFailed": "failed"}
_ASKED_NODES = 2  # the ordered nodes of a pool that has none yet


def pool_of(call: Call) -> Pool:
    """Return the pool in the path."""
    pool = call.world.pools.get(call.ids[0])
    if pool is None or not call.world.offers(pool):
        raise refused("50015001", f"Pool {call.ids[0]} not found.", 404)
    return pool


def list_pools(call: Call) -> Answer:
    """GET /v2/{project_id}/pools: every pool of one workspace, unpaged."""
    status = call.choice("status", ("created", "failed", "creating"))
    workspace = workspace_of(call.world, call.text("workspaceId"))
    rows = [
        _row(call.world, pool)
        for pool in call.world.pools.values()
        if workspace in pool.spec.workspaces and status in {"", _QUERY_STATUS[pool.spec.status]}
    ]
    return Answer({"kind": "PoolList", "apiVersion": "v2", "items": rows})


def _row(world: World, pool: Pool) -> dict[str, Any]:
    spec = pool.spec
    family = list(world.family(spec.pool_id))
    broken = sum(catalog.ABNORMAL_NODES.get(one.spec.pool_id, 0) for one in family)
    nodes = sum(len(one.nodes) for one in family)
    bound = nodes + broken or _ASKED_NODES
    flavor, states = spec.node_type.name, {"available": nodes, "abnormal": broken}
    if spec.status == "Creating":
        states["creating"] = _ASKED_NODES
    labels = {
        "os.modelarts/name": spec.name,
        "os.modelarts/workspace.id": spec.workspaces[0],
    }
    return {
        "kind": "Pool",
        "apiVersion": "v2",
        "metadata": {
            "name": spec.pool_id,
            "creationTimestamp": utc_text(world.started - (2 * 3600 if not pool.nodes else 90 * DAY)),
            "labels": labels,
            "annotations": {"os.modelarts/billing.mode": "0"},
        },
        "spec": {
            "type": spec.resource_type,
            "scope": ["Train", "Infer", "Notebook"],
            "resources": [{"flavor": flavor, "count": bound, "maxCount": bound}],
        },
        "status": {
            "phase": spec.status,
            "root": spec.parent or spec.pool_id,
            **({"parent": spec.parent} if spec.parent else {}),
            "scope": [{"scopeType": "Train", "state": "Enabled"}],
            # A state without a node is left out.
            "resources": {
                state: [{"flavor": flavor, "count": count, "azs": [{"az": "cn-north-4a", "count": count}]}]
                for state, count in states.items()
                if count
            },
        },
    }


def show_metrics(call: Call) -> Answer:
    """GET /v2/{project_id}/metrics/runtime/pools: the allocation of every pool, including its children's."""
    world = call.world
    stamp = {"timestamp": utc_text(world.present - 20), "window": "1m"}
    items = []
    for pool_id, pool in world.pools.items():
        if not pool.nodes or not world.offers(pool):
            continue
        capacity = _quantities(pool, world.amount(pool_id, lambda one: one.actual))
        allocated = _quantities(pool, world.amount(pool_id, lambda one: one.allocated))
        table = {
            "allocated": {"value": allocated, **stamp},
            "capacity": {"value": capacity, "maxValue": capacity, **stamp},
        }
        items.append({"metadata": {"name": pool_id, "labels": {}}, "table": table})
    return Answer({"apiVersion": "v2", "kind": "PoolMetricsList", "items": items})


def _quantities(pool: Pool, amount: Amount) -> dict[str, Any]:
    """Return Kubernetes quantities. Each pool is in another cluster, and each cluster writes them differently."""
    device = catalog.DEVICE_KEYS[pool.spec.card_type]
    match pool.spec.pool_id:
        case catalog.ASCEND:
            return {"cpu": str(amount.cpu), "memory": f"{amount.memory}Mi", device: amount.cards}
        case catalog.ASCEND_TEAM:
            return {"cpu": f"{amount.cpu * 1000}m", "memory": f"{amount.memory * 1024}Ki", device: str(amount.cards)}
        case _:
            return {"cpu": amount.cpu, "memory": amount.memory * 2**20, device: str(amount.cards)}


def list_pool_nodes(call: Call) -> Answer:
    """GET /v2/{project_id}/pools/{pool_name}/nodes: the pool's own nodes, paged by a token."""
    pool = pool_of(call)
    limit = call.whole("limit", 500, 0, 500) or 500
    start = _place(call.text("continue"))
    kind, device = pool.spec.node_type, catalog.NODE_DEVICE_KEYS[pool.spec.card_type]

    def resources(amount: Amount) -> dict[str, str]:
        return {"cpu": f"{amount.cpu * 1000}m", "memory": f"{amount.memory}Mi", device: str(amount.cards)}

    nodes = [(name, host_ip(pool, name), "Available", node.free) for name, node in pool.nodes.items()]
    broken = catalog.ABNORMAL_NODES.get(pool.spec.pool_id, 0)
    nodes += [(f"{kind.prefix}-broken-{place}", f"10.9.{place}.1", "Abnormal", Amount()) for place in range(broken)]
    page = nodes[start : start + limit]
    items = [
        {
            "kind": "Node",
            "apiVersion": "v2",
            "metadata": {"name": name, "creationTimestamp": utc_text(call.world.started - 90 * DAY)},
            "spec": {"flavor": kind.name},
            "status": {
                "phase": phase,
                "az": "cn-north-4a",
                "privateIp": address,
                "resources": resources(kind.whole),
                "availableResources": resources(free),
            },
        }
        for name, address, phase, free in page
    ]
    left = len(nodes) - start - len(page)
    token = base64.urlsafe_b64encode(f"node {start + limit}".encode()).decode()
    metadata = {"continue": token, "remainingItemCount": left} if left > 0 else {}
    return Answer({"kind": "NodeList", "apiVersion": "v2", "metadata": metadata, "items": items})


def _place(token: str) -> int:
    if not token:
        return 0
    try:
        return int(base64.urlsafe_b64decode(token.encode()).decode().removeprefix("node "))
    except ValueError:
        raise refused("50004000", "The parameter continue is not a token of this list.") from None


def host_ip(pool: Pool, node: str) -> str:
    """Return the private address of one of the pool's nodes."""
    return f"{pool.nodes[node].ip_prefix}.1"


@dataclass(frozen=True, slots=True)
class Announcement:
    """Maintenance of one node of a pool, by its place. Times are in seconds after the world's start; negative ones are
    before it.

    Without `lasts`, the maintenance does not begin until a user agrees.
    """

    event_id: str
    pool_id: str
    place: int
    type: str
    published: int
    begins: int | None
    lasts: int | None
    end: str = "completed"


ANNOUNCED = (
    Announcement("event-reboot-1", catalog.ASCEND, 0, "node_reboot", -2 * DAY, 6 * HOUR, 1800),
    Announcement("event-disk-2", catalog.ASCEND, 1, "localdisk-recovery", -HOUR, None, None),
    Announcement("event-redeploy-3", catalog.ASCEND, 2, "node_redeploy", -9 * DAY, -8 * DAY, HOUR),
    Announcement("event-old-4", catalog.ASCEND, 3, "node_reboot", -9 * DAY, -8 * DAY, HOUR, "canceled"),
    Announcement("event-system-5", catalog.GPU, 1, "system-maintenance", -3 * HOUR, -2 * HOUR, 9 * HOUR),
)


def list_events(call: Call) -> Answer:
    """GET /v1/{project_id}/scheduled-events: of one workspace, ended ones included. `offset` counts records."""
    world = call.world
    workspace = workspace_of(world, call.text("workspaceId"))
    offset, limit = call.whole("offset", 0, 0, 1_000_000_000), call.whole("limit", 100, 1, 100)
    rows = [_event(world, one) for one in ANNOUNCED if workspace in world.pools[one.pool_id].spec.workspaces]
    return Answer({"events": rows[offset : offset + limit], "count": len(rows)})


def _event(world: World, one: Announcement) -> dict[str, Any]:
    pool, start = world.pools[one.pool_id], world.started
    row: dict[str, Any] = {
        "id": one.event_id,
        "type": one.type,
        "description": f"Planned by the cloud: {one.type}.",
        "state": _event_state(one, world.now - start),
        "nodeName": list(pool.nodes)[one.place % len(pool.nodes)],
        "poolName": one.pool_id,
        "publishTime": utc_text(start + one.published),
    }
    if one.begins is None:
        return row
    row["notBefore"] = utc_text(start + one.begins)
    if row["state"] not in {"scheduled", "canceled"}:
        row["startTime"] = row["notBefore"]
    if row["state"] == "completed" and one.lasts is not None:
        row["finishTime"] = utc_text(start + one.begins + one.lasts)
    return row


def _event_state(one: Announcement, elapsed: int) -> str:
    if one.begins is None or one.lasts is None:
        return "inquiring"
    if elapsed < one.begins:
        return "scheduled"
    return "executing" if elapsed < one.begins + one.lasts else one.end
