"""Families of the provider, its workspaces, their counts of jobs, and its quota of jobs."""

from __future__ import annotations

from trainfleet_exporter.exposition.family import Family, described, info, number
from trainfleet_exporter.model import FinishedCount, JobCount, ProviderFacts, ProviderQuota, Workspace


def _jobs(found: JobCount) -> tuple[tuple[tuple[str, str], int]]:
    return (((found.status, found.platform_status), found.count),)


def _finished(found: FinishedCount) -> tuple[tuple[tuple[str], int]]:
    return (((found.status,), found.count),)


FLEET_FAMILIES = (
    Family(
        name="trainfleet_provider_info",
        help="A configured provider, always 1. Source: the config file, no API; cached between polls.",
        kind="gauge",
        of=ProviderFacts,
        labels=("platform", "region", "project_id"),
        read=info("platform", "region", "project_id"),
    ),
    Family(
        name="trainfleet_workspace_info",
        help=described(
            "A workspace, always 1",
            "PAI AIWorkSpace ListWorkspaces, Workspaces[].WorkspaceName",
            "ModelArts workspaces, workspaces[].name",
        ),
        kind="gauge",
        of=Workspace,
        labels=("workspace_name",),
        read=info("name"),
    ),
    Family(
        name="trainfleet_jobs",
        help=described(
            "Jobs by status; finished ones if created within the configured job_window",
            "PAI-DLC ListJobs, Jobs[].Status for live jobs, TotalCount for finished ones",
            "ModelArts training-job-searches, items[].status.phase for live jobs, total for finished ones",
            "ModelArts v1 training-jobs, jobs[].status",
        ),
        kind="gauge",
        of=JobCount,
        labels=("status", "platform_status"),
        read=_jobs,
    ),
    Family(
        name="trainfleet_jobs_finished_total",
        help=described(
            "Jobs seen to finish since the exporter started",
            "PAI-DLC ListJobs, Jobs[].Status",
            "ModelArts training-jobs, status.phase",
        ),
        kind="counter",
        of=FinishedCount,
        labels=("status",),
        read=_finished,
    ),
)

_QUOTAS = "ModelArts training-quotas, resource job-num, quotas[]"

QUOTA_FAMILIES = (
    Family(
        name="trainfleet_provider_job_quota",
        help=described("Training jobs that the project of the provider may have", f"{_QUOTAS}.quota"),
        kind="gauge",
        of=ProviderQuota,
        labels=(),
        read=number("limit"),
    ),
    Family(
        name="trainfleet_provider_job_quota_used",
        help=described("Training jobs that count against the quota of the provider's project", f"{_QUOTAS}.used"),
        kind="gauge",
        of=ProviderQuota,
        labels=(),
        read=number("used"),
    ),
)
