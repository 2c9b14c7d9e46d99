"""Families of what jobs' time was spent on, their faults and recoveries, and how long they waited."""

from __future__ import annotations

from trainfleet_exporter.families.family import (
    MetricFamily,
    NumbersByWord,
    WholeHistogram,
    amounts,
    number,
    word,
)
from trainfleet_exporter.model import JobFaults, JobTime, NodeFaults, PodExit, PoolWaits, QueuePlace

HISTORY_FAMILIES = (
    MetricFamily(
        "trainfleet_job_phase_seconds",
        "Seconds that a job has spent on a phase so far; absent for phases that have not begun, and without a history.",
        "gauge",
        JobTime,
        ("phase",),
        NumbersByWord("phases", "phase", "seconds"),
    ),
    MetricFamily(
        "trainfleet_job_faults_total",
        "Faults of a job since the exporter started; absent until the first one, and without a history.",
        "counter",
        JobFaults,
        ("cause", "platform_cause"),
        amounts("faults", "cause", "platform_cause"),
    ),
    MetricFamily(
        "trainfleet_job_recoveries_total",
        "Ended recoveries of a job from faults since the exporter started; absent until the first one.",
        "counter",
        JobFaults,
        ("strategy", "result"),
        amounts("recoveries", "strategy", "result"),
    ),
    MetricFamily(
        "trainfleet_job_recovery_seconds_total",
        "Seconds that ended recoveries of a job took, of those that began since the exporter started.",
        "counter",
        JobFaults,
        (),
        number("recovery_seconds"),
    ),
    MetricFamily(
        "trainfleet_node_faults_total",
        "Faults of jobs that the platform ascribes to a node since the exporter started; absent until the first one.",
        "counter",
        NodeFaults,
        ("cause",),
        amounts("faults", "cause"),
    ),
    MetricFamily(
        "trainfleet_job_queue_wait_seconds",
        "Seconds that jobs waited in queues before they first ran, of those seen to start since the exporter started.",
        "histogram",
        PoolWaits,
        (),
        WholeHistogram("queued"),
    ),
    MetricFamily(
        "trainfleet_job_startup_seconds",
        "Seconds that jobs prepared before they first ran, of those seen to start since the exporter started.",
        "histogram",
        PoolWaits,
        (),
        WholeHistogram("prepared"),
    ),
    MetricFamily(
        "trainfleet_job_pending_reason",
        "1 for the platform's code of why a queued job waits; absent where it gives none.",
        "gauge",
        QueuePlace,
        ("reason",),
        word("reason"),
    ),
    MetricFamily(
        "trainfleet_pod_exit_code",
        "Exit code of a pod or task that has ended; absent where the platform gives none.",
        "gauge",
        PodExit,
        (),
        number("exit_code"),
    ),
)
