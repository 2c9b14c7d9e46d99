"""Parts of queries that several dashboards share."""

from __future__ import annotations

P = 'provider=~"$provider"'
"""The matcher for series of the chosen providers."""

ON_JOB = "on (provider, job_id)"
ON_POOL = "on (provider, pool_id)"
ON_WORKSPACE = "on (provider, workspace_id)"

LIVE = "creating|queued|starting|running|restarting|stopping"


def once(labels: str, series: str) -> str:
    """Merge the series of several exporters that poll one provider."""
    return f"max by ({labels}) ({series})"


def jobs(status: str) -> str:
    """Return the query for numbers of jobs. `status` is a regular expression."""
    return once("provider, workspace_id, status, platform_status", f'trainfleet_jobs{{{P}, status=~"{status}"}}')


def of_job(family: str, matchers: str = P) -> str:
    """Return the query for a family of jobs without further labels."""
    return once("provider, job_id", f"trainfleet_job_{family}{{{matchers}}}")


def of_job_by(label: str, family: str, matchers: str = P) -> str:
    """Return the query for a family of jobs with a label. It has one series for each job."""
    return info("provider, job_id", label, f"trainfleet_job_{family}{{{matchers}}}")


def info(keys: str, labels: str, series: str) -> str:
    """Return one info series for each object, so that joins on `keys` never match two while a label changes."""
    return f"topk by ({keys}) (1, {once(f'{keys}, {labels}', series)})"


def job_info(labels: str, matchers: str = P) -> str:
    """Return the query for labels of jobs, by provider and job_id."""
    return info("provider, job_id", labels, f"trainfleet_job_info{{{matchers}}}")


# Records stay for some minutes after their source series end, so the names must stay, too.
POOL_NAMES = info("provider, pool_id", "pool_name", f"last_over_time(trainfleet_pool_info{{{P}}}[10m])")
WORKSPACE_NAMES = info(
    "provider, workspace_id", "workspace_name", f"last_over_time(trainfleet_workspace_info{{{P}}}[10m])"
)


def with_pool(expr: str) -> str:
    """Add pool_name to series by provider and pool_id.

    An unknown pool is named by its id. A series without a pool_id is named `public resources`.
    """
    named = f"({expr})\n* {ON_POOL} group_left (pool_name)\n{POOL_NAMES}"
    by_id = f'label_replace({expr}, "pool_name", "$1", "pool_id", "(.*)")'
    return f'{named}\nor {ON_POOL}\nlabel_replace({by_id}, "pool_name", "public resources", "pool_id", "")'


def with_workspace(expr: str) -> str:
    """Add workspace_name to series by provider and workspace_id. An unknown workspace is named by its id."""
    named = f"({expr})\n* {ON_WORKSPACE} group_left (workspace_name)\n{WORKSPACE_NAMES}"
    return f'{named}\nor {ON_WORKSPACE}\nlabel_replace({expr}, "workspace_name", "$1", "workspace_id", "(.*)")'


def with_user(expr: str) -> str:
    """Set empty user names to `(unknown)`, because an empty name gives no legend."""
    return f'label_replace({expr}, "user_name", "(unknown)", "user_name", "")'


def with_charged_to(expr: str) -> str:
    """Set empty tags to `(no tag)`, because an empty name gives no legend."""
    return f'label_replace({expr}, "charged_to", "(no tag)", "charged_to", "")'


def named_models(expr: str, by: str) -> str:
    """Add accelerator_name to series by `by` and accelerator_model. A model without a name keeps its model name."""
    peak = "accelerator_model:trainfleet_accelerator_peak:flops_per_second"
    named = f"({expr})\n* on (accelerator_model) group_left (accelerator_name) ({peak} >= bool 0)"
    by_model = f'label_replace({expr}, "accelerator_name", "$1", "accelerator_model", "(.*)")'
    return f"{named}\nor on ({by}, accelerator_model)\n{by_model}"


def sum_by_model(expr: str, by: str) -> str:
    """Sum series by `by` and accelerator_name. Several spellings of a model have one name."""
    return f"sum by ({by}, accelerator_name) (\n{named_models(expr, by)}\n)"


def at_prices(accelerators: str) -> str:
    """Return the cost of accelerators by the table of prices. Models without a price have none."""
    price = "accelerator_model:trainfleet_accelerator_price:per_hour"
    return f"{accelerators}\n* on (accelerator_model) group_left (currency)\n{price}"


def hours(series: str, by: str) -> str:
    """Return accelerator-hours over the chosen time. The records have one sample a minute."""
    over = f"sum_over_time({series}[$__range])"
    return f"sum by ({by}) ({over}) / 60" if by else f"sum({over}) / 60"
