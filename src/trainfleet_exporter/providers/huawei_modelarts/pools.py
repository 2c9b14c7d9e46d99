"""Dedicated pools: what they are and have, their workloads and queues, who holds their accelerators, their nodes.

docs/collectors.md has the calls of a poll. A search for the nodes of tasks names ten nodes of a pool, in one workspace.

Every field may be absent or null. Amounts are Kubernetes quantities under keys such as `cpu`, `memory` or
`huawei.com/ascend-1980`; those of workloads have units: `2 Cores`, `6.52 GiB`, `8`.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListPools.html and its sister pages.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from trainfleet_exporter.errors import BadAnswer, NotFound
from trainfleet_exporter.families.usage import DISKS, MEASURES, Family
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.history import checked_code
from trainfleet_exporter.fleet.lists import Listing, Page, distinct, pages_by_token, read_whole_list, with_unread
from trainfleet_exporter.fleet.usage import Column, NewestReadings, Reading, Subjects, count, publish_fresh
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import (
    Accelerator,
    Accelerators,
    MaintenanceState,
    Node,
    NodeCondition,
    NodeCount,
    NodeMaintenance,
    Pool,
    PoolAmounts,
    PoolQueue,
    PoolStatus,
    PoolUser,
    PoolWorkloads,
    QueuePlace,
    Status,
)
from trainfleet_exporter.polling import FairQueue, Part, Poll, Topic
from trainfleet_exporter.providers.huawei_modelarts.client import Api, segment
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.jobs import JOBS_PAGE, NODES_AT_ONCE, Jobs, accelerator_kind
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import kind_of
from trainfleet_exporter.providers.values import POOL_STATUS, amount, number, quantity, unix_time, utc_time, whole
from trainfleet_exporter.transport import PAGE
from trainfleet_exporter.transport.json_fields import unusable

# The answers, with the fields that are read.

T = TypeVar("T")
Amounts: TypeAlias = dict[str, str | float | None]


class Items(Struct, Generic[T], gc=False):
    """A list. Null has no rows, as Go writes it. A row that is no object is None."""

    items: list[T | None] | UnsetType | None = UNSET

    def rows(self, operation: str) -> list[T | None]:
        """Return the rows. BadAnswer if there is no list."""
        if isinstance(self.items, UnsetType):
            raise BadAnswer("the answer has no items", operation=operation)
        return self.items or []


class PoolLabels(Struct, gc=False):
    name: str | None = field(name="os.modelarts/name", default=None)


class Metadata(Struct, gc=False):
    """`name` is the name of a node, or the id of a pool; people know a pool by its label."""

    name: str | None = None
    labels: PoolLabels | None = None


class Spec(Struct, gc=False):
    """The type of a pool, `Dedicate` or `Logical`, or the flavor of a node."""

    type: str | None = None
    flavor: str | None = None


class FlavorCount(Struct, gc=False):
    """How many nodes of one flavor."""

    count: float | None = None


NodesOfCondition: TypeAlias = list[FlavorCount | None] | FlavorCount | str | float | bool | None
"""The API page and its examples have a list, the SDK one object. Nothing but a list is taken."""


class PoolState(Struct, gc=False):
    """`parent` and `root` are ids of pools. `resources` has nodes by condition, and lacks a condition without nodes."""

    phase: str | None = None
    resources: dict[str, NodesOfCondition] | None = None
    parent: str | None = None
    root: str | None = None


class NodeState(Struct, gc=False, rename="camel"):
    """Resources that are not available are allocated."""

    phase: str | None = None
    private_ip: str | None = None
    resources: Amounts | None = None
    available_resources: Amounts | None = None


class Object(Struct, Generic[T], gc=False):
    """A pool or a node."""

    metadata: Metadata | None = None
    spec: Spec | None = None
    status: T | None = None


PoolRow: TypeAlias = Object[PoolState]
NodeRow: TypeAlias = Object[NodeState]


class NodesPage(Items[NodeRow], gc=False):
    """`continue` of the metadata is the token for the next page; without it there is none."""

    metadata: dict[str, str | float | None] | None = None


class AmountsTable(Struct, gc=False):
    value: Amounts | None = None


class RuntimeRow(Struct, gc=False):
    """The amounts of a pool, by `capacity` and `allocated`."""

    metadata: Metadata | None = None
    table: dict[str, AmountsTable | None] | None = None


class WorkloadCounts(Struct, gc=False):
    """The workloads of one type by status. A status that is left out has none."""

    type: str | None = None
    status: Mapping[str, float | None] | None = None


class StatisticsAnswer(Struct, gc=False):
    """The workloads of a pool; a type that is left out has none. The table of the API page calls them `statics`."""

    statistics: Items[WorkloadCounts] | None = None
    statics: Items[WorkloadCounts] | None = None


class WorkloadRow(Struct, gc=False, rename="camel"):
    """A position of -1 is none. `host_ips` are the addresses of its nodes, with commas between them."""

    uid: str | None = None
    name: str | None = None
    job_uuid: str | None = field(name="jobUUID", default=None)
    type: str | None = None
    user_name: str | None = None
    host_ips: str | None = None
    pending_position: float | None = None
    resource_requirement: Amounts | None = None

    @property
    def id(self) -> str:
        """What distinguishes it from others; empty without any of its names."""
        return self.uid or self.name or self.job_uuid or ""


class WorkloadsPage(Items[WorkloadRow], gc=False):
    """Whether `total` is there is contradicted."""

    total: float | None = None


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


class MonitorName(Struct, gc=False, rename="camel"):
    metric_name: str | None = None


class MonitorValue(Struct, gc=False):
    statistic: str | None = None
    value: str | float | None = None


class MonitorPoint(Struct, gc=False):
    """In `Percent` or `Megabytes`. The time counts milliseconds. -1 is "no data", in a point as in a whole series (a
    kind of accelerator that the pool does not have)."""

    timestamp: float | None = None
    unit: str | None = None
    statistics: list[MonitorValue] | None = None


class MonitorMetric(Struct, gc=False, rename="camel"):
    metric: MonitorName | None = None
    data_points: list[MonitorPoint] | None = None


class PoolMonitor(Struct, gc=False):
    metrics: list[MonitorMetric] | UnsetType | None = UNSET


NO_AMOUNTS: Final = AmountsTable()

# Words.

WORKLOAD_STATUS = {
    "Queue": Status.QUEUED,
    "Pending": Status.STARTING,
    "Creating": Status.CREATING,
    "Running": Status.RUNNING,
    "Terminating": Status.STOPPING,
    "Completed": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Abnormal": Status.FAILED,
    "Terminated": Status.STOPPED,
}
WORKLOAD_TYPES = ("train", "infer", "notebook")
HOLDING = ("Creating", "Pending", "Running", "Terminating")
"""The statuses in which a workload may hold accelerators, in the order that it goes through them."""
MAY_WAIT = ("Creating", "Pending")
"""Those in which it holds some if it has nodes, and else waits for them."""
KINDS = {"train": "training", "notebook": "notebook", "infer": "service", "x-infer": "service"}
CONDITIONS: Sequence[NodeCondition] = ("available", "abnormal", "creating", "deleting")
MAINTENANCE_STATE = {
    "inquiring": MaintenanceState.INQUIRING,
    "scheduled": MaintenanceState.SCHEDULED,
    "executing": MaintenanceState.EXECUTING,
}
MAINTENANCE_ENDED = frozenset({"completed", "failed", "canceled"})
UNITS = {"Percent": 0.01, "Megabytes": 2.0**20}
MONITORED: Mapping[str, tuple[Family, str]] = {
    "cpuUsage": (MEASURES["cpu_utilization_ratio"].of("pool"), "Percent"),
    "memUsedRate": (MEASURES["memory_utilization_ratio"].of("pool"), "Percent"),
    "gpuUtil": (MEASURES["accelerator_utilization_ratio"].of("pool"), "Percent"),
    "gpuMemUsage": (MEASURES["accelerator_memory_utilization_ratio"].of("pool"), "Percent"),
    "npuUtil": (MEASURES["accelerator_utilization_ratio"].of("pool"), "Percent"),
    "npuMemUsage": (MEASURES["accelerator_memory_utilization_ratio"].of("pool"), "Percent"),
    "diskUsedRate": (DISKS["utilization_ratio"], "Percent"),
    "diskCapacity": (DISKS["capacity_bytes"], "Megabytes"),
    "diskAvailableCapacity": (DISKS["available_bytes"], "Megabytes"),
}
"""By metric of the monitor, what it feeds and its unit."""
_UNIT = re.compile(r"(?<=[0-9])\s*(?:cores?|cards?|units?)\s*\Z", re.ASCII | re.IGNORECASE)

# From answers to the model.


def pool(row: PoolRow | None) -> Pool | None:
    """A row of the pools' list; None without an id."""
    if row is None or row.metadata is None or not row.metadata.name:
        return None
    state = row.status or PoolState()
    root = state.root or ""
    return Pool(
        pool_id=row.metadata.name,
        name=(row.metadata.labels and row.metadata.labels.name) or "",
        resource_type=(row.spec and row.spec.type) or "",
        parent_pool_id=state.parent or (root if root != row.metadata.name else ""),
        status=POOL_STATUS.get(state.phase or "", PoolStatus.UNKNOWN),
        nodes=() if state.resources is None else tuple(_node_counts(state.resources)),
    )


