"""Families of the histories of jobs: phases, faults, recoveries and waits."""

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
        "Seconds that a job has spent in a phase so far. Absent before the phase begins and without a history.",
        JobTime,
        NumbersByWord("phases", "phase", "seconds"),
        ("phase",),
    ),
    MetricFamily(
        "trainfleet_job_faults_total",
        "Faults of a job since the exporter started, by cause. Absent before the first one and without a history.",
        JobFaults,
        amounts("faults", "cause", "platform_cause"),
        ("cause", "platform_cause"),
        kind="counter",
    ),
    MetricFamily(
        "trainfleet_job_recoveries_total",
        "Finished recoveries of a job since the exporter started, by strategy and result. Absent before the first one.",
        JobFaults,
        amounts("recoveries", "strategy", "result"),
        ("strategy", "result"),
        kind="counter",
    ),
    MetricFamily(
        "trainfleet_job_recovery_seconds_total",
        "Seconds that finished recoveries of a job took. Counts recoveries that began since the exporter started.",
        JobFaults,
        number("recovery_seconds"),
        kind="counter",
    ),
    MetricFamily(
        "trainfleet_node_faults_total",
        "Faults that the platform attributes to a node since the exporter started. Absent before the first one.",
        NodeFaults,
        amounts("faults", "cause"),
        ("cause",),
        kind="counter",
    ),
    MetricFamily(
        "trainfleet_job_queue_wait_seconds",
        "Seconds that jobs queued before they first ran. Counts jobs that first ran since the exporter started.",
        PoolWaits,
        WholeHistogram("queued"),
        kind="histogram",
    ),
    MetricFamily(
        "trainfleet_job_startup_seconds",
        "Seconds that jobs prepared before they first ran. Counts jobs that first ran since the exporter started.",
        PoolWaits,
        WholeHistogram("prepared"),
        kind="histogram",
    ),
    MetricFamily(
        "trainfleet_job_pending_reason",
        "1 for the platform's reason code of a queued job. Absent if there is none.",
        QueuePlace,
        word("reason"),
        ("reason",),
    ),
    MetricFamily(
        "trainfleet_pod_exit_code",
        "Exit code of a pod that has ended. Absent until then.",
        PodExit,
        number("exit_code"),
    ),
)
