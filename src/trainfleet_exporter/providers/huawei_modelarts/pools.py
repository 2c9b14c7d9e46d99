"""Dedicated pools: what they are and have, their workloads and queues, who holds their accelerators, their usage.

docs/collectors.md has the calls of a poll. Every field may be absent or null. Amounts are Kubernetes quantities under
keys such as `cpu`, `memory` or `huawei.com/ascend-1980`; those of workloads have units: `2 Cores`, `6.52 GiB`, `8`.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListPools.html and its sister pages.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from trainfleet_exporter.errors import BadAnswer, NotFound
from trainfleet_exporter.families.usage import DISKS, MEASURES, Family
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.lists import Listing, Page, distinct, read_whole_list, with_unread
from trainfleet_exporter.fleet.quantities import total
from trainfleet_exporter.fleet.usage import Column, NewestReadings, Reading, Subjects, count, publish_fresh
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import (
    Accelerator,
    Accelerators,
    NodeCondition,
    NodeCount,
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
from trainfleet_exporter.providers.huawei_modelarts.api import Api, segment
from trainfleet_exporter.providers.huawei_modelarts.jobs import JOB_STATUS, accelerator_kind
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import kind_of
from trainfleet_exporter.providers.values import POOL_STATUS, number, quantity, unix_time, whole
from trainfleet_exporter.transport import PAGE, json_fields
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


class Metadata(Struct, gc=False):
    """`name` is the name of a node, or the id of a pool; people know a pool by its label `os.modelarts/name`."""

    name: str | None = None
    labels: dict[str, str | None] | None = None


class Spec(Struct, gc=False):
    """The type of a pool, `Dedicate` or `Logical`, or the flavor of a node."""

    type: str | None = None
    flavor: str | None = None


class PoolState(Struct, gc=False):
    """`parent` and `root` are ids of pools. `resources` has the flavors of nodes by condition, and lacks a condition
    without nodes. The API page and its examples have lists of flavors, the SDK one object: only a list is taken."""

    phase: str | None = None
    resources: dict[str, object] | None = None
    parent: str | None = None
    root: str | None = None


class Object(Struct, Generic[T], gc=False):
    """A pool or a node."""

    metadata: Metadata | None = None
    spec: Spec | None = None
    status: T | None = None


PoolRow: TypeAlias = Object[PoolState]


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

    def requests(self) -> Iterator[tuple[Accelerator, float | None]]:
        """The requested accelerators: `16`, `"16"`, `"2 Cards"`; None if the amount cannot be read."""
        for key, given in (self.resource_requirement or {}).items():
            if (kind := accelerator_kind(key)) is not None:
                yield kind, quantity(_UNIT.sub("", given) if isinstance(given, str) else given)


class WorkloadsPage(Items[WorkloadRow], gc=False):
    """Whether `total` is there is contradicted."""

    total: float | None = None


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

WORKLOAD_STATUS = JOB_STATUS | {"Queue": Status.QUEUED, "Pending": Status.STARTING}
WORKLOAD_TYPES = ("train", "infer", "notebook")
QUEUED = "Queue"
MAY_HOLD = ("Creating", "Pending", "Running", "Terminating")
"""The statuses in which a workload may hold accelerators, in the order that it goes through them."""
MAY_WAIT = ("Creating", "Pending")
"""Those in which it holds some if it has nodes, and else waits for them."""
KINDS = {"train": "training", "notebook": "notebook", "infer": "service", "x-infer": "service"}
_UNIT = re.compile(r"(?<=[0-9])\s*(?:cores?|cards?|units?)\s*\Z", re.ASCII | re.IGNORECASE)
CONDITIONS: Sequence[NodeCondition] = ("available", "abnormal", "creating", "deleting")
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

# From answers to the model.


def pool(row: PoolRow | None) -> Pool | None:
    """A row of the pools' list; None without an id."""
    if row is None or row.metadata is None or not row.metadata.name:
        return None
    state = row.status or PoolState()
    root = state.root or ""
    return Pool(
        pool_id=row.metadata.name,
        name=(row.metadata.labels or {}).get("os.modelarts/name") or "",
        resource_type=(row.spec and row.spec.type) or "",
        parent_pool_id=state.parent or (root if root != row.metadata.name else ""),
        status=POOL_STATUS.get(state.phase or "", PoolStatus.UNKNOWN),
        nodes=() if state.resources is None else tuple(_node_counts(state.resources)),
    )