def _node_counts(nodes: Mapping[str, NodesOfCondition]) -> Iterator[NodeCount]:
    """The conditions of which every flavor's count can be read. `available` nodes are healthy ones, not free ones."""
    for condition in CONDITIONS:
        flavors = nodes.get(condition) or []
        if isinstance(flavors, list):
            counts = [None if flavor is None else whole(flavor.count) for flavor in flavors]
            known = [count for count in counts if count is not None]
            if len(known) == len(counts):
                yield NodeCount(condition, sum(known))


def pool_amounts(row: RuntimeRow | None) -> PoolAmounts | None:
    """What a pool has, and what of it is allocated; None without an id."""
    if row is None or row.metadata is None or not row.metadata.name:
        return None
    capacity, allocated = (
        ((row.table or {}).get(word) or NO_AMOUNTS).value or {} for word in ("capacity", "allocated")
    )
    return PoolAmounts(
        pool_id=row.metadata.name,
        capacity_cpu_cores=quantity(capacity.get("cpu")),
        capacity_memory_bytes=quantity(capacity.get("memory")),
        capacity_accelerators=devices(capacity),
        allocated_cpu_cores=quantity(allocated.get("cpu")),
        allocated_memory_bytes=quantity(allocated.get("memory")),
        allocated_accelerators=devices(allocated),
    )


