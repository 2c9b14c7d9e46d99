"""Quotas of PaiStudio: what they are and have, their queues, who holds their accelerators, their nodes.

Cost of a poll: one call for each 100 quotas, and for each quota one for each 100 workloads that wait, one for each type
of workload, one for each 100 users, and one for each 100 nodes.

Amounts are texts, memory with its suffix; but ListNodes gives memory as bare numbers of GiB.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import compress

from msgspec import Struct, field

from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.lists import Listing, with_unread
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import (
    Accelerators,
    Node,
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
from trainfleet_exporter.providers.alibaba_pai.api import Api, ListOf, Row, Total, segment
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.jobs import ResourceConfig, gpus
from trainfleet_exporter.providers.values import POOL_STATUS, checked_code, code, gibibytes, quantity, utc_time, whole

# The answers, with the fields that are read.


class NodeStatistics(Row):
    allocated_node_num: float | None = None
    empty_node_num: float | None = None


class QuotaDetails(Row):
    """The capacity of a quota, and its use. Only responses with Verbose have it."""

    actual_min_quota: ResourceConfig | None = None
    allocated_quota: ResourceConfig | None = None
    used_quota: ResourceConfig | None = None
    node_statistics: NodeStatistics | None = None


class QuotaConfig(Row):
    workload_types: list[str] | None = None


class QuotaRow(Row):
    quota_id: str | None = None
    quota_name: str | None = None
    resource_type: str | None = None
    parent_quota_id: str | None = None
    status: str | None = None
    gpu_type: str | None = field(name="GPUType", default=None)
    gmt_created_time: str | None = None
    quota_config: QuotaConfig | None = None
    quota_details: QuotaDetails | None = None


class WorkloadRow(Row):
    workload_id: str | None = None
    workload_type: str | None = None
    status: str | None = None
    position: float | None = None
    code: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    resource: ResourceConfig | None = None


class UserResources(Row):
    used: ResourceConfig | None = None


class UserRow(Row):
    user_id: str | None = None
    username: str | None = None
    resources: UserResources | None = None


class UsersPage(Total):
    """The SDK has two names for the list."""

    usages: list[UserRow | None] | None = field(name="QuotaUserUsages", default=None)
    usage: list[UserRow | None] | None = field(name="QuotaUserUsage", default=None)

    @property
    def rows(self) -> list[UserRow | None] | None:
        return self.usage if self.usages is None else self.usages or self.usage or []


class NodeRow(Row):
    """Bare numbers of memory count GiB. Requests are those of the workloads on it."""

    node_name: str | None = None
    node_type: str | None = None
    node_status: str | None = None
    reason_code: str | None = None
    order_status: str | None = None
    gmt_expired_time: str | None = None
    gpu_type: str | None = field(name="GPUType", default=None)
    cpu: str | float | None = field(name="CPU", default=None)
    memory: str | float | None = None
    gpu: str | float | None = field(name="GPU", default=None)
    request_cpu: str | float | None = field(name="RequestCPU", default=None)
    request_memory: str | float | None = None
    request_gpu: str | float | None = field(name="RequestGPU", default=None)


QUOTAS = ListOf("paistudio", "ListQuotas", QuotaRow, "Quotas", "quota_id")
WORKLOADS = ListOf("paistudio", "ListQuotaWorkloads", WorkloadRow, "Workloads", "workload_id")
USERS = ListOf("paistudio", "ListQuotaActiveUserUsages", UserRow, UsersPage, "user_id")
NODES = ListOf("paistudio", "ListNodes", NodeRow, "Nodes", "node_name")

# Words.

JOBS, TRAINING = "dlc", "training"
"""The type of training jobs in the queue of a quota, and its common word."""
KINDS = {JOBS: TRAINING, "dsw": "notebook", "eas": "service"}
ENQUEUED, RUNNING = "Enqueued", "Running"
NOT_QUEUED = frozenset({"Dequeued", "Running", "Succeeded", "Failed", "Stopped"})
"""States of workloads that wait for nothing; the service may answer more than what was asked for."""

# From answers to the model.


class Quota(Struct, frozen=True):
    """The facts about a quota that others need. `workload_types` are in lower case, as its queue takes them; a quota
    without any runs jobs."""

    name: str
    model: str
    workload_types: tuple[str, ...]
    created: float = 0.0
    """Unix time. Usage from before it is of an earlier quota with the same name."""


def quota(row: QuotaRow) -> Quota:
    capacity = (row.quota_details or QuotaDetails()).actual_min_quota or ResourceConfig()
    types = None if row.quota_config is None else row.quota_config.workload_types
    return Quota(
        name=row.quota_name or "",
        model="" if capacity.gpu in (None, "") else row.gpu_type or "",
        workload_types=tuple(dict.fromkeys(name.lower() for name in types or () if name)) or (JOBS,),
        created=utc_time(row.gmt_created_time) or 0.0,
    )


def pool(row: QuotaRow) -> list[object]:
    """A quota. Its capacity is ActualMinQuota, the resources that are bound to it now."""
    details, pool_id, model = row.quota_details or QuotaDetails(), row.quota_id or "", row.gpu_type or ""
    nodes, capacity = details.node_statistics or NodeStatistics(), details.actual_min_quota or ResourceConfig()
    allocated = details.allocated_quota
    if allocated is None or all(each in (None, "") for each in (allocated.cpu, allocated.memory, allocated.gpu)):
        allocated = details.used_quota or ResourceConfig()  # UsedQuota is being retired in favour of AllocatedQuota
    return [
        Pool(
            pool_id=pool_id,
            name=row.quota_name or "",
            resource_type=row.resource_type or "",
            parent_pool_id=row.parent_quota_id or "",
            status=POOL_STATUS.get(row.status or "", PoolStatus.UNKNOWN),
            allocated_nodes=whole(nodes.allocated_node_num),
            empty_nodes=whole(nodes.empty_node_num),
        ),
        PoolAmounts(
            pool_id=pool_id,
            capacity_cpu_cores=quantity(capacity.cpu),
            capacity_memory_bytes=quantity(capacity.memory),
            capacity_accelerators=gpus(quantity(capacity.gpu), model),
            allocated_cpu_cores=quantity(allocated.cpu),
            allocated_memory_bytes=quantity(allocated.memory),
            allocated_accelerators=gpus(quantity(allocated.gpu), model),
        ),
    ]


class Queue(Struct):
    """The waiting workloads of a quota and its descendants, by type; the accelerators that they ask for, if all say so;
    and the places of jobs."""

    by_type: Counter[str]
    accelerators: float | None
    places: list[QueuePlace]


def queue(rows: Iterable[WorkloadRow], *, unreadable: int = 0) -> Queue:
    """What waits for how much is not known where a row cannot be read, or is in a state that is not known."""
    found = Queue(Counter(), None if unreadable else 0.0, [])
    for row in rows:
        if row.status and row.status != ENQUEUED:
            found.accelerators = found.accelerators if row.status in NOT_QUEUED else None
            continue
        workload_type = (row.workload_type or "").lower()
        found.by_type[workload_type] += 1
        asked = (row.resource or ResourceConfig()).gpus
        found.accelerators = None if found.accelerators is None or asked is None else found.accelerators + asked
        position, reason = whole(row.position), code(row.code)
        if workload_type == JOBS and row.workload_id and (position is not None or reason):
            found.places.append(QueuePlace(row.workload_id, position, reason))
    return found


def users(pool_id: str, rows: Iterable[UserRow], others: Mapping[str, Iterable[WorkloadRow]] | None) -> list[PoolUser]:
    """The GPUs of a quota that each user holds, by type of workload.

    `rows` are the totals of users, `others` running workloads by type, without training jobs, which hold the rest of a
    total. None: the types are not known.
    """
    names: dict[str, str] = {}
    held: defaultdict[tuple[str, str], float] = defaultdict(float)
    asked = [(kind, row, (row.resource or ResourceConfig()).gpus) for kind, of in (others or {}).items() for row in of]
    is_split = others is not None and all(count is not None for _, _, count in asked)
    of_others: defaultdict[str, float] = defaultdict(float)
    for kind, row, count in asked if is_split else ():
        user_id = row.user_id or ""
        names[user_id] = row.user_name or ""
        held[user_id, KINDS.get(kind, kind)] += count or 0.0
        of_others[user_id] += count or 0.0
    for user in rows:
        user_id = user.user_id or ""
        names[user_id] = user.username or names.get(user_id, "")
        used = (user.resources.used if user.resources else None) or ResourceConfig()
        if (total := quantity(used.gpu)) is not None:
            held[user_id, TRAINING if is_split else ""] += max(0.0, total - of_others[user_id])
    found = [(user_id, kind, count) for (user_id, kind), count in held.items() if count]
    return [PoolUser(pool_id, user_id, names[user_id], kind, gpus(count, "")) for user_id, kind, count in found]


def node(row: NodeRow, quota_id: str) -> Node:
    """A node. The vendor documents three reasons (CordonByUser, Expired, Recovering) and no statuses of orders: the
    status of the order counts only for a node that is not ready and has no other reason."""
    model, status = row.gpu_type or "", POOL_STATUS.get(row.node_status or "", PoolStatus.UNKNOWN)
    reason = checked_code(row.reason_code)
    if not reason and status is not PoolStatus.READY:
        reason = checked_code(row.order_status)
    return Node(
        pool_id=quota_id,
        node_name=row.node_name or "",
        node_type=row.node_type or "",
        status=status,
        reason=reason,
        expires=utc_time(row.gmt_expired_time or None),
        capacity_cpu_cores=quantity(row.cpu),
        capacity_memory_bytes=gibibytes(row.memory),
        capacity_accelerators=gpus(quantity(row.gpu), model),
        allocated_cpu_cores=quantity(row.request_cpu),
        allocated_memory_bytes=gibibytes(row.request_memory),
        allocated_accelerators=gpus(quantity(row.request_gpu), model),
    )


# The collectors.


class Pools:
    """The collectors of quotas. `quotas` has them by id."""

    def __init__(self, api: Api, config: AlibabaPaiConfig, fleet: Workspaces) -> None:
        self.quotas: Topic[Mapping[str, Quota]] = Topic("quotas", {})
        self._api, self._config, self._fleet = api, config, fleet
        self._turns: defaultdict[str, FairQueue] = defaultdict(FairQueue)

    @collector("pools")
    async def pools(self, poll: Poll) -> None:
        """One part for the whole list: its pages make sense only together."""
        with self.quotas.polling():
            async with poll.part("quotas") as part:
                listing = await list_quotas(self._api, deadline=part.deadline)
                part.dropped("malformed", listing.malformed)
                shown = [each for row in listing.rows.values() for each in pool(row)]
                found, known = {key: quota(row) for key, row in listing.rows.items()}, self.quotas.value
                ids = with_unread(found, known, malformed=listing.malformed)
                self.quotas.publish({key: found.get(key) or known[key] for key in ids})
                await part.publish(shown)

    @collector("pool_workloads")
    async def pool_workloads(self, poll: Poll) -> None:
        """A part for each quota. A parent's figures include its children's, but the place of a job is shown once."""
        if self._config.collectors.jobs.enabled:
            await self._fleet.wait_briefly(poll.deadline)  # otherwise their places come an interval after them

        async def read(part: Part, quota: Quota) -> None:
            listing = await self._workloads(part, {"Status": ENQUEUED})
            found = queue(listing.rows.values(), unreadable=listing.malformed)
            shown: list[object] = [
                PoolWorkloads(part.key, kind, Status.QUEUED, ENQUEUED, found.by_type[kind])
                for kind in dict.fromkeys((*quota.workload_types, *sorted(found.by_type)))
            ]
            for kind in quota.workload_types:
                query = {"WorkloadType": kind, "WorkloadStatuses": RUNNING}
                count = await self._api.count(WORKLOADS, _path(part, "workloads"), query, deadline=part.deadline)
                shown.append(PoolWorkloads(part.key, kind, Status.RUNNING, RUNNING, count))
            if found.accelerators is not None:
                shown.append(PoolQueue(part.key, (Accelerators("gpu", "", found.accelerators),)))

            def with_places(_: float) -> tuple[Sequence[object], None]:
                """Jobs that hold resources, or wait in another quota by now, have no place, also if this part fails."""
                jobs = [self._fleet.live.get(place.job_id) for place in found.places]
                waits = [job is not None and job.pool_id == part.key and not job.holds_resources for job in jobs]
                return [*shown, *compress(found.places, waits)], None

            await part.publish(with_places(0.0)[0], rebuild=with_places)

        await self._read_each(poll, "pool_workloads", read)

    @collector("pool_users")
    async def pool_users(self, poll: Poll) -> None:
        """A part for each quota. The number of training jobs does not matter for the cost."""

        async def read(part: Part, quota: Quota) -> None:
            path, query = _path(part, "activeuserusages"), {"SelfOnly": "true"}
            listing = await self._api.list_all(USERS, path, query, deadline=part.deadline)
            part.dropped("malformed", listing.malformed)
            others: dict[str, Sequence[WorkloadRow]] | None = {}
            for kind in quota.workload_types:
                if kind != JOBS:
                    query = {"WorkloadType": kind, "WorkloadStatuses": RUNNING, "ShowOwn": "true"}
                    running = await self._workloads(part, query)
                    others = None if others is None or running.malformed else {**others, kind: [*running.rows.values()]}
            await part.publish(users(part.key, listing.rows.values(), others))

        await self._read_each(poll, "pool_users", read)

    @collector("nodes")
    async def nodes(self, poll: Poll) -> None:
        """A part for each quota; a node of a child quota is one of its parent, too. Verbose answers have requests."""

        async def read(part: Part, quota: Quota) -> None:
            query = {"QuotaId": part.key, "Verbose": "true"}
            listing = await self._api.list_all(NODES, "/api/v1/nodes", query, deadline=part.deadline)
            part.dropped("malformed", listing.malformed)
            await part.publish([node(row, part.key) for row in listing.rows.values()])

        await self._read_each(poll, "nodes", read)

    async def _read_each(self, poll: Poll, name: str, read: Callable[[Part, Quota], Awaitable[None]]) -> None:
        quotas = await self.quotas.get()
        poll.keep_only(quotas.keys())
        turns, at_once = self._turns[name], self._fleet.at_once
        await turns.read_each(poll, quotas, lambda part: read(part, quotas[part.key]), at_once=at_once)

    async def _workloads(self, part: Part, query: Mapping[str, str]) -> Listing[WorkloadRow]:
        listing = await self._api.list_all(WORKLOADS, _path(part, "workloads"), query, deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        return listing


def _path(part: Part, what: str) -> str:
    return f"/api/v1/quotas/{segment(part.key)}/{what}"


async def list_quotas(api: Api, *, deadline: float) -> Listing[QuotaRow]:
    """PaiStudio ListQuotas, verbose. ResourceType is left out: that answers all types, and naming ACS fails."""
    return await api.list_all(QUOTAS, "/api/v1/quotas/", {"Verbose": "true"}, deadline=deadline)
