"""Families that rules, dashboards and docs already read and that the exporter does not show yet: delete each with its
arrival, and this module with the last one."""

from __future__ import annotations

PLANNED = frozenset(
    {
        "trainfleet_job_phase_seconds",
        "trainfleet_job_faults_total",
        "trainfleet_job_recoveries_total",
        "trainfleet_job_recovery_seconds_total",
        "trainfleet_node_faults_total",
        "trainfleet_job_queue_wait_seconds",
        "trainfleet_job_startup_seconds",
        "trainfleet_job_pending_reason",
        "trainfleet_job_tensor_flops_per_second",
    }
)