def devices(amounts: Amounts) -> tuple[Accelerators, ...]:
    """Every accelerator key of the resources of a pool or node, by its raw name."""
    return tuple(
        Accelerators(kind, key, count)
        for key, given in amounts.items()
        if (kind := accelerator_kind(key)) is not None and (count := quantity(given)) is not None
    )


def node(pool_id: str, row: NodeRow | None) -> Node | None:
    """A row of a pool's nodes; None without a name. What is not available is allocated."""
    if row is None or row.metadata is None or not row.metadata.name:
        return None
    state = row.status or NodeState()
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


def _taken(capacity: float | None, free: str | float | None) -> float | None:
    left = quantity(free)
    return None if capacity is None or left is None else max(0.0, capacity - left)


def workloads(pool_id: str, answer: StatisticsAnswer) -> tuple[list[PoolWorkloads], Counter[str]]:
    """The workload statistics of a pool, and what was dropped, by reason. BadAnswer if the answer has none at all.

    Types and states that are left out of a given answer are 0. A count that cannot be read is not shown, and where it
    is not even known of what, neither are the zeros.
    """
    given: Items[WorkloadCounts] = answer.statistics or answer.statics or Items()
    dropped, by_type, rows = Counter[str](), dict[str, Mapping[str, float | None]](), []
    for item in given.rows("ShowWorkloadStatistics"):
        if item is None or not item.type or item.status is None:
            dropped["malformed"] += 1
        elif item.type in by_type:
            dropped["duplicate"] += 1
        else:
            by_type[item.type] = item.status
    if not dropped["malformed"]:
        by_type = {**{kind: {} for kind in WORKLOAD_TYPES}, **by_type}
    for kind, by_status in by_type.items():
        for word, value in {**dict.fromkeys(WORKLOAD_STATUS, 0.0), **by_status}.items():
            if (found := whole(value)) is None:
                dropped["malformed"] += 1
            else:
                rows.append(PoolWorkloads(pool_id, kind, WORKLOAD_STATUS.get(word, Status.UNKNOWN), word, found))
    return rows, dropped