def _node_counts(nodes: Mapping[str, object]) -> Iterator[NodeCount]:
    """The conditions of which every flavor's count can be read. `available` nodes are healthy ones, not free ones."""
    for condition in CONDITIONS:
        flavors = nodes.get(condition) or []
        if isinstance(flavors, list):
            counts = [json_fields.whole(flavor, "count") if isinstance(flavor, dict) else None for flavor in flavors]
            if None not in counts:
                yield NodeCount(condition, sum(filter(None, counts)))


def pool_amounts(row: RuntimeRow | None) -> PoolAmounts | None:
    """What a pool has, and what of it is allocated; None without an id."""
    if row is None or row.metadata is None or not row.metadata.name:
        return None
    table = row.table or {}
    capacity, allocated = ((table.get(word) or NO_AMOUNTS).value or {} for word in ("capacity", "allocated"))
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


def workloads(pool_id: str, given: Iterable[WorkloadCounts], *, malformed: int) -> tuple[list[PoolWorkloads], bool]:
    """The workloads of a pool by type and status, and whether some of them may wait in its queue.

    Types and statuses that are left out have 0. While rows are `malformed`, other types are unknown.
    """
    by_type = {kind: dict[str, float | None]() for kind in (() if malformed else WORKLOAD_TYPES)}
    by_type |= {row.type or "": {**(row.status or {})} for row in given}
    found, may_wait = list[PoolWorkloads](), malformed > 0
    for kind, by_status in by_type.items():
        for word, value in {**dict.fromkeys(WORKLOAD_STATUS, 0.0), **by_status}.items():
            number, status = whole(value), WORKLOAD_STATUS.get(word, Status.UNKNOWN)
            found += [] if number is None else [PoolWorkloads(pool_id, kind, status, word, number)]
            may_wait |= status is Status.QUEUED and number != 0
    return found, may_wait


def places(rows: Iterable[WorkloadRow]) -> list[QueuePlace]:
    """The places of jobs in a pool's queue, given all of its rows.

    Whether the first is 0 or 1 is documented nowhere: it is taken for 1, unless some row has a 0.
    """
    given = [(row.job_uuid or "", position) for row in rows if (position := whole(row.pending_position)) is not None]
    is_from_0 = 0 in [position for _, position in given]
    return [QueuePlace(job_id, position + is_from_0) for job_id, position in dict(given).items()]


def queue(
    pool_id: str, rows: Collection[WorkloadRow], kinds: Collection[Accelerator], *, unreadable: int = 0
) -> PoolQueue:
    """Return the sum of the requests in a pool's queue; 0 for `kinds` of the pool that no row requests.

    If one row's amount of a kind cannot be read, that kind is left out, because the sum would be too low. All kinds are
    left out if a row has no request, or if rows were `unreadable` as a whole.
    """
    asked: dict[Accelerator, list[float | None]] = {kind: [0.0] for kind in sorted(kinds)}
    for row in rows:
        unreadable += not row.resource_requirement
        for kind, units in row.requests():
            asked.setdefault(kind, []).append(units)
    sums = {kind: total(units, is_ratio=False) for kind, units in asked.items() if not unreadable}
    return PoolQueue(pool_id, tuple(Accelerators(kind, "", units) for kind, units in sums.items() if units is not None))


