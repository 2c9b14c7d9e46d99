"""The dashboard "Fleet overview": jobs of all clouds by status, and the use of held accelerators."""

from __future__ import annotations

from deploy.generator.dashboards.dashboard import dashboard
from deploy.generator.dashboards.panels import (
    BAD_ABOVE_ZERO,
    IDLE_TO_BUSY,
    STATUS_COLORS,
    Panel,
    Query,
    Scale,
    counts,
    money,
    number,
    row,
    share,
    stat,
    states,
)
from deploy.generator.dashboards.promql import (
    LIVE,
    ON_JOB,
    P,
    at_prices,
    job_info,
    jobs,
    of_job,
    of_job_by,
    once,
    with_pool,
    with_workspace,
)
from deploy.generator.dashboards.tables import Column, table
from deploy.generator.dashboards.variables import PROVIDER, datasource

UID = "trainfleet-fleet"
_FINISHED = f"workspace:trainfleet_jobs_finished:increase1h{{{P}}}"
_SHARES = {"used": "green", "wasted": "red", "unmeasured": "gray"}


def provider_sum(what: str) -> str:
    """Return the query for the sum of a record of accelerators over the chosen providers."""
    return f"sum(provider:trainfleet_{what}_accelerators:sum{{{P}}})"


def _now() -> list[Panel]:
    queued = jobs("queued")
    return [
        row("Now"),
        number(
            "Running jobs",
            "Running jobs of the chosen providers.",
            Query(f"sum({jobs('running')})", "running"),
            scale=Scale("green"),
        ),
        number(
            "Queued jobs",
            "Jobs that wait for accelerators.",
            Query(f"sum({queued})", "queued"),
            scale=Scale("text", ((1, "yellow"),)),
        ),
        stat(
            "Longest wait",
            "Time that the oldest queued job has waited. 0 only if no job is known to be queued.",
            "s",
            Query(f"max(pool:trainfleet_queue_age:max{{{P}}})\nor sum({queued}) == 0", "wait"),
            scale=Scale("text", ((1800, "yellow"), (3600, "red"))),
        ),
        number(
            "Failed in the last hour",
            "Jobs that failed within the last hour.",
            Query(f'sum(workspace:trainfleet_jobs_finished:increase1h{{{P}, status="failed"}})', "failed"),
            scale=Scale("text", ((1, "orange"), (10, "red"))),
            decimals=0,
        ),
        stat(
            "Providers down",
            "Providers without a collector whose latest poll succeeded.",
            "none",
            Query(f"sum({once('provider', f'trainfleet_provider_up{{{P}}}')} == bool 0)", "down"),
            scale=BAD_ABOVE_ZERO,
        ),
        number(
            "Free accelerators",
            "Free accelerators of pools. Nested pools count once.",
            Query(f"sum(provider:trainfleet_accelerators_free:sum{{{P}}})", "free"),
        ),
        number(
            "Held accelerators",
            "Accelerators that jobs hold, including jobs that start or stop and reservations after the end.",
            Query(provider_sum("held"), "held"),
        ),
        stat(
            "Utilization",
            "Utilization of the held accelerators of measured jobs, weighted by the accelerators of each job.",
            "percentunit",
            Query(f"{provider_sum('used')}\n/ ({provider_sum('used')} + {provider_sum('wasted')})", "utilization"),
            scale=IDLE_TO_BUSY,
        ),
        number(
            "Held but idle",
            "Accelerators of jobs whose utilization is below the idle threshold (5 % by default).",
            Query(provider_sum("idle"), "idle"),
            scale=Scale("green", ((1, "orange"), (16, "red"))),
        ),
        number(
            "Held but unmeasured",
            "Accelerators of jobs without a known utilization. They count neither as used nor as idle.",
            Query(provider_sum("unmeasured"), "unmeasured"),
        ),
        money(
            "Cost per hour",
            "Cost of the held accelerators for an hour, by the table of prices. Models without a price do not count.",
            Query(f"sum by (currency) (provider:trainfleet_held_cost:per_hour{{{P}}})", "{{currency}}"),
        ),
        money(
            "Idle cost per hour",
            "Cost of the accelerators of idle jobs for an hour.",
            Query(f"sum by (currency) (provider:trainfleet_idle_cost:per_hour{{{P}}})", "{{currency}}"),
            scale=Scale("green", ((1, "orange"),)),
        ),
    ]