def queue_places(rows: Iterable[WorkloadRow], jobs: Collection[str]) -> list[QueuePlace]:
    """The places of `jobs` in a pool's queue, given all of its rows.

    Whether the first is 0 or 1 is documented nowhere: it is taken for 1, unless some row has a 0.
    """
    given = [(row.job_uuid or "", whole(row.pending_position)) for row in rows]  # -1, "none", is no whole number
    places = {job_id: position for job_id, position in given if job_id and position is not None}
    first = min((position for _, position in given if position is not None), default=1)
    return [QueuePlace(job_id, position + (first == 0)) for job_id, position in places.items() if job_id in jobs]


def pool_queue(
    pool_id: str, rows: Collection[WorkloadRow], kinds: Collection[Accelerator], *, unreadable: int = 0
) -> PoolQueue:
    """Return the sum of the requests in a pool's queue; 0 for `kinds` of the pool that no row requests.

    If one row's amount of a kind cannot be read, that kind is left out, because the sum would be too low. All kinds are
    left out if a row has no request, or if rows were `unreadable` as a whole.
    """
    if unreadable or not all(row.resource_requirement for row in rows):
        return PoolQueue(pool_id, ())
    sums: dict[Accelerator, float | None] = dict.fromkeys(sorted(kinds), 0.0)
    for kind, units in (request for row in rows for request in _requests(row)):
        known = sums.get(kind, 0.0)
        sums[kind] = None if known is None or units is None else known + units
    return PoolQueue(pool_id, tuple(Accelerators(kind, "", total) for kind, total in sums.items() if total is not None))


def users(pool_id: str, rows: Iterable[WorkloadRow]) -> list[PoolUser]:
    """Return the number of accelerators of a pool that each user holds, by type of workload.

    The rows have names of users, but no user ids. A row with unreadable amounts adds nothing, and counts as malformed.
    """
    held: defaultdict[tuple[str, str, Accelerator], float] = defaultdict(float)
    for row in rows:
        if not row.resource_requirement:
            unusable(row.resource_requirement, "no_data")
        for kind, units in _requests(row):
            held[row.user_name or "", KINDS.get(row.type or "", row.type or ""), kind] += units or 0.0
    return [
        PoolUser(pool_id, "", user, work, (Accelerators(kind, "", total),))
        for (user, work, kind), total in held.items()
        if total
    ]


def _requests(row: WorkloadRow) -> Iterator[tuple[Accelerator, float | None]]:
    """The requested accelerators of a workload: `16`, `"16"`, `"2 Cards"`; None if the amount cannot be read."""
    for key, given in (row.resource_requirement or {}).items():
        if (kind := accelerator_kind(key)) is not None:
            yield kind, quantity(_UNIT.sub("", given)) if isinstance(given, str) else amount(given)


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


def columns_of(answer: PoolMonitor, pool_id: str, dropped: Counter[str], *, now: float, max_age: float) -> list[Column]:
    """The newest reading of each metric. Unix time and seconds. BadAnswer if the answer holds no list at all."""
    if isinstance(answer.metrics, UnsetType):
        raise BadAnswer("the answer has no metrics", operation="ShowPoolMonitor")
    found: dict[str, NewestReadings] = {}
    for item in answer.metrics or ():
        name = (item.metric and item.metric.metric_name) or ""
        dropped["malformed"] += not name
        if name in MONITORED:
            known = {pool_id: 0.0}, Subjects()
            new = NewestReadings("pool", *known, now=now, max_age=max_age, accelerator=kind_of(name))
            found.setdefault(name, new).take(_points(item, pool_id, MONITORED[name][1], dropped))
    columns: list[Column] = []
    for name, readings in found.items():
        family, unit = MONITORED[name]
        columns += readings.of_families({family: UNITS[unit]}, period=0)
        dropped.update(readings.dropped)
    return columns


def _points(item: MonitorMetric, pool_id: str, unit: str, dropped: Counter[str]) -> Iterator[Reading]:
    for point in item.data_points or ():
        at = unix_time(point.timestamp, per_second=1000)
        average = next((row.value for row in point.statistics or () if row.statistic == "average"), None)
        value = number(average)
        if at is None or average is None or (value is not None and point.unit != unit):
            dropped["malformed"] += 1
        elif value is not None:
            yield (pool_id,), at, value


