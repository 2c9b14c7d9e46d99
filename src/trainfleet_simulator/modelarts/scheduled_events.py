"""Simulated announcements of maintenance of nodes, as the vendor's SDK describes them (ListScheduledEvents)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainfleet_simulator.exchange import Answer, Call, utc_text
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.common import workspace_of
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import DAY, HOUR
from trainfleet_simulator.world.pools import Pool


@dataclass(frozen=True, slots=True)
class Announcement:
    """Maintenance of one node of a pool, by its place. Times are in seconds after the world's start; negative ones are
    before it.

    Without `lasts`, the maintenance does not begin until a user agrees.
    """

    event_id: str
    pool_id: str
    place: int
    catalog: str
    type: str
    published: int
    begins: int | None
    lasts: int | None
    end: str = "completed"


ANNOUNCED = (
    Announcement("event-reboot-1", catalog.ASCEND, 0, "software", "node_reboot", -2 * DAY, 6 * HOUR, 1800),
    Announcement("event-disk-2", catalog.ASCEND, 1, "hardware", "localdisk-recovery", -HOUR, None, None),
    Announcement("event-redeploy-3", catalog.ASCEND, 2, "hardware", "node_redeploy", -9 * DAY, -8 * DAY, HOUR),
    Announcement("event-old-4", catalog.ASCEND, 3, "software", "node_reboot", -9 * DAY, -8 * DAY, HOUR, "canceled"),
    Announcement("event-system-5", catalog.GPU, 1, "software", "system-maintenance", -3 * HOUR, -2 * HOUR, 9 * HOUR),
)


def list_events(call: Call) -> Answer:
    """GET /v1/{project_id}/scheduled-events: of one workspace, ended ones included. `offset` counts records."""
    world = call.world
    workspace = workspace_of(world, call.text("workspaceId"))
    offset, limit = call.whole("offset", 0, 0, 1_000_000_000), call.whole("limit", 100, 1, 100)
    rows = [_row(world, one) for one in ANNOUNCED if workspace in world.pools[one.pool_id].spec.workspaces]
    return Answer({"events": rows[offset : offset + limit], "count": len(rows)})


def _row(world: World, one: Announcement) -> dict[str, Any]:
    pool, start = world.pools[one.pool_id], world.started
    row: dict[str, Any] = {
        "id": one.event_id,
        "catalog": one.catalog,
        "type": one.type,
        "description": f"Planned by the cloud: {one.type}.",
        "state": _state(one, world.now - start),
        "instanceType": "standard",
        "instanceId": f"server-{one.event_id}",
        "nodeName": _node(pool, one.place),
        "poolName": one.pool_id,
        "poolDisplayName": pool.spec.name,
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


def _state(one: Announcement, elapsed: int) -> str:
    if one.begins is None or one.lasts is None:
        return "inquiring"
    if elapsed < one.begins:
        return "scheduled"
    return "executing" if elapsed < one.begins + one.lasts else one.end


def _node(pool: Pool, place: int) -> str:
    names = list(pool.nodes)
    return names[place % len(names)]