def users(pool_id: str, rows: Iterable[WorkloadRow]) -> list[PoolUser]:
    """Return the number of accelerators of a pool that each user holds, by type of workload.

    The rows have names of users, but no user ids. A row with unreadable amounts adds nothing, and counts as malformed.
    """
    held: defaultdict[tuple[str, str, Accelerator], float] = defaultdict(float)
    for row in rows:
        if not row.resource_requirement:
            unusable(row.resource_requirement, "no_data")
        for kind, units in row.requests():
            held[row.user_name or "", KINDS.get(row.type or "", row.type or ""), kind] += units or 0.0
    return [
        PoolUser(pool_id, "", user, work, (Accelerators(kind, "", units),))
        for (user, work, kind), units in held.items()
        if units
    ]


def monitored(answer: PoolMonitor, pool_id: str, dropped: Counter[str], *, now: float, max_age: float) -> list[Column]:
    """The newest reading of each metric. Unix time and seconds. `dropped` counts by reason what is not shown.

    The answer may list a metric twice. BadAnswer if the answer has no list at all.
    """
    if isinstance(answer.metrics, UnsetType):
        raise BadAnswer("the answer has no metrics", operation="ShowPoolMonitor")
    rows = [((item.metric and item.metric.metric_name) or "", item.data_points or ()) for item in answer.metrics or ()]
    dropped["malformed"] += [name for name, _ in rows].count("")
    shown: list[Column] = []
    for name in filter(MONITORED.__contains__, dict(rows)):
        known, (family, unit) = ({pool_id: 0.0}, Subjects()), MONITORED[name]
        newest = NewestReadings("pool", *known, now=now, max_age=max_age, accelerator=kind_of(name))
        newest.take_each(_points([each for other, some in rows if other == name for each in some], pool_id, unit))
        shown += newest.of_families({family: UNITS[unit]}, period=0)
        dropped.update(newest.dropped)
    return shown


def _points(points: Iterable[MonitorPoint], pool_id: str, unit: str) -> Iterator[Reading]:
    for point in points:
        at = unix_time(point.timestamp, per_second=1000)
        average = next((row.value for row in point.statistics or () if row.statistic == "average"), None)
        value = number(average)
        if at is None or average is None or (value is not None and point.unit != unit):
            unusable({}, "malformed")
        elif value is not None:
            yield (pool_id,), at, value


# The collectors.

POOL_PAGE = 500
"""Rows of a page of workloads."""
_Read: TypeAlias = Callable[[Part], Awaitable[None]]
_AMOUNTS = "runtime metrics"
_QUEUE = "queue of "
"""The prefix of the part of a pool's queue; the part of its counts is its id."""
_MINUTES = 5
"""Of usage that are asked for, by the server's clock."""


class Lists(Generic[T]):
    """Lists of workspaces, each a part. A thing that several of them list is shown with the first one."""

    def __init__(self, id_of: Callable[[T], str]) -> None:
        self.ids: dict[str, tuple[str, ...]] = {}
        """By workspace, of the latest list that could be read."""
        self._id_of = id_of

    async def publish(self, part: Part, rows: Iterable[T | None]) -> None:
        """Show what no other workspace shows. Known ids stay in the list that malformed rows (None) may be about."""
        others = {one for key in self.ids.keys() - {part.key} if key in part.store for one in self.ids[key]}
        found, malformed = distinct(part, rows, self._id_of, others)
        self.ids[part.key] = with_unread(found, self.ids.get(part.key, ()), malformed=malformed)
        await part.publish(list(found.values()))


