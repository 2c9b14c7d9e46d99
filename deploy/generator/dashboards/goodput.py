"""The dashboard "Goodput": how jobs spent their time, with faults, waits and cost."""

from __future__ import annotations

from deploy.generator.dashboards.dashboard import dashboard
from deploy.generator.dashboards.panels import (
    IDLE_TO_BUSY,
    Panel,
    Query,
    Scale,
    bars,
    counts,
    money,
    number,
    row,
    share,
    stat,
    timeseries,
)
from deploy.generator.dashboards.promql import (
    ON_JOB,
    ON_POOL,
    POOL_NAMES,
    P,
    hours,
    info,
    job_info,
    named_models,
    once,
    sum_by_model,
    with_pool,
)
from deploy.generator.dashboards.tables import Column, table
from deploy.generator.dashboards.variables import PROVIDER, datasource

UID = "trainfleet-goodput"
_GOOD = Scale("red", ((0.7, "orange"), (0.85, "yellow"), (0.95, "green")))
_PHASES = "provider:trainfleet_phase_accelerators:sum"
_COLORS = {
    "queued": "yellow",
    "preparing": "blue",
    "running": "green",
    "recovering": "orange",
    "checking": "purple",
    "finishing": "dark-blue",
}
_MODEL = "{{provider}} · {{accelerator_name}} ({{accelerator_model}})"
_MOST = 25


def _phases(matcher: str = "") -> str:
    return hours(f"{_PHASES}{{{P}{matcher}}}", "")


def _of_range(record: str) -> str:
    """Return the query for the sum of a record of gains per minute over the chosen time."""
    return f"sum_over_time({record}{{{P}}}[$__range])"


_ALL = _phases()
_HELD = _phases(', phase!="queued"')
_RAN = _phases(', phase="running"')
_UNDONE = f"({hours(f'provider:trainfleet_repeated_accelerators:sum{{{P}}}', '')}\n  or 0 * {_RAN})"


def _total() -> list[Panel]:
    faults = f"sum({_of_range('provider:trainfleet_faults:increase1m')})"
    recovery = f"sum({_of_range('provider:trainfleet_recovery_seconds:increase1m')})"
    recoveries = f"sum({_of_range('provider:trainfleet_recoveries:increase1m')})"
    return [
        row("Chosen time and providers"),
        stat(
            "Goodput",
            "Share of the held accelerators' time that went into work that no fault undid.",
            "percentunit",
            Query(f"clamp_min({_RAN}\n  - {_UNDONE}, 0)\n/ ({_HELD} > 0)", "goodput"),
            scale=_GOOD,
        ),
        stat(
            "Scheduling goodput",
            "Share of the jobs' time in which they had their accelerators. Jobs are weighted by their accelerators.",
            "percentunit",
            Query(f"{_HELD}\n/ ({_ALL} > 0)", "scheduling"),
            scale=_GOOD,
        ),
        stat(
            "Runtime goodput",
            "Share of the jobs' time after the queue in which they ran. Jobs are weighted by their accelerators.",
            "percentunit",
            Query(f"{_RAN}\n/ ({_HELD} > 0)", "runtime"),
            scale=_GOOD,
        ),
        money(
            "Money lost",
            "Cost of the accelerators that were held without useful work, by the table of prices.",
            Query(hours(f"provider:trainfleet_badput_cost:per_hour{{{P}}}", "currency"), "{{currency}}"),
            scale=Scale("orange"),
        ),
        number(
            "Faults",
            "Faults of jobs, of all causes.",
            Query(f"{faults}\nor 0 * sum({_PHASES}{{{P}}})", "faults"),
            scale=Scale("green", ((1, "orange"),)),
            decimals=0,
        ),
        stat(
            "Mean time to recovery",
            "Mean duration of a recovery, including failed recoveries.",
            "s",
            Query(f"{recovery}\n/ ({recoveries} > 0)", "recovery"),
        ),
    ]


