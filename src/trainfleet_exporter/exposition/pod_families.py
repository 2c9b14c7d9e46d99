"""Families of a pod, in its present incarnation."""

from __future__ import annotations

from trainfleet_exporter.exposition.family import Family, Read, described, flag, info, number, word
from trainfleet_exporter.model import Pod


def _pod(suffix: str, meaning: str, fields: str, read: Read, labels: tuple[str, ...] = ()) -> Family:
    sources = [f"PAI-DLC GetJob, Pods[].{fields}"]
    if suffix == "info":
        sources += ["ModelArts training-job-searches, items[].status.tasks", "ModelArts v1 log/file-names"]
    help_text = described(meaning, *sources)
    return Family(f"trainfleet_pod_{suffix}", help_text, "gauge", Pod, labels, read)


POD_FAMILIES = (
    _pod(
        "info",
        "What a pod is and where it is placed, always 1",
        "Type, NodeName, Ip",
        info("role", "node_name", "pod_ip"),
        ("role", "node_name", "pod_ip"),
    ),
    _pod("status", "1 for the present status of a pod", "Status", word("status"), ("status",)),
    _pod(
        "evicted",
        "1 if the pod or an earlier incarnation of it was evicted, else 0",
        "SubStatus, Pods[].HistoryPods[].SubStatus",
        flag("evicted"),
    ),
    _pod(
        "created_timestamp_seconds",
        "Unix time at which the pod was created",
        "GmtCreateTime",
        number("created"),
    ),
    _pod("started_timestamp_seconds", "Unix time at which the pod started", "GmtStartTime", number("started")),
    _pod(
        "finished_timestamp_seconds",
        "Unix time at which the pod finished",
        "GmtFinishTime",
        number("finished"),
    ),
)