# The collectors.

POOL_PAGE, EVENTS_PAGE = 500, 100
"""Rows of a page: nodes and workloads of a pool; announced work."""
_AMOUNTS = "runtime metrics"
_MINUTES = 5
"""Of usage that are asked for, by the server's clock."""
_QUEUE = "queue of "
"""The prefix of the part of a pool's queue; the part of its counts is its id."""
_TASKS = "tasks on {} of workspace {}"
"""The part that finds the nodes of tasks."""
_MOST_SEARCHES = 100
"""For the nodes of tasks, in one poll. More are made in turn: jobs stay on their nodes unless they start again."""


class Lists(Generic[T]):
    """Lists of workspaces, each a part. A thing that several of them list is shown with the first one."""

    def __init__(self, id_of: Callable[[T], str]) -> None:
        self.ids: dict[str, tuple[str, ...]] = {}
        """By workspace, of the latest list that could be read."""
        self._id_of = id_of

    def keep_only(self, workspace_ids: Collection[str]) -> None:
        """Forget other workspaces."""
        self.ids = {key: ids for key, ids in self.ids.items() if key in workspace_ids}

    async def publish(self, part: Part, rows: Iterable[T | None]) -> None:
        """Show what no other workspace shows. Known ids stay in the list that malformed rows (None) may be about."""
        others = {one for key in self.ids.keys() - {part.key} if key in part.store for one in self.ids[key]}
        found, malformed = distinct(part, rows, self._id_of, others)
        self.ids[part.key] = with_unread(found, self.ids.get(part.key, ()), malformed=malformed)
        await part.publish(list(found.values()))


