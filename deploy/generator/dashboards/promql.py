"""Pieces of queries that more than one dashboard asks with."""

from __future__ import annotations

P = 'provider=~"$provider"'
"""The matcher that every series has to pass, which is of some provider."""

ON_JOB = "on (provider, job_id)"
ON_POOL = "on (provider, pool_id)"
ON_WORKSPACE = "on (provider, workspace_id)"

LIVE = "creating|queued|starting|running|restarting|stopping"


def once(labels: str, series: str) -> str:
    """Each series once, where two exporters poll one provider."""
    return f"max by ({labels}) ({series})"


def jobs(status: str) -> str:
    """Numbers of jobs whose status matches."""
    return once("provider, workspace_id, status, platform_status", f'trainfleet_jobs{{{P}, status=~"{status}"}}')


def of_job(family: str, matchers: str = P) -> str:
    """A family of jobs that has no further labels."""
    return once("provider, job_id", f"trainfleet_job_{family}{{{matchers}}}")


def of_job_by(label: str, family: str, matchers: str = P) -> str:
    """A family of jobs that has one series a job, with a word as a label: one series a job also while it changes."""
    return info("provider, job_id", label, f"trainfleet_job_{family}{{{matchers}}}")


def info(keys: str, labels: str, series: str) -> str:
    """One info series for each object, so that a join on `keys` never finds two while a label changes."""
    return f"topk by ({keys}) (1, {once(f'{keys}, {labels}', series)})"


def job_info(labels: str, matchers: str = P) -> str:
    """Labels of jobs by provider and job_id."""
    return info("provider, job_id", labels, f"trainfleet_job_info{{{matchers}}}")


# Records outlive what they were made from by some minutes; so must the names.
POOL_NAMES = info("provider, pool_id", "pool_name", f"last_over_time(trainfleet_pool_info{{{P}}}[10m])")
WORKSPACE_NAMES = info(
    "provider, workspace_id", "workspace_name", f"last_over_time(trainfleet_workspace_info{{{P}}}[10m])"
)


def with_pool(expr: str) -> str:
    """Adds pool_name to series by provider and pool_id: the id where no pool is listed under it. Jobs without a pool
    run on public resources."""
    named = f"({expr})\n* {ON_POOL} group_left (pool_name)\n{POOL_NAMES}"
    by_id = f'label_replace({expr}, "pool_name", "$1", "pool_id", "(.*)")'
    return f'{named}\nor {ON_POOL}\nlabel_replace({by_id}, "pool_name", "public resources", "pool_id", "")'


def with_workspace(expr: str) -> str:
    """Adds workspace_name to series by provider and workspace_id: the id where no workspace is listed under it."""
    named = f"({expr})\n* {ON_WORKSPACE} group_left (workspace_name)\n{WORKSPACE_NAMES}"
    return f'{named}\nor {ON_WORKSPACE}\nlabel_replace({expr}, "workspace_name", "$1", "workspace_id", "(.*)")'


def with_user(expr: str) -> str:
    """Adds the user name `(unknown)` where there is none, because an empty name gives no legend."""
    return f'label_replace({expr}, "user_name", "(unknown)", "user_name", "")'


def with_charged_to(expr: str) -> str:
    """Names what is charged to no tag, for an empty name is no legend."""
    return f'label_replace({expr}, "charged_to", "(no tag)", "charged_to", "")'


def named_models(expr: str, by: str) -> str:
    """Adds accelerator_name to series by `by` and accelerator_model: the model where the rules' table has no name."""
    peak = "accelerator_model:trainfleet_accelerator_peak:flops_per_second"
    named = f"({expr})\n* on (accelerator_model) group_left (accelerator_name) ({peak} >= bool 0)"
    by_model = f'label_replace({expr}, "accelerator_name", "$1", "accelerator_model", "(.*)")'
    return f"{named}\nor on ({by}, accelerator_model)\n{by_model}"


def sum_by_model(expr: str, by: str) -> str:
    """Sums of series by `by` and accelerator_model over the spellings of a model, by `by` and accelerator_name."""
    return f"sum by ({by}, accelerator_name) (\n{named_models(expr, by)}\n)"


def hours(series: str, by: str) -> str:
    """Accelerator-hours over the chosen time: the records are made once a minute."""
    over = f"sum_over_time({series}[$__range])"
    return f"sum by ({by}) ({over}) / 60" if by else f"sum({over}) / 60"
