"""Families of a job and its pods: what they are, how they go, when, and what the job asked for."""

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
    # Names and values in turn: which of them are shown is the operator's choice, made by the renderer.
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
    return MetricFamily(f"trainfleet_job_{suffix}", meaning, kind, of, labels, read)


def _pod(suffix: str, meaning: str, read: Read, labels: tuple[str, ...] = ()) -> MetricFamily:
    return MetricFamily(f"trainfleet_pod_{suffix}", meaning, "gauge", Pod, labels, read)


JOB_FAMILIES = (
    _job(
        "info",
        "What a job is, always 1.",
        info("name", "job_type", "workspace_id", "pool_id", "user_id", "user_name", "resource_type", "payment_type"),
        (
            "job_name",
            "job_type",
            "workspace_id",
            "pool_id",
            "user_id",
            "user_name",
            "resource_type",
            "payment_type",
        ),
    ),
    _job("labels", "Tags of a job that the config names in job_labels, always 1.", _tags, None),
    _job("status", "1 for the present status of a job.", word("status"), ("status",)),
    _job(
        "platform_status",
        "1 for the present status of a job in the platform's own word.",
        word("platform_status"),
        ("platform_status",),
    ),
    _job("status_reason", "1 for the platform's reason code of the present status.", word("reason"), ("reason",)),
    _job(
        "holds_resources",
        "1 while the accelerators of a job are held, 0 while not; absent where it cannot be told.",
        flag("holds_resources"),
    ),
    _job("queue_position", "Place of a job in the queue of its pool; 1 is next.", number("position"), of=QueuePlace),
    _job("priority", "Priority of a job.", number("priority")),
    _job("created_timestamp_seconds", "Unix time at which the job was created.", number("created")),
    _job("submitted_timestamp_seconds", "Unix time at which the job was submitted.", number("submitted")),
    _job("started_timestamp_seconds", "Unix time at which the job began to run.", number("started")),
    _job("finished_timestamp_seconds", "Unix time at which the job finished.", number("finished")),
    _job("duration_seconds", "Duration of a job as the platform counts it.", number("duration")),
    _job("restarts_total", "Runs of a job after its first.", number("restarts"), kind="counter"),
    _job("restarts_allowed", "How often a job may restart.", number("restarts_allowed"), of=JobPods),
    _job("requested_cpu_cores", "CPU cores that the whole job asked for.", number("cpu_cores")),
    _job("requested_memory_bytes", "Memory that the whole job asked for.", number("memory_bytes")),
    _job("requested_nodes", "Nodes that the whole job asked for.", number("nodes")),
    _job(
        "requested_accelerators",
        "Accelerators that the whole job asked for.",
        accelerators("accelerators"),
        ACCELERATOR_LABELS,
    ),
    _job("requested_pods", "Pods wanted, by role.", amounts("requested", "role"), ("role",), of=JobPods),
    _job("replaced_pods", "Earlier incarnations of pods, by role.", amounts("replaced", "role"), ("role",), of=JobPods),
    _job(
        "pods",
        "Present pods of a job, by role and status.",
        amounts("present", "role", "status"),
        ("role", "status"),
        of=JobPods,
    ),
)

POD_FAMILIES = (
    _pod(
        "info",
        "What a pod is and where it is placed, always 1.",
        info("role", "node_name", "pod_ip"),
        ("role", "node_name", "pod_ip"),
    ),
    _pod("status", "1 for the present status of a pod.", word("status"), ("status",)),
    _pod("evicted", "1 if the pod or an earlier incarnation of it was evicted, else 0.", flag("evicted")),
    _pod("created_timestamp_seconds", "Unix time at which the pod was created.", number("created")),
    _pod("started_timestamp_seconds", "Unix time at which the pod started.", number("started")),
    _pod("finished_timestamp_seconds", "Unix time at which the pod finished.", number("finished")),
)
"""Of a pod in its present incarnation."""