def _time() -> list[Panel]:
    return [
        row("Where the time went"),
        counts(
            "Accelerators by phase",
            "Accelerators of jobs by phase. Accelerators of queued jobs are requested, not held.",
            Query(f"sum by (phase) ({_PHASES}{{{P}}})", "{{phase}}"),
            stacked=True,
            colors=_COLORS,
        ),
        bars(
            "Accelerator-hours by phase",
            "Accelerator-hours within the chosen time.",
            "h",
            Query(hours(f"{_PHASES}{{{P}}}", "phase"), "{{phase}}"),
            width=6,
        ),
        bars(
            "Accelerator-hours lost to each cause",
            "Held time without useful work: preparation and checks, and the recovery and undone work of each fault.",
            "h",
            Query(hours(f"provider:trainfleet_badput_accelerators:sum{{{P}}}", "cause"), "{{cause}}"),
            width=6,
        ),
        timeseries(
            "Cost of lost time per hour",
            "Cost of the accelerators without useful work, by cause. Undone work counts in the minute of its fault.",
            "none",
            Query(
                f"sum by (cause, currency) (provider:trainfleet_badput_cost:per_hour{{{P}}})",
                "{{cause}} ({{currency}})",
            ),
            stacked=True,
        ),
        bars(
            "Money lost to each cause",
            "Cost within the chosen time, by the table of prices.",
            "none",
            Query(
                hours(f"provider:trainfleet_badput_cost:per_hour{{{P}}}", "cause, currency"),
                "{{cause}} ({{currency}})",
            ),
        ),
        share(
            "Goodput by provider",
            "Over `goodput_window`, 24 hours by default.",
            Query(f"provider:trainfleet_goodput:ratio{{{P}}}", "{{provider}}"),
        ),
        share(
            "Scheduling and runtime goodput by provider",
            "Over `goodput_window`, 24 hours by default.",
            Query(f"provider:trainfleet_scheduling_goodput:ratio{{{P}}}", "{{provider}} · scheduling"),
            Query(f"provider:trainfleet_runtime_goodput:ratio{{{P}}}", "{{provider}} · runtime"),
        ),
    ]


def _faults() -> list[Panel]:
    by = "provider, pool_id, node_name"
    lemons = f"max by ({by}) (node:trainfleet_lemon_faults:sum{{{P}}})"
    held = f"sum by (provider, accelerator_model) ({_of_range('provider:trainfleet_held_accelerators:sum')})"
    faults = f"sum by (provider, accelerator_model) ({_of_range('provider:trainfleet_faults:increase1m')})"
    return [
        row("Faults and recoveries"),
        bars(
            "Faults by cause",
            "Faults of jobs within the chosen time.",
            "short",
            Query(
                f"sum by (provider, cause) ({_of_range('provider:trainfleet_faults:increase1m')})",
                "{{cause}} · {{provider}}",
            ),
            width=8,
        ),
        bars(
            "Accelerator time for each fault",
            "Time that accelerators of the model were held within the chosen time, divided by the faults of all "
            "causes. A job with N accelerators may expect a fault N times as often.",
            "s",
            Query(
                f"60 * {sum_by_model(held, 'provider')}\n/ ({sum_by_model(faults, 'provider')} > 0)",
                "{{accelerator_name}} · {{provider}}",
            ),
            width=8,
        ),
        bars(
            "Recoveries",
            "Recoveries of jobs within the chosen time, by strategy and result.",
            "short",
            Query(
                f"sum by (strategy, result) ({_of_range('provider:trainfleet_recoveries:increase1m')})",
                "{{strategy}} · {{result}}",
            ),
            width=8,
        ),
        timeseries(
            "Mean time to failure by model",
            "Of one accelerator, by faults of `hardware_causes` within `fault_window` (30 days by default).",
            "s",
            Query(f"provider:trainfleet_mttf:seconds{{{P}}}", "{{provider}} · {{accelerator}} {{accelerator_model}}"),
        ),
        timeseries(
            "Mean time to recovery by provider",
            "Over `fault_window`, 30 days by default.",
            "s",
            Query(f"provider:trainfleet_mttr:seconds{{{P}}}", "{{provider}}"),
        ),
        table(
            "Lemon nodes",
            "Nodes with at least `lemon_faults` hardware faults within `fault_window` (30 days by default).",
            "provider pool_name node_name",
            [
                Column(
                    "Faults",
                    f"{lemons}\n* {ON_POOL} group_left (pool_name)\n{POOL_NAMES}\n"
                    f'or on ({by})\nlabel_replace({lemons}, "pool_name", "$1", "pool_id", "(.*)")',
                    "short",
                    Scale("orange", ((4, "red"),)),
                    decimals=0,
                )
            ],
            sort="Faults",
            height=8,
        ),
    ]


