"""The dashboard "Users and cost": accelerator-hours that users held, used and wasted, and their cost."""

from __future__ import annotations

from collections.abc import Callable

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
    P,
    at_prices,
    hours,
    info,
    sum_by_model,
    with_charged_to,
    with_pool,
    with_user,
    with_workspace,
)
from deploy.generator.dashboards.tables import Column, table
from deploy.generator.dashboards.variables import PROVIDER, choice, datasource

UID = "trainfleet-cost"
_WASTE = Scale("green", ((0.3, "yellow"), (0.6, "red")))
_MOST = 25
_SOME = f'{P}, charged_to=~"$charged_to"'
"""Matchers for the chosen providers and charged tags."""
_CHARGED_TO = choice(
    "charged_to",
    "Charged to",
    f"label_values(charged_to:trainfleet_held_accelerators:sum{{{P}}}, charged_to)",
    "The value of the job tag in `chargeback_label` of the rules, such as the team. All includes jobs without it.",
)


def _hours(level: str, what: str, by: str = "") -> str:
    return hours(f"{level}:trainfleet_{what}_accelerators:sum{{{_SOME}}}", by)


def _cost(level: str, what: str, by: str) -> str:
    if level == "job":
        over = f"sum_over_time(job:trainfleet_{what}_accelerators:sum{{{_SOME}}}[$__range])"
        return f"sum by ({by}) (\n  {at_prices(over)}\n) / 60"
    return hours(f"{level}:trainfleet_{what}_cost:per_hour{{{_SOME}}}", by)


def _wasted_share(level: str, by: str = "") -> str:
    wasted = _hours(level, "wasted", by)
    return f"{wasted}\n/ ({_hours(level, 'used', by)} + {wasted} > 0)"


def _total() -> list[Panel]:
    meanings = {
        "held": "Accelerators times the hours that jobs held them, within the chosen time.",
        "used": "Held times utilization, of measured jobs.",
        "wasted": "Held minus used, of measured jobs.",
        "idle": "Held by jobs while their utilization was below the idle threshold. Part of wasted.",
        "unmeasured": "Held by jobs without a known utilization. Counts neither as used nor as wasted.",
    }
    titles = {
        "held": "Held",
        "used": "Used",
        "wasted": "Wasted",
        "idle": "Wasted by idle jobs",
        "unmeasured": "Unmeasured",
    }
    return [
        row("Within the chosen time"),
        *(stat(titles[what], text, "h", Query(_hours("charged_to", what), what)) for what, text in meanings.items()),
        stat(
            "Wasted share",
            "Wasted as a share of the held accelerator-hours of measured jobs.",
            "percentunit",
            Query(_wasted_share("charged_to"), "wasted"),
            scale=_WASTE,
        ),
        money(
            "Cost",
            "Cost of the held accelerators, by the table of prices.",
            Query(_cost("charged_to", "held", "currency"), "{{currency}}"),
            width=5,
        ),
        money(
            "Cost of the waste",
            "Cost of the wasted accelerators.",
            Query(_cost("charged_to", "wasted", "currency"), "{{currency}}"),
            scale=Scale("orange"),
            width=5,
        ),
        money(
            "Cost of idle jobs",
            "Cost of accelerators while the utilization of their jobs was below the idle threshold.",
            Query(_cost("charged_to", "idle", "currency"), "{{currency}}"),
            scale=Scale("orange"),
            width=5,
        ),
        money(
            "Cost per hour now",
            "Cost for an hour of the accelerators that are held now.",
            Query(f"sum by (currency) (charged_to:trainfleet_held_cost:per_hour{{{_SOME}}})", "{{currency}}"),
            width=5,
        ),
        number(
            "Without a price",
            "Accelerators of models without a price, held now by any job. No cost includes them.",
            Query(f"sum(provider:trainfleet_unpriced_accelerators:sum{{{P}}})", "without a price"),
            scale=Scale("green", ((1, "yellow"),)),
            width=4,
        ),
    ]


def _ledger(
    title: str,
    level: str,
    labels: str,
    by: str,
    named: Callable[[str], str],
) -> Panel:
    """Return a table of hours and cost by `level`, such as by user."""
    return table(
        title,
        "Accelerator-hours within the chosen time, and their cost. Wasted is held minus used, of measured jobs. An "
        "empty cell means unknown.",
        labels,
        [
            Column("Held", named(_hours(level, "held", by)), "h", decimals=1),
            Column("Used", named(_hours(level, "used", by)), "h", decimals=1),
            Column("Wasted", named(_hours(level, "wasted", by)), "h", decimals=1),
            Column("Wasted share", named(_wasted_share(level, by)), "percentunit", _WASTE, gauge=True),
            Column("Unmeasured", named(_hours(level, "unmeasured", by)), "h", decimals=1),
            Column("Cost", named(_cost(level, "held", by)), decimals=0),
            Column("Cost of the waste", named(_cost(level, "wasted", by)), decimals=0),
        ],
        sort="Wasted",
    )


