"""The rows of all families, in the order of the public contract. Those of usage have a table of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from trainfleet_exporter.families.family import (
    MetricFamily,
    Read,
    Samples,
    accelerators,
    amounts,
    flag,
    info,
    number,
    word,
)
from trainfleet_exporter.families.usage import USAGE_FAMILIES
from trainfleet_exporter.model import (
    FinishedCount,
    Job,
    JobCount,
    JobFaults,
    JobPods,
    JobTime,
    Node,
    NodeFaults,
    NodeMaintenance,
    Pod,
    PodExit,
    Pool,
    PoolAmounts,
    PoolQueue,
    PoolUser,
    PoolWaits,
    PoolWorkloads,
    ProviderFacts,
    ProviderQuota,
    QueuePlace,
    Workspace,
)

_MODELS = ("accelerator", "accelerator_model")
_OWNERS = ("job_type", "workspace_id", "pool_id", "user_id", "user_name", "resource_type", "payment_type")
_PLACE = ("role", "node_name", "pod_ip")
_NONE = "Absent if the platform reports none."
_UNREPORTED = "Absent if the platform does not report it."
_CURRENT = "Absent for the other statuses."


def _tags(found: Sequence[Job], names: Sequence[str]) -> Samples:
    # Names and values in turn: the renderer picks those that the config selects.
    return names, [tuple(chain.from_iterable(each.tags)) for each in found], [1] * len(names)


def _row(name: str, meaning: str, of: type, read: Read, *labels: str) -> MetricFamily:
    return MetricFamily(
        f"trainfleet_{name}", meaning, of, read, labels, "counter" if name.endswith("_total") else "gauge"
    )


def _times(what: str, of: type, **events: str) -> Iterator[MetricFamily]:
    """Times of a job or pod, by the field of its class. What has not begun or finished has none yet."""
    for field, event in events.items():
        absent = "Absent until then." if field in ("started", "finished") else _UNREPORTED
        meaning = f"Unix time in seconds at which a {what} {event}. {absent}"
        yield _row(f"{what}_{field}_timestamp_seconds", meaning, of, number(field))


def _amounts(which: str, of: type, whose: str, *, name: str) -> tuple[MetricFamily, ...]:
    """CPU, memory and accelerators of a pool or node; `which` is capacity or allocated."""
    rest = f"of a {whose}. {_NONE}"
    return (
        _row(f"{name}_{which}_cpu_cores", f"CPU cores {rest}", of, number(f"{which}_cpu_cores")),
        _row(f"{name}_{which}_memory_bytes", f"Memory in bytes {rest}", of, number(f"{which}_memory_bytes")),
        _row(
            f"{name}_{which}_accelerators", f"Accelerators {rest}", of, accelerators(f"{which}_accelerators"), *_MODELS
        ),
    )


_POOL = "pool and its nested pools"
_POOL_HAS = _amounts("capacity", PoolAmounts, _POOL, name="pool")
_POOL_HELD = _amounts("allocated", PoolAmounts, f"{_POOL} that workloads hold", name="pool")
_NODE_HAS = _amounts("capacity", Node, "node", name="node")
_NODE_HELD = _amounts("allocated", Node, "node that its workloads request", name="node")

FAMILIES: tuple[MetricFamily, ...] = (
    _row(
        "provider_info",
        "A configured provider; always 1.",
        ProviderFacts,
        info("platform", "region", "project_id"),
        *("platform", "region", "project_id"),
    ),
    _row("workspace_info", "A workspace; always 1.", Workspace, info("name"), "workspace_name"),
    _row(
        "jobs",
        "Jobs by status. Finished jobs count if they were created within job_window.",
        JobCount,
        number("count", "status", "platform_status"),
        *("status", "platform_status"),
    ),
    _row(
        "jobs_finished_total",
        "Jobs that finished since the exporter started, by final status.",
        FinishedCount,
        number("count", "status"),
        "status",
    ),
    _row(
        "job_info", "Name, type, owner and place of a job; always 1.", Job, info("name", *_OWNERS), "job_name", *_OWNERS
    ),
    MetricFamily(
        "trainfleet_job_labels",
        "Tags of a job that metrics.job_labels of the config selects; always 1. Absent if the job has none of them.",
        Job,
        _tags,
        labels=None,
    ),
    _row("job_status", f"1 for the current status of a job. {_CURRENT}", Job, word("status"), "status"),
    _row(
        "job_platform_status",
        f"1 for the current status of a job as the platform names it. {_CURRENT}",
        Job,
        word("platform_status"),
        "platform_status",
    ),
    _row(
        "job_status_reason",
        "1 for the platform's reason code of the current status of a job. Absent if there is none.",
        Job,
        word("reason"),
        "reason",
    ),
    _row(
        "job_holds_resources",
        "1 if a job holds its accelerators, else 0. Absent if the status does not show it.",
        Job,
        flag("holds_resources"),
    ),
    _row(
        "job_queue_position",
        "Position of a job in the queue of its pool; 1 is next. Absent if the job is not queued.",
        QueuePlace,
        number("position"),
    ),
    _row("job_priority", f"Scheduling priority of a job. {_NONE}", Job, number("priority")),
    *_times("job", Job, created="was created", submitted="was submitted", started="began to run", finished="finished"),
    _row(
        "job_duration_seconds",
        f"Duration of a job in seconds, as the platform counts it. {_NONE}",
        Job,
        number("duration"),
    ),
    _row(
        "job_restarts_total", "Restarts of a job. Absent if the platform does not report them.", Job, number("restarts")
    ),
    _row(
        "job_restarts_allowed",
        "Largest number of restarts that a job may make. Absent if the platform reports no limit.",
        JobPods,
        number("restarts_allowed"),
    ),
    _row(
        "job_requested_cpu_cores", f"CPU cores that a job requests for all its pods. {_NONE}", Job, number("cpu_cores")
    ),
    _row(
        "job_requested_memory_bytes",
        f"Memory in bytes that a job requests for all its pods. {_NONE}",
        Job,
        number("memory_bytes"),
    ),
    _row("job_requested_nodes", f"Nodes that a job requests. {_NONE}", Job, number("nodes")),
    _row(
        "job_requested_accelerators",
        "Accelerators that a job requests for all its pods, by kind and model. Absent if it requests none.",
        Job,
        accelerators("accelerators", zeros=False),
        *_MODELS,
    ),
    _row("job_requested_pods", "Pods that a job requests, by role.", JobPods, amounts("requested", "role"), "role"),
    _row(
        "job_replaced_pods",
        "Pods of a job that newer pods replaced, by role. Absent if there are none.",
        JobPods,
        amounts("replaced", "role"),
        "role",
    ),
    _row(
        "job_pods",
        "Current pods of a job, by role and status. Absent if there are none.",
        JobPods,
        amounts("present", "role", "status"),
        *("role", "status"),
    ),
    # Times of the current pod, not of pods that it replaced.
    _row("pod_info", "Role, node and address of a pod; always 1.", Pod, info(*_PLACE), *_PLACE),
    _row("pod_status", f"1 for the current status of a pod. {_CURRENT}", Pod, word("status"), "status"),
    _row(
        "pod_evicted", f"1 if a pod or a pod that it replaced was evicted, else 0. {_UNREPORTED}", Pod, flag("evicted")
    ),
    _row(
        "pod_evictions_total",
        "Evictions of a pod and of the pods that it replaced. Absent if the platform does not report them.",
        Pod,
        number("evictions"),
    ),
    *_times("pod", Pod, created="was created", started="started", finished="finished"),
    # The figures of a parent pool include those of its nested pools.
    _row(
        "pool_info",
        "Name, type and parent of a pool; always 1. In sums, select pools with an empty parent_pool_id.",
        Pool,
        info("name", "resource_type", "parent_pool_id"),
        *("pool_name", "resource_type", "parent_pool_id"),
    ),
    _row("pool_status", f"1 for the current status of a pool. {_CURRENT}", Pool, word("status"), "status"),
    _row(
        "pool_nodes",
        "Nodes of a pool, by status. Available nodes are healthy, but may be in use.",
        Pool,
        amounts("nodes", "status"),
        "status",
    ),
    _row(
        "pool_allocated_nodes", f"Nodes of a pool that have workloads. {_UNREPORTED}", Pool, number("allocated_nodes")
    ),
    _row("pool_empty_nodes", f"Nodes of a pool that have no workloads. {_UNREPORTED}", Pool, number("empty_nodes")),
    _row(
        "pool_queued_accelerators",
        "Accelerators that queued workloads of a pool request.",
        PoolQueue,
        amounts("accelerators", "kind"),
        "accelerator",
    ),
    *(*_POOL_HAS[:2], *_POOL_HELD[:2], *_POOL_HAS[2:], *_POOL_HELD[2:]),
    _row(
        "pool_workloads",
        "Workloads of a pool, by type and status.",
        PoolWorkloads,
        number("count", "workload_type", "status", "platform_status"),
        *("workload_type", "status", "platform_status"),
    ),
    _row(
        "pool_user_accelerators",
        "Accelerators that workloads of a user hold in a pool, without its nested pools.",
        PoolUser,
        amounts("accelerators", "kind"),
        "accelerator",
    ),
    _row(
        "node_info", "Type and address of a node; always 1.", Node, info("node_type", "node_ip"), "node_type", "node_ip"
    ),
    _row("node_status", f"1 for the current status of a node. {_CURRENT}", Node, word("status"), "status"),
    _row(
        "node_status_reason",
        "1 for the platform's reason code of a node that is not ready or takes no workloads. Absent without a reason.",
        Node,
        word("reason"),
        "reason",
    ),
    _row(
        "node_expiry_timestamp_seconds",
        "Unix time in seconds at which the lease of a node ends. Absent if the platform reports no end.",
        Node,
        number("expires"),
    ),
    *(*_NODE_HAS[:2], *_NODE_HELD[:2], *_NODE_HAS[2:], *_NODE_HELD[2:]),
    _row(
        "node_maintenance_timestamp_seconds",
        "Unix time in seconds at which announced maintenance of a node begins. Absent after the maintenance ends.",
        NodeMaintenance,
        number("begins", "kind", "state"),
        *("kind", "state"),
    ),
    _row(
        "provider_job_quota",
        "Largest number of training jobs that the quota of the cloud project allows. Absent without a quota.",
        ProviderQuota,
        number("limit"),
    ),
    _row(
        "provider_job_quota_used",
        "Training jobs that count against the quota of the cloud project. Absent without a quota.",
        ProviderQuota,
        number("used"),
    ),
    *USAGE_FAMILIES,
    _row(
        "job_phase_seconds",
        "Seconds that a job has spent in a phase so far. Absent before the phase begins and without a history.",
        JobTime,
        amounts("phases", "phase", value="seconds"),
        "phase",
    ),
    _row(
        "job_faults_total",
        "Faults of a job since the exporter started, by cause. Absent before the first one and without a history.",
        JobFaults,
        amounts("faults", "cause", "platform_cause"),
        *("cause", "platform_cause"),
    ),
    _row(
        "job_recoveries_total",
        "Finished recoveries of a job since the exporter started, by strategy and result. Absent before the first one.",
        JobFaults,
        amounts("recoveries", "strategy", "result"),
        *("strategy", "result"),
    ),
    _row(
        "job_recovery_seconds_total",
        "Seconds that finished recoveries of a job took. Counts recoveries that began since the exporter started.",
        JobFaults,
        number("recovery_seconds"),
    ),
    _row(
        "node_faults_total",
        "Faults that the platform attributes to a node since the exporter started. Absent before the first one.",
        NodeFaults,
        amounts("faults", "cause"),
        "cause",
    ),
    *(
        MetricFamily(
            f"trainfleet_job_{name}_seconds",
            f"Seconds that jobs {field} before they first ran. Counts jobs that first ran since the exporter started.",
            PoolWaits,
            number(field),
            kind="histogram",
        )
        for name, field in (("queue_wait", "queued"), ("startup", "prepared"))
    ),
    _row(
        "job_pending_reason",
        "1 for the platform's reason code of a queued job. Absent if there is none.",
        QueuePlace,
        word("reason"),
        "reason",
    ),
    _row("pod_exit_code", "Exit code of a pod that has ended. Absent until then.", PodExit, number("exit_code")),
)
