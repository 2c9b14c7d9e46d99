"""Families of a job: what it is, how it goes, when, and what it asked for."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import Literal

from trainfleet_exporter.exposition.family import (
    ACCELERATOR_LABELS,
    Family,
    OfSource,
    Read,
    Samples,
    accelerators,
    amounts,
    described,
    flag,
    info,
    number,
    word,
)
from trainfleet_exporter.model import Job, JobPods, QueuePlace

_LIST = "PAI-DLC ListJobs"
_DETAIL = "PAI-DLC GetJob"
_V2 = "ModelArts training-job-searches, items[]"
_V1 = "ModelArts v1 training-jobs and versions"


def _tags(tags: tuple[tuple[str, str], ...]) -> Samples:
    # Names and values in turn: which of them are shown is the operator's choice, made by the renderer.
    return ((tuple(chain.from_iterable(tags)), 1),) if tags else ()


def _job(
    suffix: str,
    help_text: str,
    read: Read,
    labels: tuple[str, ...] | None = (),
    kind: Literal["gauge", "counter"] = "gauge",
) -> Family:
    return Family(f"trainfleet_job_{suffix}", help_text, kind, Job, labels, read)


def _detail(suffix: str, help_text: str, read: Read, labels: tuple[str, ...] = ()) -> Family:
    return Family(f"trainfleet_job_{suffix}", help_text, "gauge", JobPods, labels, read)


def _moment(name: str, meaning: str, field: str, v2_field: str = "") -> Family:
    sources = [f"{_LIST}, Jobs[].{field}"] + ([f"{_V2}.{v2_field}"] if v2_field else [])
    sources += [_V1] if name in {"created", "started"} else []
    help_text = described(f"Unix time at which the job {meaning}", *sources)
    return _job(f"{name}_timestamp_seconds", help_text, number(name))


JOB_FAMILIES = (
    _job(
        "info",
        described(
            "What a job is, always 1",
            f"{_LIST}, Jobs[].DisplayName, JobType, WorkspaceId, ResourceId, UserId, Username, ResourceType, and "
            "JobSpecs[].UseSpotInstance for payment_type",
            f"{_V2}.metadata.name, kind, metadata.user_name, spec.resource",
            _V1,
        ),
        info(
            "name",
            "job_type",
            "workspace_id",
            "pool_id",
            "user_id",
            "user_name",
            "resource_type",
            "payment_type",
        ),
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
    _job(
        "labels",
        described(
            "Tags of a job that the config names in job_labels, always 1",
            f"{_LIST}, Jobs[].Settings.Tags",
            f"{_V2}.metadata.annotations and tags",
        ),
        OfSource(attrgetter("tags"), _tags),
        None,
    ),
    _job(
        "status",
        described(
            "1 for the present status of a job", f"{_LIST}, Jobs[].Status and SubStatus", f"{_V2}.status.phase", _V1
        ),
        word("status"),
        ("status",),
    ),
    _job(
        "platform_status",
        described(
            "1 for the present status of a job in the platform's own word",
            f"{_LIST}, Jobs[].Status",
            f"{_V2}.status.phase",
            _V1,
        ),
        word("platform_status"),
        ("platform_status",),
    ),
    _job(
        "status_reason",
        described(
            "1 for the platform's reason code of the present status",
            f"{_LIST}, Jobs[].ReasonCode",
            f"{_V2}.status.running_records[].end_reason",
        ),
        word("reason"),
        ("reason",),
    ),
    _job(
        "holds_resources",
        described(
            "1 while the accelerators of a job are held, 0 while not; absent where it cannot be told",
            f"{_LIST}, Jobs[].Status and SubStatus",
            f"{_V2}.status.phase",
            _V1,
            experimental="whether a starting job holds them already is unproven",
        ),
        flag("holds_resources"),
    ),
    Family(
        name="trainfleet_job_queue_position",
        help=described(
            "Place of a job in the queue of its pool; 1 is next",
            "PAI PaiStudio ListQuotaWorkloads, Workloads[].Position",
            "ModelArts pools/{pool}/workloads, items[].pendingPosition",
        ),
        kind="gauge",
        of=QueuePlace,
        labels=(),
        read=number("position"),
    ),
    _job(
        "priority",
        described("Priority of a job", f"{_LIST}, Jobs[].Priority", f"{_V2}.spec.schedule_policy.priority"),
        number("priority"),
    ),
    _moment("created", "was created", "GmtCreateTime", "metadata.create_time"),
    _moment("submitted", "was submitted", "GmtSubmittedTime"),
    _moment("started", "began to run", "GmtRunningTime", "status.start_time"),
    _moment(
        "finished",
        "finished",
        "GmtFinishTime, or GmtSuccessedTime, GmtFailedTime, GmtStoppedTime",
        "status.running_records[].end_at",
    ),
    _job(
        "duration_seconds",
        described(
            "Duration of a job as the platform counts it", f"{_LIST}, Jobs[].Duration", f"{_V2}.status.duration", _V1
        ),
        number("duration"),
    ),
    _job(
        "restarts_total",
        described("Runs of a job after its first", f"{_LIST}, Jobs[].RestartTimes", f"{_V2}.status.running_records[]"),
        number("restarts"),
        kind="counter",
    ),
    _detail(
        "restarts_allowed",
        described("How often a job may restart", f"{_DETAIL}, RestartTimes", f"{_V2}.metadata.annotations"),
        number("restarts_allowed"),
    ),
    _job(
        "requested_cpu_cores",
        described(
            "CPU cores that the whole job asked for",
            f"{_LIST}, Jobs[].RequestCPU, or JobSpecs[] with ListEcsSpecs",
            f"{_V2}.spec.resource",
        ),
        number("cpu_cores"),
    ),
    _job(
        "requested_memory_bytes",
        described(
            "Memory that the whole job asked for",
            f"{_LIST}, Jobs[].RequestMemory, or JobSpecs[] with ListEcsSpecs",
            f"{_V2}.spec.resource",
            experimental="the unit is unproven where the platform gives a bare number or a machine type",
        ),
        number("memory_bytes"),
    ),
    _job(
        "requested_nodes",
        described(
            "Nodes that the whole job asked for", f"{_LIST}, Jobs[].NodeCount", f"{_V2}.spec.resource.node_count"
        ),
        number("nodes"),
    ),
    _job(
        "requested_accelerators",
        described(
            "Accelerators that the whole job asked for",
            f"{_LIST}, Jobs[].RequestGPU, or JobSpecs[] with ListEcsSpecs",
            f"{_V2}.spec.resource",
            _V1,
        ),
        accelerators("accelerators"),
        ACCELERATOR_LABELS,
    ),
    _detail(
        "requested_pods",
        described("Pods wanted, by role", f"{_DETAIL}, JobSpecs[].PodCount"),
        amounts("requested", "role"),
        ("role",),
    ),
    _detail(
        "replaced_pods",
        described("Earlier incarnations of pods, by role", f"{_DETAIL}, Pods[].HistoryPods[]"),
        amounts("replaced", "role"),
        ("role",),
    ),
    _detail(
        "pods",
        described("Present pods of a job, by role and status", f"{_DETAIL}, Pods[].Type and Status"),
        amounts("present", "role", "status"),
        ("role", "status"),
    ),
)