def _who() -> list[Panel]:
    by_user = "provider, user_name"
    return [
        row("By user, workspace, pool and team"),
        _ledger("Users", "user", "provider user_name", by_user, with_user),
        _ledger("Workspaces", "workspace", "provider workspace_name", "provider, workspace_id", with_workspace),
        _ledger("Pools", "pool", "provider pool_name", "provider, pool_id", with_pool),
        _ledger("Charged to", "charged_to", "provider charged_to", "provider, charged_to", with_charged_to),
        bars(
            "Accelerator-hours by model",
            "Held within the chosen time. Names come from the table of models of the rules.",
            "h",
            Query(
                sum_by_model(_hours("charged_to", "held", "provider, accelerator_model"), "provider"),
                "{{provider}} · {{accelerator_name}}",
            ),
            width=9,
        ),
        bars(
            "Prices",
            "Price of an accelerator for an hour. Set your prices in the table of prices of the rules.",
            "none",
            Query(
                "max by (accelerator_model, currency) (accelerator_model:trainfleet_accelerator_price:per_hour)",
                "{{accelerator_model}} ({{currency}})",
            ),
            width=6,
        ),
        bars(
            "Wasted share by user",
            "Wasted as a share of the held accelerator-hours of measured jobs.",
            "percentunit",
            Query(with_user(_wasted_share("user", by_user)), "{{provider}} · {{user_name}}"),
            scale=_WASTE,
            limits=(0, 1),
            width=9,
        ),
    ]


def _over_time() -> list[Panel]:
    user = "{{provider}} · {{user_name}}"
    held, used, wasted = (
        f"sum by (provider, user_name) (user:trainfleet_{what}_accelerators:sum{{{_SOME}}})"
        for what in ("held", "used", "wasted")
    )
    return [
        row("Over time"),
        counts(
            "Held accelerators by user",
            "Accelerators that each user's jobs hold.",
            Query(with_user(held), user),
            stacked=True,
        ),
        counts(
            "Wasted accelerators by user",
            "Held minus used, of measured jobs.",
            Query(with_user(wasted), user),
            stacked=True,
        ),
        timeseries(
            "Cost per hour by workspace",
            "Cost of the accelerators that the jobs of each workspace hold, by the table of prices.",
            "none",
            Query(
                with_workspace(
                    f"sum by (provider, workspace_id, currency) (workspace:trainfleet_held_cost:per_hour{{{_SOME}}})"
                ),
                "{{provider}} · {{workspace_name}} ({{currency}})",
            ),
            stacked=True,
        ),
        share(
            "Utilization by user",
            "Utilization of measured jobs, weighted by the accelerators of each job.",
            Query(with_user(f"{used}\n/ ({used} + {wasted} > 0)"), user),
            scale=IDLE_TO_BUSY,
        ),
    ]


def _jobs() -> list[Panel]:
    by = "provider, job_id"
    wasted = f"topk({_MOST}, {_hours('job', 'wasted', by)})"
    those = f"and on ({by}) {wasted}"
    whose = "job_name, user_name"
    # Most of these jobs have finished and are no longer shown, so their names come from their last samples.
    names = info(by, whose, f"last_over_time(trainfleet_job_info{{{P}}}[$__range])")
    return [
        row("Jobs"),
        table(
            "Jobs with the most waste",
            f"Accelerator-hours of the {_MOST} jobs with the most waste within the chosen time.",
            "provider job_name job_id user_name",
            [
                Column("Wasted", f"{wasted}\n* on ({by}) group_left ({whose})\n{names}", "h", decimals=1),
                Column("Held", f"{_hours('job', 'held', by)}\n{those}", "h", decimals=1),
                Column("Wasted share", f"{_wasted_share('job', by)}\n{those}", "percentunit", _WASTE, gauge=True),
                Column("Cost of the waste", f"{_cost('job', 'wasted', by)}\n{those}", decimals=0),
            ],
            sort="Wasted",
        ),
    ]


def build() -> str:
    """Return the JSON of the dashboard."""
    return dashboard(
        UID,
        "Trainfleet / Users and cost",
        "Accelerator-hours that users held, used and wasted, and their cost.",
        [datasource(), PROVIDER, _CHARGED_TO],
        [*_total(), *_who(), *_over_time(), *_jobs()],
        since="now-24h",
    )
