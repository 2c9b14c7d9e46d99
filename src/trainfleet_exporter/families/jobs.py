"""Families of a job and its pods: names, statuses, times, and what the job requests."""

from __future__ import annotations

from itertools import chain
from typing import Literal

from trainfleet_exporter.families.family import (
    ACCELERATOR_LABELS,
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
from trainfleet_exporter.model import Job, JobPods, Pod, QueuePlace


def _tags(found: Job) -> Samples:
    # Names and values in turn: the renderer picks those that the config selects.
    return ((tuple(chain.from_iterable(found.tags)), 1),) if found.tags else ()


def _job(
    suffix: str,
    meaning: str,
    read: Read,
    labels: tuple[str, ...] | None = (),
    *,
    kind: Literal["gauge", "counter"] = "gauge",
    of: type = Job,
) -> MetricFamily:
    return MetricFamily(f"trainfleet_job_{suffix}", meaning, of, read, labels, kind)


def _pod(suffix: str, meaning: str, read: Read, labels: tuple[str, ...] = ()) -> MetricFamily:
    return MetricFamily(f"trainfleet_pod_{suffix}", meaning, Pod, read, labels)


JOB_FAMILIES = (
    _job(
        "info",
        "Name, type, owner and place of a job; always 1.",
        info("name", "job_type", "workspace_id", "pool_id", "user_id", "user_name", "resource_type", "payment_type"),
        ("job_name", "job_type", "workspace_id", "pool_id", "user_id", "user_name", "resource_type", "payment_type"),
    ),
    _job(
        "labels",
        "Tags of a job that metrics.job_labels of the config selects; always 1. Absent if the job has none of them.",
        _tags,
        None,
    ),
    _job(
        "status",
        "1 for the current status of a job. Absent for the other statuses.",
        word("status"),
        ("status",),
    ),
    _job(
        "platform_status",
        "1 for the current status of a job as the platform names it. Absent for the other statuses.",
        word("platform_status"),
        ("platform_status",),
    ),
    _job(
        "status_reason",
        "1 for the platform's reason code of the current status of a job. Absent if there is none.",
        word("reason"),
        ("reason",),
    ),
    _job(
        "holds_resources",
        "1 if a job holds its accelerators, else 0. Absent if the status does not show it.",
        flag("holds_resources"),
    ),
    _job(
        "queue_position",
        "Position of a job in the queue of its pool; 1 is next. Absent if the job is not queued.",
        number("position"),
        of=QueuePlace,
    ),
    _job("priority", "Scheduling priority of a job. Absent if the platform reports none.", number("priority")),
    _job(
        "created_timestamp_seconds",
        "Unix time in seconds at which a job was created. Absent if the platform does not report it.",
        number("created"),
    ),
    _job(
        "submitted_timestamp_seconds",
        "Unix time in seconds at which a job was submitted. Absent if the platform does not report it.",
        number("submitted"),
    ),
    _job(
        "started_timestamp_seconds",
        "Unix time in seconds at which a job began to run. Absent until then.",
        number("started"),
    ),
    _job(
        "finished_timestamp_seconds",
        "Unix time in seconds at which a job finished. Absent until then.",
        number("finished"),
    ),
    _job(
        "duration_seconds",
        "Duration of a job in seconds, as the platform counts it. Absent if the platform reports none.",
        number("duration"),
    ),
    _job(
        "restarts_total",
        "Restarts of a job. Absent if the platform does not report them.",
        number("restarts"),
        kind="counter",
    ),
    _job(
        "restarts_allowed",
        "Largest number of restarts that a job may make. Absent if the platform reports no limit.",
        number("restarts_allowed"),
        of=JobPods,
    ),
    _job(
        "requested_cpu_cores",
        "CPU cores that a job requests for all its pods. Absent if the platform reports none.",
        number("cpu_cores"),
    ),
    _job(
        "requested_memory_bytes",
        "Memory in bytes that a job requests for all its pods. Absent if the platform reports none.",
        number("memory_bytes"),
    ),
    _job(
        "requested_nodes",
        "Nodes that a job requests. Absent if the platform reports none.",
        number("nodes"),
    ),
    _job(
        "requested_accelerators",
        "Accelerators that a job requests for all its pods, by kind and model. Absent if it requests none.",
        accelerators("accelerators"),
        ACCELERATOR_LABELS,
    ),
    _job(
        "requested_pods",
        "Pods that a job requests, by role.",
        amounts("requested", "role"),
        ("role",),
        of=JobPods,
    ),
    _job(
        "replaced_pods",
        "Pods of a job that newer pods replaced, by role. Absent if there are none.",
        amounts("replaced", "role"),
        ("role",),
        of=JobPods,
    ),
    _job(
        "pods",
        "Current pods of a job, by role and status. Absent if there are none.",
        amounts("present", "role", "status"),
        ("role", "status"),
        of=JobPods,
    ),
)

POD_FAMILIES = (
    _pod(
        "info",
        "Role, node and address of a pod; always 1.",
        info("role", "node_name", "pod_ip"),
        ("role", "node_name", "pod_ip"),
    ),
    _pod(
        "status",
        "1 for the current status of a pod. Absent for the other statuses.",
        word("status"),
        ("status",),
    ),
    _pod(
        "evicted",
        "1 if a pod or a pod that it replaced was evicted, else 0. Absent if the platform does not report it.",
        flag("evicted"),
    ),
    MetricFamily(
        "trainfleet_pod_evictions_total",
        "Evictions of a pod and of the pods that it replaced. Absent if the platform does not report them.",
        Pod,
        number("evictions"),
        kind="counter",
    ),
    _pod(
        "created_timestamp_seconds",
        "Unix time in seconds at which a pod was created. Absent if the platform does not report it.",
        number("created"),
    ),
    _pod(
        "started_timestamp_seconds",
        "Unix time in seconds at which a pod started. Absent until then.",
        number("started"),
    ),
    _pod(
        "finished_timestamp_seconds",
        "Unix time in seconds at which a pod finished. Absent until then.",
        number("finished"),
    ),
)
"""Of the current pod, not of pods that it replaced."""