class Pools:
    """The collectors of pools. `listed` are the ids of pools."""

    def __init__(self, api: Api, config: HuaweiModelArtsConfig, fleet: Workspaces, jobs: Jobs) -> None:
        self.listed: Topic[tuple[str, ...]] = Topic("pools", ())
        self._api, self._fleet, self._jobs = api, fleet, jobs
        self._has_jobs = config.collectors.jobs.enabled
        self._turns: defaultdict[str, FairQueue] = defaultdict(FairQueue)
        self._pools, self._events = Lists[Pool](attrgetter("pool_id")), Lists[NodeMaintenance](attrgetter("event_id"))
        self._kinds: Mapping[str, Collection[Accelerator]] = {}
        """By pool, the kinds of its accelerators."""
        self._queued: dict[str, int] = {}
        """By pool, how many workloads its latest counts have in the queue."""
        self._nodes: dict[str, dict[str, str]] = {}
        """By pool and address, the names of its nodes."""
        self._placed: dict[str, tuple[str, str]] = {}
        """By part, the pool and workspace whose tasks it finds."""

    @collector("pools")
    async def pools(self, poll: Poll) -> None:
        """A part for each workspace's pools; then one for the amounts of all, which are shown for listed pools only."""
        is_known = False
        with self.listed.polling():
            try:
                workspace_ids = await self._fleet.ids.get()
                poll.keep_only([*workspace_ids, _AMOUNTS])
                self._pools.keep_only(workspace_ids)
                read = await self._read_each(poll, "pools", workspace_ids, self._read_pools)
                is_known = bool(read) or not workspace_ids
                await poll.read_each([_AMOUNTS], self._read_amounts, at_once=1)
            finally:
                self.listed.publish(self._ids(), known=is_known)

    def _ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pool_id for ids in self._pools.ids.values() for pool_id in ids))

    async def _read_pools(self, part: Part) -> None:
        query = {"workspaceId": part.key, "status": "created"}
        answer = await self._api.get("ListPools", "pools", Items[PoolRow], query, deadline=part.deadline, limits=PAGE)
        await self._pools.publish(part, map(pool, answer.rows("ListPools")))

    async def _read_amounts(self, part: Part) -> None:
        operation, path = "ShowPoolRuntimeMetrics", "metrics/runtime/pools"
        answer = await self._api.get(operation, path, Items[RuntimeRow], deadline=part.deadline, limits=PAGE)
        found, _ = distinct(part, map(pool_amounts, answer.rows(operation)), lambda each: each.pool_id)
        shown = {pool_id: found[pool_id] for pool_id in self._ids() if pool_id in found}
        part.dropped("unlisted", len(found) - len(shown))
        self._kinds = {key: {item.kind for item in row.capacity_accelerators} for key, row in shown.items()}
        await part.publish(list(shown.values()))

    @collector("pool_workloads")
    async def pool_workloads(self, poll: Poll) -> None:
        """Two parts for each pool: its counts; then its queue with the places of jobs, if something is queued."""
        pool_ids = await self.listed.get()
        poll.keep_only([*pool_ids, *(_QUEUE + pool_id for pool_id in pool_ids)])
        self._queued.clear()
        await self._read_each_pool(poll, "pool_workloads", self._read_counts, pool_ids)
        if self._has_jobs and any(self._queued.values()):
            await self._fleet.wait_briefly(poll.deadline)  # otherwise their places come an interval after them
        counted = [_QUEUE + pool_id for pool_id in pool_ids if pool_id in self._queued]
        await self._read_each_pool(poll, "queues", self._read_queue, counted)

    async def _read_counts(self, part: Part) -> None:
        path = f"statistics/pools/{segment(part.key)}/workloads"
        answer = await self._api.get("ShowWorkloadStatistics", path, StatisticsAnswer, deadline=part.deadline)
        rows, dropped = workloads(part.key, answer)
        count(part, dropped)
        # If a count could not be read, the queue itself is asked for.
        self._queued[part.key] = sum(row.count for row in rows if row.status is Status.QUEUED) or dropped["malformed"]
        await part.publish(rows)

    async def _read_queue(self, part: Part) -> None:
        pool_id = part.key.removeprefix(_QUEUE)
        listing: Listing[WorkloadRow] = Listing({})
        if self._queued[pool_id]:
            listing = await self._workloads(pool_id, "Queue", part)
        rows, kinds = listing.rows.values(), self._kinds.get(pool_id, ())
        # The physical pool may also list a logical pool's workloads: each pool shows the positions of its own jobs.
        own = {job.job_id for job in self._fleet.live.values() if job.pool_id == pool_id}
        queue = pool_queue(pool_id, rows, kinds, unreadable=listing.malformed)
        await part.publish([queue, *queue_places(rows, own)])

    @collector("pool_users")
    async def pool_users(self, poll: Poll) -> None:
        """A part for each pool: what runs in it, starts or stops, of training jobs, notebooks and services."""

        async def read(part: Part) -> None:
            found: dict[str, WorkloadRow] = {}
            for status in HOLDING:  # a workload that changes between two calls is in both lists: the later one counts
                rows = (await self._workloads(part.key, status, part)).rows
                found |= {key: row for key, row in rows.items() if row.host_ips or status not in MAY_WAIT}
            await part.publish(users(part.key, found.values()))

        await self._read_each_pool(poll, "pool_users", read)

    async def _workloads(self, pool_id: str, status: str, part: Part) -> Listing[WorkloadRow]:
        """ListWorkloads, oldest first. `offset` counts records. Without a total, a full page is not the last."""
        operation, path = "ListWorkloads", f"pools/{segment(pool_id)}/workloads"

        async def read_page(offset: int) -> Page[WorkloadRow]:
            query = {"status": status, "sort": "create_time", "ascend": "true"}
            query |= {"offset": str(offset), "limit": str(POOL_PAGE)}
            page = await self._api.get(operation, path, WorkloadsPage, query, deadline=part.deadline, limits=PAGE)
            rows, total = page.rows(operation), whole(page.total)
            return Page(offset + len(rows) + (len(rows) >= POOL_PAGE) if total is None else total, rows)

        listing = await read_whole_list(read_page, id_of=attrgetter("id"), operation=operation, by_offset=True)
        part.dropped("malformed", listing.malformed)
        return listing

    @collector("nodes")
    async def nodes(self, poll: Poll) -> None:
        """A part for each pool; then one for each pool and workspace that has jobs in it, to find the nodes of its
        tasks."""
        pool_ids = await self.listed.get()
        poll.keep_only([*pool_ids, *self._placed])
        self._nodes = {pool_id: nodes for pool_id, nodes in self._nodes.items() if pool_id in pool_ids}
        await self._read_each_pool(poll, "nodes", self._read_nodes, pool_ids)
        if self._has_jobs:
            await self._fleet.wait_briefly(poll.deadline)  # otherwise tasks are found an interval after their jobs
        jobs = self._jobs.pairs()
        pairs = {_TASKS.format(*pair): pair for pair in sorted(jobs) if pair[0] in self._nodes}
        self._jobs.places = {pair: found for pair, found in self._jobs.places.items() if pair in pairs.values()}
        turns, calls, self._placed = self._turns["tasks"], 0.0, {}
        for key in turns.order(pairs):
            pair = pairs[key]
            calls += len(self._nodes[pair[0]]) / NODES_AT_ONCE + jobs[pair] / JOBS_PAGE
            if calls <= _MOST_SEARCHES or not self._placed:
                self._placed[key] = pair
        poll.keep_only([*pool_ids, *self._placed])
        turns.was_read(await poll.read_each(self._placed, self._read_tasks, at_once=self._fleet.at_once))

    def nodes_expired(self, key: str) -> None:
        """Tasks may run elsewhere by now. The addresses of a pool's nodes stay known while their list fails."""
        if key in self._placed:
            self._jobs.places.pop(self._placed[key], None)

    async def _read_nodes(self, part: Part) -> None:
        operation, path = "ListPoolNodes", f"pools/{segment(part.key)}/nodes"

        async def read_page(token: str) -> tuple[Sequence[NodeRow | None], str]:
            query = {"limit": str(POOL_PAGE), **({"continue": token} if token else {})}
            page = await self._api.get(operation, path, NodesPage, query, deadline=part.deadline, limits=PAGE)
            return page.rows(operation), str((page.metadata or {}).get("continue") or "")

        rows = [node(part.key, row) async for page in pages_by_token(read_page, operation) for row in page]
        found, _ = distinct(part, rows, lambda each: each.node_name)
        self._nodes[part.key] = {each.node_ip: each.node_name for each in found.values() if each.node_ip}
        await part.publish(list(found.values()))

    async def _read_tasks(self, part: Part) -> None:
        pair = self._placed[part.key]
        await self._jobs.find_places(part, pair, self._nodes[pair[0]])
        await part.publish([])

    @collector("maintenance")
    async def maintenance(self, poll: Poll) -> None:
        """A part for each workspace. An event that two of them list is the first one's."""
        workspace_ids = await self._fleet.ids.get()
        poll.keep_only(workspace_ids)
        self._events.keep_only(workspace_ids)
        await self._read_each(poll, "maintenance", workspace_ids, self._read_events)

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

    @collector("pool_usage")
    async def pool_usage(self, poll: Poll) -> None:
        """A part for each pool: one-minute means. Without `statistics` they would be maxima.

        The series are those of a pool's cluster: a logical pool shows the usage of the whole physical pool.
        """
        age, clock = self._fleet.max_data_age, self._fleet.clock

        async def read(part: Part) -> None:
            query = {"time_range": f"-1.-1.{_MINUTES}", "statistics": "average", "period": "60"}
            path = f"pools/{segment(part.key)}/monitor"
            answer = await self._api.get("ShowPoolMonitor", path, PoolMonitor, query, deadline=part.deadline)
            dropped, begun = Counter[str](), {part.key: 0.0}
            found = columns_of(answer, part.key, dropped, now=clock.now(), max_age=max(age, 2 * part.interval))
            count(part, dropped)
            await publish_fresh(part, found, begun=lambda: begun, max_data_age=age, clock=clock)

        await self._read_each_pool(poll, "pool_usage", read)

    async def _read_each_pool(
        self,
        poll: Poll,
        name: str,
        read: Callable[[Part], Awaitable[None]],
        keys: Collection[str] | None = None,
    ) -> None:
        """Read a part for each pool, or these parts of pools. A pool that was deleted since then shows nothing."""

        async def read_if_there(part: Part) -> None:
            try:
                await read(part)
            except NotFound as error:
                await part.not_found(error)

        if keys is None:
            keys = await self.listed.get()
            poll.keep_only(keys)
        await self._read_each(poll, name, keys, read_if_there)

    async def _read_each(
        self, poll: Poll, name: str, keys: Iterable[str], read: Callable[[Part], Awaitable[None]]
    ) -> set[str]:
        return await self._turns[name].read_each(poll, keys, read, at_once=self._fleet.at_once)