def _queue() -> list[Panel]:
    def nine_in_ten(family: str) -> Query:
        bucket = f"increase(trainfleet_job_{family}_seconds_bucket{{{P}}}[$__range])"
        return Query(
            with_pool(f"histogram_quantile(0.9, sum by (provider, pool_id, le) ({bucket}))"),
            "{{pool_name}} · {{provider}}",
        )

    reasons = info("provider, job_id", "reason", f"trainfleet_job_pending_reason{{{P}}} == 1")
    return [
        row("Waiting jobs"),
        bars(
            "Queue wait of nine in ten jobs",
            "90 % of the jobs that started within the chosen time waited for less than this.",
            "s",
            nine_in_ten("queue_wait"),
            width=8,
        ),
        bars(
            "Start-up of nine in ten jobs",
            "90 % of the jobs that started within the chosen time took less than this after the queue.",
            "s",
            nine_in_ten("startup"),
            width=8,
        ),
        counts(
            "Why jobs wait",
            "Queued jobs by the cloud's reason code. Jobs without a reason do not count.",
            Query(f"count by (provider, reason) ({reasons})", "{{provider}} · {{reason}}"),
            stacked=True,
            width=8,
        ),
    ]


def _jobs() -> list[Panel]:
    by = "provider, job_id"
    live = f"job:trainfleet_held_accelerators:sum{{{P}}}"
    lowest = (
        f"bottomk(\n  {_MOST},\n  {once(by, f'job:trainfleet_ettr_without_queue:ratio{{{P}}}')}\n"
        f"  and {ON_JOB}\n  {live}\n)"
    )
    whose = "job_name, user_name"

    def of_those(record: str) -> str:
        return f"{once(by, f'job:trainfleet_{record}{{{P}}}')}\nand {ON_JOB} {lowest}"

    return [
        row("Jobs"),
        table(
            "Jobs with the lowest training time",
            f"The {_MOST} jobs that hold accelerators with the lowest ETTR without queue, over their whole life. "
            "Faults count since the exporter first saw the job.",
            "provider job_name job_id user_name",
            [
                Column(
                    "ETTR without queue",
                    f"{lowest}\n* {ON_JOB} group_left ({whose})\n{job_info(whose)}",
                    "percentunit",
                    _GOOD,
                    gauge=True,
                ),
                Column("ETTR", of_those("ettr:ratio"), "percentunit", _GOOD, gauge=True),
                Column("Scheduling goodput", of_those("scheduling_goodput:ratio"), "percentunit", _GOOD, gauge=True),
                Column("Runtime goodput", of_those("runtime_goodput:ratio"), "percentunit", _GOOD, gauge=True),
                Column("Productive", of_those("productive:seconds"), "s"),
                Column("Work undone", of_those("lost_work:seconds"), "s"),
                Column("Faults", f"sum by ({by}) (job:trainfleet_faults:sum{{{P}}})\nand {ON_JOB} {lowest}", "short"),
                Column("MFU", of_those("mfu:ratio"), "percentunit", IDLE_TO_BUSY, gauge=True),
            ],
            sort="ETTR without queue",
            descending=False,
        ),
        share(
            "MFU by model",
            "Tensor FLOP/s as a share of the peak in the table of models. Jobs without a known MFU do not count.",
            Query(named_models(f"provider:trainfleet_mfu:ratio{{{P}}}", "provider, accelerator"), _MODEL),
            width=24,
        ),
    ]


def build() -> str:
    """Return the JSON of the dashboard."""
    return dashboard(
        UID,
        "Trainfleet / Goodput",
        "Useful share of the paid time, faults and waits of jobs, and the cost of lost time.",
        [datasource(), PROVIDER],
        [*_total(), *_time(), *_faults(), *_queue(), *_jobs()],
        since="now-24h",
    )
