"""Families of the provider, its workspaces, their counts of jobs, and its quota of jobs."""

from __future__ import annotations

from trainfleet_exporter.families.family import MetricFamily, info, number
from trainfleet_exporter.model import FinishedCount, JobCount, ProviderFacts, ProviderQuota, Workspace


def _jobs(found: JobCount) -> tuple[tuple[tuple[str, str], int]]:
    return (((found.status, found.platform_status), found.count),)


def _finished(found: FinishedCount) -> tuple[tuple[tuple[str], int]]:
    return (((found.status,), found.count),)


FLEET_FAMILIES = (
    MetricFamily(
        name="trainfleet_provider_info",
        help="A configured provider; always 1.",
        of=ProviderFacts,
        read=info("platform", "region", "project_id"),
        labels=("platform", "region", "project_id"),
    ),
    MetricFamily(
        name="trainfleet_workspace_info",
        help="A workspace; always 1.",
        of=Workspace,
        read=info("name"),
        labels=("workspace_name",),
    ),
    MetricFamily(
        name="trainfleet_jobs",
        help="Jobs by status. Finished jobs count if they were created within job_window.",
        of=JobCount,
        read=_jobs,
        labels=("status", "platform_status"),
    ),
    MetricFamily(
        name="trainfleet_jobs_finished_total",
        help="Jobs that finished since the exporter started, by final status.",
        of=FinishedCount,
        read=_finished,
        labels=("status",),
        kind="counter",
    ),
)

QUOTA_FAMILIES = (
    MetricFamily(
        name="trainfleet_provider_job_quota",
        help="Largest number of training jobs that the quota of the cloud project allows. Absent without a quota.",
        of=ProviderQuota,
        read=number("limit"),
    ),
    MetricFamily(
        name="trainfleet_provider_job_quota_used",
        help="Training jobs that count against the quota of the cloud project. Absent without a quota.",
        of=ProviderQuota,
        read=number("used"),
    ),
)
