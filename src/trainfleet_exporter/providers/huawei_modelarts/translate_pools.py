"""From ModelArts' answers about single pools to the model: nodes, queue, and the project's quota. Pure.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListPoolNodes.html and its sister pages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from trainfleet_exporter.model import (
    Accelerator,
    Accelerators,
    MaintenanceState,
    Node,
    NodeMaintenance,
    PoolQueue,
    PoolStatus,
    PoolUser,
    ProviderQuota,
    QueuePlace,
)
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.translate import accelerator_kind, devices
from trainfleet_exporter.providers.jobs.history import checked_code
from trainfleet_exporter.providers.values import POOL_STATUS, amount, quantity, utc_time, whole
from trainfleet_exporter.transport.json_fields import unusable

_KINDS = {"train": "training", "notebook": "notebook", "infer": "service", "x-infer": "service"}
_UNIT = re.compile(r"(?<=[0-9])\s*(?:cores?|cards?|units?)\s*\Z", re.ASCII | re.IGNORECASE)


def node(pool_id: str, row: payloads.Node) -> Node | None:
    """A row of a pool's nodes. What is not available is allocated."""
    if row.metadata is None or not row.metadata.name:
        return None
    state = row.status or payloads.NodeStatus()
    capacity, free = state.resources or {}, state.available_resources or {}
    cpu, memory, cards = quantity(capacity.get("cpu")), quantity(capacity.get("memory")), devices(capacity)
    taken = [(card, _taken(card.count, free.get(card.model))) for card in cards]
    return Node(
        pool_id=pool_id,
        node_name=row.metadata.name,
        node_type=(row.spec and row.spec.flavor) or "",
        node_ip=state.private_ip or "",
        status=POOL_STATUS.get(state.phase or "", PoolStatus.UNKNOWN),
        capacity_cpu_cores=cpu,
        capacity_memory_bytes=memory,
        capacity_accelerators=cards,
        allocated_cpu_cores=_taken(cpu, free.get("cpu")),
        allocated_memory_bytes=_taken(memory, free.get("memory")),
        allocated_accelerators=tuple(
            Accelerators(card.kind, card.model, count) for card, count in taken if count is not None
        ),
    )


MAINTENANCE_STATE = {
    "inquiring": MaintenanceState.INQUIRING,
    "scheduled": MaintenanceState.SCHEDULED,
    "executing": MaintenanceState.EXECUTING,
}
MAINTENANCE_ENDED = frozenset({"completed", "failed", "canceled"})


def maintenance(row: payloads.ScheduledEvent) -> NodeMaintenance | None:
    """A row of the announced work on nodes; None if the work has ended or the row does not name it.

    Work without a planned time begins when it starts, or else when it was announced.
    """
    if not row.id or row.state in MAINTENANCE_ENDED:
        return None
    return NodeMaintenance(
        pool_id=row.pool_name or "",
        node_name=row.node_name or "",
        event_id=row.id,
        kind=checked_code(row.type),
        state=MAINTENANCE_STATE.get(row.state or "", MaintenanceState.UNKNOWN),
        begins=utc_time(row.not_before or row.start_time or row.publish_time),
    )


def queue_places(rows: Iterable[payloads.Workload], jobs: Collection[str]) -> list[QueuePlace]:
    """The places of `jobs` in a pool's queue, given all of its rows.

    Whether the first is 0 or 1 is documented nowhere: it is taken for 1, unless some row has a 0.
    """
    given = [(row.job_uuid or "", whole(row.pending_position)) for row in rows]  # -1, "none", is no whole number
    places = {job_id: position for job_id, position in given if job_id and position is not None}
    first = min((position for _, position in given if position is not None), default=1)
    shift = 1 if first == 0 else 0
    return [QueuePlace(job_id, position + shift) for job_id, position in places.items() if job_id in jobs]


def pool_queue(
    pool_id: str, rows: Sequence[payloads.Workload], kinds: Collection[Accelerator], *, unreadable: int = 0
) -> PoolQueue:
    """Return the sum of the requests in a pool's queue; 0 for `kinds` of the pool that no row requests.

    If one row's amount of a kind cannot be read, that kind is left out, because the sum would be too low. All kinds are
    left out if a row has no request, or if rows were `unreadable` as a whole.
    """
    if unreadable or not all(row.resource_requirement for row in rows):
        return PoolQueue(pool_id, ())
    counts: dict[Accelerator, float] = dict.fromkeys(sorted(kinds), 0.0)
    unknown: set[Accelerator] = set()
    for row in rows:
        for key, given in (row.resource_requirement or {}).items():
            kind = accelerator_kind(key)
            if kind is None:
                continue
            count = _amount(given)
            if count is None:
                unknown.add(kind)
            else:
                counts[kind] = counts.get(kind, 0.0) + count
    return PoolQueue(
        pool_id, tuple(Accelerators(kind, "", count) for kind, count in counts.items() if kind not in unknown)
    )


def users(pool_id: str, rows: Iterable[payloads.Workload]) -> list[PoolUser]:
    """Return the number of accelerators of a pool that each user holds, by type of workload, from the running
    workloads.

    The rows have names of users, but no user ids. A row with unreadable amounts adds nothing, and counts as malformed.
    """
    held: defaultdict[tuple[str, str, Accelerator], float] = defaultdict(float)
    for row in rows:
        if not row.resource_requirement:
            unusable(row.resource_requirement, "no_data")
        for key, given in (row.resource_requirement or {}).items():
            kind = accelerator_kind(key)
            count = None if kind is None else _amount(given)
            if kind is not None and count:
                held[row.user_name or "", _KINDS.get(row.type or "", row.type or ""), kind] += count
    found: dict[tuple[str, str], list[Accelerators]] = {}
    for (user, work, kind), count in held.items():
        found.setdefault((user, work), []).append(Accelerators(kind, "", count))
    return [PoolUser(pool_id, "", user, work, tuple(counts)) for (user, work), counts in found.items()]


def training_quota(answer: payloads.TrainingQuotas) -> ProviderQuota | None:
    """The quota of training jobs; None if the answer does not have it. -1 is "no limit", of which there is none."""
    for row in answer.quotas or ():
        if row.resource == "job-num":
            return ProviderQuota(limit=whole(row.quota), used=whole(row.used))
    return None


def _taken(capacity: float | None, free: str | float | None) -> float | None:
    left = quantity(free)
    return None if capacity is None or left is None else max(0.0, capacity - left)


def _amount(value: str | float | None) -> float | None:
    """A number with or without its unit: `16`, `"16"`, `"2 Cores"`."""
    return quantity(_UNIT.sub("", value)) if isinstance(value, str) else amount(value)
