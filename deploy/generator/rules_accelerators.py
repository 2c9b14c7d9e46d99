"""Records of the accelerators that jobs hold, their use and their cost.

A job without a known utilization is unmeasured: its accelerators are held, but not used, wasted or idle.
"""

from __future__ import annotations

from deploy.generator.rules_model import JOB, JOB_OWNERS, Group, Record, info

_LEVELS = {
    "job": "",
    "user": "user_id, user_name, charged_to, ",
    "workspace": "workspace_id, charged_to, ",
    "pool": "pool_id, charged_to, ",
    "charged_to": "charged_to, ",
    "provider": "",
}
"""The labels that sums of each level add to those of a provider."""
PRICE = "accelerator_model:trainfleet_accelerator_price:per_hour"
PEAK = "accelerator_model:trainfleet_accelerator_peak:flops_per_second"

_MEANINGS = {
    "held": "Accelerators that jobs hold, also if they start or stop, and if the cloud reserves them after the end.",
    "used": "Held accelerators times their utilization, of measured jobs.",
    "idle": "Accelerators of jobs whose utilization is below `idle_ratio`. Absent if no job is measured.",
    "wasted": "Held minus used accelerators, of measured jobs.",
    "unmeasured": "Accelerators of jobs without a known utilization.",
}
_COSTS = ("held", "idle", "wasted")

_OWNER = info(JOB, JOB_OWNERS, "trainfleet_job_info", bridged=False)
_CHARGED = f"""\
(
  topk by ({JOB}) (
    1,
    max by ({JOB}, charged_to) (
      label_replace(trainfleet_job_labels, "charged_to", "$1", "<chargeback_label>", "(.+)")
    )
  )
  or on ({JOB})
  max by ({JOB}) (trainfleet_job_info)
)"""
_USE = "max by (provider, job_id, accelerator) (trainfleet_job_accelerator_utilization_ratio)"
_ON_USE = "on (provider, job_id, accelerator)"
_HELD = "job:trainfleet_held_accelerators:sum"

# `0 *` drops the metric name, so `1 *` must drop it, too. Otherwise a range query, such as that of promtool for the
# past, returns two series for one job.
_OF_JOBS = {
    "held": f"""\
(
  max by (provider, job_id, accelerator, accelerator_model) (trainfleet_job_requested_accelerators) > 0
  and on (provider, job_id)
  max by (provider, job_id) (trainfleet_job_holds_resources) == 1
)
* on (provider, job_id) group_left ({JOB_OWNERS})
{_OWNER}
* on (provider, job_id) group_left (charged_to)
{_CHARGED}""",
    "used": f"{_HELD}\n* {_ON_USE} group_left ()\n{_USE}",
    "idle": f"{_HELD}\n* {_ON_USE} group_left ()\n({_USE} < bool <idle_ratio>)",
    "wasted": f"{_HELD}\n- job:trainfleet_used_accelerators:sum",
    "unmeasured": f"1 * (\n  {_HELD}\n  unless {_ON_USE}\n  {_USE}\n)\nor\n0 * {_HELD}",
}


def _amounts(level: str) -> list[Record]:
    by = f"provider, {_LEVELS[level]}accelerator, accelerator_model"
    made = []
    for what, meaning in _MEANINGS.items():
        name = f"trainfleet_{what}_accelerators:sum"
        expr = _OF_JOBS[what] if level == "job" else f"sum by ({by}) (job:{name})"
        made.append(Record(f"{level}:{name}", expr, meaning))
    return made


def _ratio(level: str) -> Record:
    used, wasted = (f"{level}:trainfleet_{what}_accelerators:sum" for what in ("used", "wasted"))
    return Record(
        f"{level}:trainfleet_accelerator_utilization:ratio",
        f"{used}\n/ ({used} + {wasted})",
        "Used accelerators as a share of the held ones, of measured jobs.",
    )


def _cost(level: str, what: str) -> Record:
    return Record(
        f"{level}:trainfleet_{what}_cost:per_hour",
        f"{level}:trainfleet_{what}_accelerators:sum\n* on (accelerator_model) group_left (currency)\n{PRICE}",
        f"Cost of the {what} accelerators for an hour.",
    )


_UNPRICED = Record(
    "provider:trainfleet_unpriced_accelerators:sum",
    "1 * (\n  provider:trainfleet_held_accelerators:sum\n  unless on (accelerator_model)\n"
    f"  {PRICE}\n)\nor\n0 * provider:trainfleet_held_accelerators:sum",
    "Held accelerators of models without a price.",
)

ACCELERATORS = Group(
    "trainfleet-accelerators",
    (
        *(record for level in _LEVELS for record in _amounts(level)),
        *(_ratio(level) for level in _LEVELS),
        # A job's cost is its accelerators times the price, so three series for each job are not needed.
        *(_cost(level, what) for level in _LEVELS if level != "job" for what in _COSTS),
        _UNPRICED,
    ),
    has_tables=True,
)
