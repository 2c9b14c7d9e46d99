"""From PaiStudio's payloads about quotas to the model: what they are and have, their queues, their nodes.

Payloads: ListQuotas (Verbose), ListQuotaWorkloads, ListQuotaActiveUserUsages, ListNodes (Verbose).
Amounts are texts, memory with its suffix; but
ListNodes gives memory as bare numbers of GiB. A function returns None for an object that has no id.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from trainfleet_exporter.model import Accelerators, Node, Pool, PoolAmounts, PoolStatus, PoolUser, QueuePlace
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.jobs.history import checked_code, code
from trainfleet_exporter.providers.values import POOL_STATUS, gibibytes, quantity, utc_time, whole
from trainfleet_exporter.transport.json_fields import unusable

JOBS = "dlc"
"""The type of training jobs in the queue of a quota."""
TRAINING = "training"
_KINDS = {JOBS: TRAINING, "dsw": "notebook", "eas": "service"}
_NOT_QUEUED = frozenset({"Dequeued", "Running", "Succeeded", "Failed", "Stopped"})
"""States of workloads that wait for nothing; the service may answer more than what was asked for."""
ENQUEUED = "Enqueued"


_NO_DETAILS: Final = payloads.QuotaDetails()
_NO_AMOUNT: Final = payloads.ResourceAmount()
_NO_NODES: Final = payloads.NodeStatistics()
_NO_RESOURCE: Final = payloads.WorkloadResource()
_NO_RESOURCES: Final = payloads.UserResources()


def pool(row: payloads.Quota) -> Pool | None:
    """Translate a row of ListQuotas (Verbose)."""
    if not row.quota_id:
        return None
    nodes = (row.quota_details or _NO_DETAILS).node_statistics or _NO_NODES
    return Pool(
        pool_id=row.quota_id,
        name=row.quota_name or "",
        resource_type=row.resource_type or "",
        parent_pool_id=row.parent_quota_id or "",
        status=POOL_STATUS.get(row.status or "", PoolStatus.UNKNOWN),
        allocated_nodes=whole(nodes.allocated_node_num),
        empty_nodes=whole(nodes.empty_node_num),
    )


@dataclass(frozen=True, slots=True)
class Quota:
    """The facts about a quota that other collectors need."""

    name: str
    accelerator_model: str
    """GPUType; empty if the quota has no accelerators."""
    workload_types: tuple[str, ...]
    """In lower case, as the queue of the quota takes them."""


def quota(row: payloads.Quota) -> Quota:
    """Return the facts that other collectors need from a row of ListQuotas. A quota without workload types runs
    jobs."""
    capacity = (row.quota_details or _NO_DETAILS).actual_min_quota or _NO_AMOUNT
    types = None if row.quota_config is None else row.quota_config.workload_types
    return Quota(
        name=row.quota_name or "",
        accelerator_model="" if quantity(capacity.gpu) is None else row.gpu_type or "",
        workload_types=tuple(dict.fromkeys(name.lower() for name in types or () if name)) or (JOBS,),
    )


def pool_amounts(row: payloads.Quota) -> PoolAmounts:
    """Return the capacity in a row of ListQuotas: ActualMinQuota, the resources that are bound to it now."""
    details = row.quota_details or _NO_DETAILS
    capacity = details.actual_min_quota or _NO_AMOUNT
    allocated = details.allocated_quota
    if allocated is None or allocated == _NO_AMOUNT:
        allocated = details.used_quota or _NO_AMOUNT  # UsedQuota is being retired in favour of AllocatedQuota
    model = row.gpu_type or ""
    return PoolAmounts(
        pool_id=row.quota_id or "",
        capacity_cpu_cores=quantity(capacity.cpu),
        capacity_memory_bytes=quantity(capacity.memory),
        capacity_accelerators=gpus(quantity(capacity.gpu), model),
        allocated_cpu_cores=quantity(allocated.cpu),
        allocated_memory_bytes=quantity(allocated.memory),
        allocated_accelerators=gpus(quantity(allocated.gpu), model),
    )


@dataclass(frozen=True, slots=True)
class Queue:
    """The waiting workloads of a quota and its descendants."""

    by_type: Mapping[str, int]
    accelerators: float | None
    """The sum of their requested accelerators; None if one workload does not have it."""
    places: tuple[QueuePlace, ...]
    """The jobs that wait in this very quota."""


def queue(rows: Iterable[payloads.Workload], quota_id: str, *, unreadable: int = 0) -> Queue:
    """The rows of ListQuotaWorkloads (Status Enqueued) of one quota, and how many others could not be read.

    What waits for how much is not known where a row cannot be read, or is in a state that is not known.
    """
    by_type: Counter[str] = Counter()
    places = []
    accelerators: float | None = None if unreadable else 0.0
    for row in rows:
        if row.status and row.status != ENQUEUED:
            accelerators = accelerators if row.status in _NOT_QUEUED else None
            continue
        workload_type = (row.workload_type or "").lower()
        by_type[workload_type] += 1
        asked = _asked_gpus(row.resource or _NO_RESOURCE)
        accelerators = None if accelerators is None or asked is None else accelerators + asked
        position = whole(row.position)
        if workload_type == JOBS and row.quota_id == quota_id and row.workload_id:
            reason = code(row.code)
            if position is not None or reason:
                places.append(QueuePlace(row.workload_id, position, reason))
    return Queue(by_type, accelerators, tuple(places))


def _asked_gpus(resource: payloads.WorkloadResource) -> float | None:
    """Return the requested GPUs: 0 if other amounts are given without GPUs, None if there are no amounts, or unreadable
    ones."""
    if resource.gpu is None or resource.gpu == "":
        return None if resource == _NO_RESOURCE else 0.0
    if isinstance(resource.gpu, str | int | float) and not isinstance(resource.gpu, bool):
        return quantity(resource.gpu)
    unusable(resource.gpu, "malformed")
    return None


def users(
    pool_id: str, rows: Iterable[payloads.QuotaUser], others: Mapping[str, Iterable[payloads.Workload]] | None
) -> list[PoolUser]:
    """Return the number of GPUs of a quota that each user holds, by type of workload.

    `rows` are those of ListQuotaActiveUserUsages, the totals of users. `others` are running workloads by type, without
    training jobs. Training jobs hold the rest of a total. None: the types are not known.
    """
    names: dict[str, str] = {}
    held: defaultdict[tuple[str, str], float] = defaultdict(float)
    asked = {
        kind: [(row, _asked_gpus(row.resource or _NO_RESOURCE)) for row in of] for kind, of in (others or {}).items()
    }
    if others is None or any(count is None for of in asked.values() for _, count in of):
        asked, rest_of = {}, ""
    else:
        rest_of = TRAINING
    for kind, of in asked.items():
        for row, count in of:
            names[row.user_id or ""] = row.user_name or ""
            held[row.user_id or "", _KINDS.get(kind, kind)] += count or 0.0
    by_user: defaultdict[str, float] = defaultdict(float)
    for (user_id, _), count in held.items():
        by_user[user_id] += count
    for user in rows:
        user_id = user.user_id or ""
        names[user_id] = user.username or names.get(user_id, "")
        used = (user.resources or _NO_RESOURCES).used or _NO_AMOUNT
        total = quantity(used.gpu)
        if total is not None:
            held[user_id, rest_of] += max(0.0, total - by_user[user_id])
    return [
        PoolUser(pool_id, user_id, names[user_id], kind, gpus(count, ""))
        for (user_id, kind), count in held.items()
        if count
    ]


def node(row: payloads.Node, quota_id: str) -> Node | None:
    """A row of ListNodes. What is requested of a node is what the workloads on it hold, not what they use.

    The vendor documents three reasons (CordonByUser, Expired, Recovering) and no statuses of orders. So the status of
    the order counts only for a node that is not ready and has no other reason.
    """
    if not row.node_name:
        return None
    model = row.gpu_type or ""
    status = POOL_STATUS.get(row.node_status or "", PoolStatus.UNKNOWN)
    reason = checked_code(row.reason_code)
    if not reason and status is not PoolStatus.READY:
        reason = checked_code(row.order_status)
    return Node(
        pool_id=quota_id,
        node_name=row.node_name,
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


def gpus(count: float | None, model: str) -> tuple[Accelerators, ...]:
    """PAI reports only GPUs. Other accelerators would be under GPU, too, with a different GPUType."""
    return () if count is None else (Accelerators("gpu", model, count),)
