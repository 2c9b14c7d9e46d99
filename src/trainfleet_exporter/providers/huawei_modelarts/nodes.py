"""Nodes of dedicated pools: what they have, the tasks that run on them, and announced work.

Cost of a poll: one call for each 500 nodes of a pool. The nodes of tasks take one search for each ten nodes of a pool
and workspace with jobs in it. Every field may be absent or null.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListPoolNodes.html
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct

from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.lists import Page, distinct, pages_by_token, read_whole_list
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Accelerators, MaintenanceState, Node, NodeMaintenance, PoolStatus
from trainfleet_exporter.polling import FairQueue, Part, Poll
from trainfleet_exporter.providers import values
from trainfleet_exporter.providers.huawei_modelarts.api import Api, segment
from trainfleet_exporter.providers.huawei_modelarts.jobs import JOBS_PAGE, LIVE, Jobs, search_jobs, tasks
from trainfleet_exporter.providers.huawei_modelarts.pools import Amounts, Items, Lists, Object, Pools, devices
from trainfleet_exporter.providers.values import POOL_STATUS, checked_code, quantity, readable, utc_time, whole
from trainfleet_exporter.transport import PAGE

# The answers, with the fields that are read.


class NodeState(Struct, gc=False, rename="camel"):
    """Resources that are not available are allocated."""

    phase: str | None = None
    private_ip: str | None = None
    resources: Amounts | None = None
    available_resources: Amounts | None = None


NodeRow: TypeAlias = Object[NodeState]


class NodesPage(Items[NodeRow], gc=False):
    """`continue` of the metadata is the token for the next page; without it there is none."""

    metadata: dict[str, str | float | None] | None = None


class EventRow(Struct, gc=False, rename="camel"):
    """Work on a node. Times such as `2025-09-15T07:02:30Z`. Without `not_before`, it begins at once."""

    id: str | None = None
    type: str | None = None
    state: str | None = None
    node_name: str | None = None
    pool_name: str | None = None
    publish_time: str | None = None
    start_time: str | None = None
    not_before: str | None = None


class EventsPage(Struct, gc=False):
    count: float | None = None
    events: list[EventRow | None] | None = None


# Words.

MAINTENANCE_STATE = {
    state.value: state for state in (MaintenanceState.INQUIRING, MaintenanceState.SCHEDULED, MaintenanceState.EXECUTING)
}
MAINTENANCE_ENDED = frozenset({"completed", "failed", "canceled"})

# From answers to the model.


def node(pool_id: str, row: NodeRow | None) -> Node | None:
    """A row of a pool's nodes; None without a name. What is not available is allocated."""
    if row is None or row.metadata is None or not row.metadata.name:
        return None
    state = row.status or NodeState()
    capacity, free = state.resources or {}, state.available_resources or {}
    cpu, memory, cards = quantity(capacity.get("cpu")), values.gibibytes(capacity.get("memory")), devices(capacity)
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
        allocated_memory_bytes=_taken(memory, values.gibibytes(free.get("memory"))),
        allocated_accelerators=tuple(
            Accelerators(card.kind, card.model, count) for card, count in taken if count is not None
        ),
    )


def _taken(capacity: float | None, free: str | float | None) -> float | None:
    left = quantity(free)
    return None if capacity is None or left is None else max(0.0, capacity - left)


def maintenance(row: EventRow) -> NodeMaintenance | None:
    """Announced work on a node; None if it has ended.

    Work without a planned time begins when it starts, or else when it was announced.
    """
    if row.state in MAINTENANCE_ENDED:
        return None
    return NodeMaintenance(
        pool_id=row.pool_name or "",
        node_name=row.node_name or "",
        event_id=row.id or "",
        kind=checked_code(row.type),
        state=MAINTENANCE_STATE.get(row.state or "", MaintenanceState.UNKNOWN),
        begins=next(filter(None, map(utc_time, (row.not_before, row.start_time, row.publish_time))), None),
    )


# The collectors.

NODES_PAGE, EVENTS_PAGE = 500, 100
"""Rows of a page."""
NODES_AT_ONCE = 10
"""The number of nodes in one search."""
_MOST_SEARCHES = 100
"""For the nodes of tasks, in one poll. More are made in turn: jobs stay on their nodes unless they start again."""