def _over_time() -> list[Panel]:
    by = "by (provider, accelerator)"
    used, wasted = (f"sum {by} (provider:trainfleet_{what}_accelerators:sum{{{P}}})" for what in ("used", "wasted"))
    return [
        row("Over time"),
        counts(
            "Live jobs by status",
            "Jobs that have not finished. A provider that fails disappears from here and from every sum after a few "
            "polls. The panel Providers shows which one.",
            Query(f"sum by (status) ({jobs(LIVE)})", "{{status}}"),
            stacked=True,
            colors=STATUS_COLORS,
        ),
        counts(
            "Jobs finished in the last hour",
            "Jobs that finished within the last hour, by status.",
            Query(f"sum by (status) ({_FINISHED})", "{{status}}"),
            colors=STATUS_COLORS,
        ),
        counts(
            "Use of held accelerators",
            "Used is held times utilization, and wasted is the rest. Unmeasured are those of jobs without a known "
            "utilization. The three add up to the held accelerators.",
            *(Query(provider_sum(what), what) for what in _SHARES),
            stacked=True,
            colors=_SHARES,
        ),
        share(
            "Utilization of held accelerators",
            "Utilization of measured jobs, weighted by the accelerators of each job.",
            Query(f"{used}\n/ ({used} + {wasted})", "{{provider}} · {{accelerator}}"),
        ),
        counts(
            "Idle accelerators by workspace",
            "Accelerators of jobs whose utilization is below the idle threshold.",
            Query(
                with_workspace(f"sum by (provider, workspace_id) (workspace:trainfleet_idle_accelerators:sum{{{P}}})"),
                "{{provider}} · {{workspace_name}}",
            ),
            stacked=True,
        ),
        share(
            "Share of failed jobs",
            "Share of failed jobs among the jobs of a workspace that finished within the last hour. Stopped jobs do "
            "not count. A gap means that no job finished.",
            Query(
                with_workspace(f"workspace:trainfleet_jobs_failed:ratio1h{{{P}}}"),
                "{{provider}} · {{workspace_name}}",
            ),
        ),
        states(
            "Providers",
            "Whether the latest poll of at least one collector succeeded.",
            Query(once("provider", f"trainfleet_provider_up{{{P}}}"), "{{provider}}"),
            words={0: ("down", "red"), 1: ("up", "green")},
            height=5,
        ),
    ]


def _attention() -> list[Panel]:
    by_job = "provider, job_id, user_name, pool_id"
    cards = f"job:trainfleet_idle_accelerators:sum{{{P}}}"
    idle = f"sum by ({by_job}) ({cards}) > 0"
    failed = of_job("status", f'{P}, status="failed"')
    ended, started = of_job("finished_timestamp_seconds"), of_job("started_timestamp_seconds")
    reason = of_job_by("reason", "status_reason")
    return [
        row("What needs attention"),
        table(
            "Idle jobs",
            "Jobs that hold accelerators with a utilization below the idle threshold. Click a name to open the job.",
            "provider job_name job_id user_name pool_name",
            [
                Column(
                    "Idle accelerators",
                    f"({with_pool(idle)})\n* {ON_JOB} group_left (job_name)\n{job_info('job_name')}",
                    "short",
                    Scale("orange", ((8, "red"),)),
                ),
                Column(
                    "Cost per hour",
                    f"sum by (provider, job_id) (\n{at_prices(cards)}\n) > 0",
                    decimals=0,
                ),
                Column("Running for", f"time() - {started}\nand {ON_JOB} ({idle})", "s"),
            ],
            sort="Idle accelerators",
        ),
        table(
            "Failed jobs",
            "Failed jobs that the exporter still shows (for an hour by default), with the platform's reason code.",
            "provider job_name job_id user_name reason",
            [
                Column(
                    "Ended",
                    f"(1000 * {ended} and {ON_JOB} {failed})\n"
                    f"* {ON_JOB} group_left (job_name, user_name)\n{job_info('job_name, user_name')}",
                    "dateTimeAsIso",
                ),
                Column("", f"{reason}\nand {ON_JOB} {failed}"),
            ],
            sort="Ended",
        ),
        table(
            "Alerts",
            "Pending and firing alerts of the shipped rules. Alerts without a provider ignore the choice of provider.",
            "alertname severity alertstate provider",
            [
                Column(
                    "Number",
                    f'count by (alertname, severity, alertstate, provider) (ALERTS{{alertname=~"Trainfleet.+", {P}}})',
                )
            ],
            sort="Severity",
            descending=False,
        ),
    ]


def build() -> str:
    """Return the JSON of the dashboard."""
    return dashboard(
        UID,
        "Trainfleet / Fleet overview",
        "Training jobs over all clouds: which run, wait and fail, and how much of the held accelerators they use.",
        [datasource(), PROVIDER],
        [*_now(), *_over_time(), *_attention()],
    )
