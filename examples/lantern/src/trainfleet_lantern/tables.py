"""Where each family comes from: APIs and fields of Lantern, as HELP shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_JOBS = "Lantern ListJobs, jobs[]"
_USAGE = "Lantern ListUsage, readings[]"
_POOLS = "Lantern ListPools, pools[]"

SOURCES: Mapping[str, Sequence[str]] = {
    "trainfleet_provider_info": ["the config file"],
    "trainfleet_workspace_info": ["Lantern ListWorkspaces, workspaces[].title"],
    "trainfleet_jobs": [f"{_JOBS}.state for live jobs", "Lantern GetSummary, ended for finished ones"],
    "trainfleet_jobs_finished_total": ["Lantern GetJob, state"],
    "trainfleet_job_info": [f"{_JOBS}.name, pool, owner"],
    "trainfleet_job_status": [f"{_JOBS}.state"],
    "trainfleet_job_platform_status": [f"{_JOBS}.state"],
    "trainfleet_job_status_reason": ["Lantern GetJob, reason"],
    "trainfleet_job_holds_resources": [f"{_JOBS}.state"],
    "trainfleet_job_priority": [f"{_JOBS}.priority"],
    "trainfleet_job_created_timestamp_seconds": [f"{_JOBS}.created_at"],
    "trainfleet_job_started_timestamp_seconds": [f"{_JOBS}.started_at"],
    "trainfleet_job_finished_timestamp_seconds": ["Lantern GetJob, ended_at"],
    "trainfleet_job_restarts_total": [f"{_JOBS}.recoveries"],
    "trainfleet_job_requested_accelerators": [f"{_JOBS}.gpus"],
    "trainfleet_job_cpu_utilization_ratio": [f"{_USAGE}.cpu_percent"],
    "trainfleet_job_memory_utilization_ratio": [f"{_USAGE}.memory_percent"],
    "trainfleet_job_accelerator_utilization_ratio": [f"{_USAGE}.gpu_percent"],
    "trainfleet_pool_info": [f"{_POOLS}.title"],
    "trainfleet_pool_status": [f"{_POOLS}.state"],
    "trainfleet_pool_capacity_memory_bytes": [f"{_POOLS}.memory_mib.total"],
    "trainfleet_pool_capacity_accelerators": [f"{_POOLS}.gpus.total"],
    "trainfleet_pool_allocated_memory_bytes": [f"{_POOLS}.memory_mib.used"],
    "trainfleet_pool_allocated_accelerators": [f"{_POOLS}.gpus.used"],
}
"""By family."""