class Nodes:
    """The collectors of nodes."""

    def __init__(self, api: Api, fleet: Workspaces, jobs: Jobs, pools: Pools, *, has_jobs: bool) -> None:
        self._api, self._fleet, self._jobs, self._pools, self._has_jobs = api, fleet, jobs, pools, has_jobs
        self._turns, self._event_turns = FairQueue(), FairQueue()
        self._events = Lists[NodeMaintenance](attrgetter("event_id"))
        self._names: dict[str, dict[str, str]] = {}
        """By pool and address, the names of its nodes."""
        self._placed: dict[str, tuple[str, str]] = {}
        """By part, the pool and workspace whose tasks it finds."""

    @collector("nodes")
    async def nodes(self, poll: Poll) -> None:
        """A part for each pool; then one for each pool and workspace with jobs in it, to find the nodes of tasks."""
        until = poll.deadline - (0.2 * (poll.deadline - asyncio.get_running_loop().time()) if self._has_jobs else 0.0)
        await self._pools.read_each(poll, "nodes", self._read_nodes, self._placed, until)
        pool_ids = self._pools.listed.value
        self._names = {pool_id: names for pool_id, names in self._names.items() if pool_id in pool_ids}
        if self._has_jobs:
            await self._fleet.wait_briefly(poll.deadline)  # otherwise tasks are found an interval after their jobs
        live, at_once = self._fleet.live.values(), self._fleet.at_once
        jobs = Counter((job.pool_id, job.workspace_id) for job in live if job.pool_id in self._names)
        self._jobs.places = {pair: found for pair, found in self._jobs.places.items() if pair in jobs}
        pairs, calls = {"tasks on {} of workspace {}".format(*pair): pair for pair in sorted(jobs)}, 0.0
        self._placed = {}
        for key in self._turns.order(pairs):
            calls += len(self._names[pairs[key][0]]) / NODES_AT_ONCE + jobs[pairs[key]] / JOBS_PAGE
            if calls <= _MOST_SEARCHES or not self._placed:
                self._placed[key] = pairs[key]
        poll.keep_only([*pool_ids, *self._placed])
        self._turns.was_read(poll.unserved | await poll.read_each(self._placed, self._read_tasks, at_once=at_once))

    def nodes_expired(self, key: str) -> None:
        """Tasks may run elsewhere by now. The addresses of a pool's nodes stay known while their list fails."""
        if key in self._placed:
            self._jobs.places.pop(self._placed[key], None)

    async def _read_nodes(self, part: Part) -> None:
        operation, path = "ListPoolNodes", f"pools/{segment(part.key)}/nodes"

        async def read_page(token: str) -> tuple[Sequence[NodeRow | None], str]:
            query = {"limit": str(NODES_PAGE), **({"continue": token} if token else {})}
            page = await self._api.get(operation, path, NodesPage, query, deadline=part.deadline, limits=PAGE)
            return page.rows(operation), str((page.metadata or {}).get("continue") or "")

        rows = [node(part.key, row) async for page in pages_by_token(read_page, operation) for row in page]
        found, _ = distinct(part, rows, attrgetter("node_name"))
        self._names[part.key] = {each.node_ip: each.node_name for each in found.values() if each.node_ip}
        await part.publish(list(found.values()))

    async def _read_tasks(self, part: Part) -> None:
        """Find the nodes of tasks. The next poll of `jobs` shows those of its own pool: pools may share addresses."""
        pool_id, workspace_id = pair = self._placed[part.key]
        names, live = self._names[pool_id], [("phase", "in", LIVE)]
        addresses, found = list(names), dict[str, tuple[int, dict[str, tuple[str, str]]]]()
        for start in range(0, len(addresses), NODES_AT_ONCE):
            hosts = addresses[start : start + NODES_AT_ONCE]
            listing = await search_jobs(self._api, workspace_id, live, deadline=part.deadline, host_ips=hosts)
            part.dropped("malformed", listing.malformed)
            for job_id, row in listing.rows.items():
                _, places = found.setdefault(job_id, (tasks(row).runs, {}))
                for each in readable(row.status.task_ips if row.status else None):
                    if each.task and (name := names.get(each.host_ip or "")):
                        places[each.task] = name, each.ip or ""
        self._jobs.places[pair] = found
        await part.publish([])

    @collector("maintenance")
    async def maintenance(self, poll: Poll) -> None:
        """A part for each workspace. An event that two of them list is the first one's."""
        workspace_ids = await self._fleet.ids.get()
        poll.keep_only(workspace_ids)
        await self._event_turns.read_each(poll, workspace_ids, self._read_events, at_once=self._fleet.at_once)

    async def _read_events(self, part: Part) -> None:
        operation, path = "ListScheduledEvents", "scheduled-events"

        async def read_page(offset: int) -> Page[EventRow]:
            query = {"workspaceId": part.key, "offset": str(offset), "limit": str(EVENTS_PAGE)}
            given: Mapping[str, Any] = {"version": 1, "limits": PAGE}
            page = await self._api.get(operation, path, EventsPage, query, deadline=part.deadline, **given)
            return Page(whole(page.count), page.events)

        listing = await read_whole_list(read_page, id_of=attrgetter("id"), operation=operation, by_offset=True)
        part.dropped("malformed", listing.malformed)
        await self._events.publish(part, filter(None, map(maintenance, listing.rows.values())))