class Pools:
    """The collectors of pools. `listed` are the ids of pools."""

    def __init__(self, api: Api, fleet: Workspaces, *, has_jobs: bool) -> None:
        self.listed: Topic[tuple[str, ...]] = Topic("pools", ())
        self._api, self._fleet, self._has_jobs = api, fleet, has_jobs
        self._turns: defaultdict[str, FairQueue] = defaultdict(FairQueue)
        self._pools = Lists[Pool](attrgetter("pool_id"))
        self._kinds: Mapping[str, Collection[Accelerator]] = {}
        """By pool, the kinds of its accelerators."""

    @collector("pools")
    async def pools(self, poll: Poll) -> None:
        """A part for each workspace's pools; then one for the amounts of all, which are shown for listed pools only."""
        with self.listed.polling():
            workspace_ids = await self._fleet.ids.get()
            poll.keep_only([*workspace_ids, _AMOUNTS])
            self._pools.ids = {key: ids for key, ids in self._pools.ids.items() if key in workspace_ids}
            try:
                turns, at_once = self._turns["pools"], self._fleet.at_once
                await turns.read_each(poll, workspace_ids, self._read_pools, at_once=at_once)
                await poll.read_each([_AMOUNTS], self._read_amounts, at_once=1)
            finally:
                self.listed.publish(self._ids(), known=bool(self._pools.ids) or not workspace_ids)

    def _ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pool_id for ids in self._pools.ids.values() for pool_id in ids))

    async def _read_pools(self, part: Part) -> None:
        query = {"workspaceId": part.key, "status": "created"}
        answer = await self._api.get("ListPools", "pools", Items[PoolRow], query, deadline=part.deadline, limits=PAGE)
        await self._pools.publish(part, map(pool, answer.rows("ListPools")))

    async def _read_amounts(self, part: Part) -> None:
        operation, path = "ShowPoolRuntimeMetrics", "metrics/runtime/pools"
        answer = await self._api.get(operation, path, Items[RuntimeRow], deadline=part.deadline, limits=PAGE)
        found, _ = distinct(part, map(pool_amounts, answer.rows(operation)), attrgetter("pool_id"))
        shown = {pool_id: found[pool_id] for pool_id in self._ids() if pool_id in found}
        part.dropped("unlisted", len(found) - len(shown))
        self._kinds = {key: {item.kind for item in row.capacity_accelerators} for key, row in shown.items()}
        await part.publish(list(shown.values()))

    @collector("pool_workloads")
    async def pool_workloads(self, poll: Poll) -> None:
        """Two parts for each pool: its counts; then its queue with the places of jobs, if something may be queued."""
        if self._has_jobs:
            await self._fleet.wait_briefly(poll.deadline)  # otherwise their places come an interval after them

        async def read(part: Part) -> None:
            key = _QUEUE + part.key
            try:
                may_wait = await self._read_counts(part)
            except BaseException as error:  # also at the poll's deadline
                if key in poll.store and isinstance(error, NotFound):
                    poll.store.publish(key, [])
                elif key in poll.store:
                    poll.store.fail(key)  # otherwise it would keep places of jobs that run by now
                raise
            async with poll.part(key) as queue:
                await _if_there(queue, self._read_queue(queue, part.key, may_wait=may_wait))

        queues = [_QUEUE + pool_id for pool_id in await self.listed.get()]
        await self.read_each(poll, "pool_workloads", read, queues)

    async def _read_counts(self, part: Part) -> bool:
        """Show the counts; return whether something may be in the queue."""
        operation, path = "ShowWorkloadStatistics", f"statistics/pools/{segment(part.key)}/workloads"
        answer = await self._api.get(operation, path, StatisticsAnswer, deadline=part.deadline)
        items = (answer.statistics or answer.statics or Items[WorkloadCounts]()).rows(operation)
        known = [None if row is None or not row.type or row.status is None else row for row in items]
        rows, malformed = distinct(part, known, lambda row: row.type or "")
        found, may_wait = workloads(part.key, rows.values(), malformed=malformed)
        await part.publish(found)
        return may_wait

    async def _read_queue(self, part: Part, pool_id: str, *, may_wait: bool) -> None:
        listing: Listing[WorkloadRow] = await self._workloads(pool_id, QUEUED, part) if may_wait else Listing({})
        rows, kinds = listing.rows.values(), self._kinds.get(pool_id, ())
        asked, given = queue(pool_id, rows, kinds, unreadable=listing.malformed), places(rows)

        def with_places(_: float) -> tuple[Sequence[object], None]:
            """Positions of jobs that wait in this pool by now. A physical pool may list those of logical ones, too."""
            jobs = [self._fleet.live.get(place.job_id) for place in given]
            waits = [job is not None and job.pool_id == pool_id and not job.holds_resources for job in jobs]
            return [asked, *compress(given, waits)], None

        await part.publish(with_places(0.0)[0], rebuild=with_places)

    @collector("pool_users")
    async def pool_users(self, poll: Poll) -> None:
        """A part for each pool: what runs in it, starts or stops, of training jobs, notebooks and services."""

        async def read(part: Part) -> None:
            found: dict[str, WorkloadRow] = {}
            for status in MAY_HOLD:  # a workload that changes between two calls is in both lists: the later one counts
                rows = (await self._workloads(part.key, status, part)).rows
                found |= {key: row for key, row in rows.items() if row.host_ips or status not in MAY_WAIT}
            await part.publish(users(part.key, found.values()))

        await self.read_each(poll, "pool_users", read)

    async def _workloads(self, pool_id: str, status: str, part: Part) -> Listing[WorkloadRow]:
        """ListWorkloads, oldest first. `offset` counts records. Without a total, a full page is not the last."""
        operation, path = "ListWorkloads", f"pools/{segment(pool_id)}/workloads"

        async def read_page(offset: int) -> Page[WorkloadRow]:
            query = {"status": status, "sort": "create_time", "ascend": "true"}
            query |= {"offset": str(offset), "limit": str(POOL_PAGE)}
            page = await self._api.get(operation, path, WorkloadsPage, query, deadline=part.deadline, limits=PAGE)
            rows, known = page.rows(operation), whole(page.total)
            return Page(offset + len(rows) + (len(rows) >= POOL_PAGE) if known is None else known, rows)

        listing = await read_whole_list(read_page, id_of=attrgetter("id"), operation=operation, by_offset=True)
        part.dropped("malformed", listing.malformed)
        return listing

    @collector("pool_usage")
    async def pool_usage(self, poll: Poll) -> None:
        """A part for each pool: one-minute means. Without `statistics` they would be maxima.

        The series are those of a pool's cluster: a logical pool shows the usage of the whole physical pool.
        """

        async def read(part: Part) -> None:
            query = {"time_range": f"-1.-1.{_MINUTES}", "statistics": "average", "period": "60"}
            path, lost = f"pools/{segment(part.key)}/monitor", Counter[str]()
            answer = await self._api.get("ShowPoolMonitor", path, PoolMonitor, query, deadline=part.deadline)
            age, now = max(self._fleet.max_data_age, 2 * part.interval), self._fleet.clock.now()
            columns = monitored(answer, part.key, lost, now=now, max_age=age)
            count(part, lost)
            await publish_fresh(part, columns, fleet=self._fleet, begun=lambda: {part.key: 0.0})

        await self.read_each(poll, "pool_usage", read)

    async def read_each(
        self, poll: Poll, name: str, read: _Read, others: Iterable[str] = (), until: float = math.inf
    ) -> None:
        """Read a part for each pool, as FairQueue.read_each does, and keep `others`."""
        pool_ids = await self.listed.get()
        poll.keep_only([*pool_ids, *others])
        turns, at_once = self._turns[name], self._fleet.at_once
        await turns.read_each(poll, pool_ids, lambda part: _if_there(part, read(part)), at_once=at_once, until=until)


async def _if_there(part: Part, reading: Awaitable[None]) -> None:
    """Show nothing of a pool that was deleted since it was listed."""
    try:
        await reading
    except NotFound as error:
        await part.not_found(error)
