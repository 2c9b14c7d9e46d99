"""The simulated training plans: reserved capacity for training jobs or a cluster.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingPlanSummary.html
"""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.exchange import Answer
from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import GROUPS, arn
from trainfleet_simulator.sagemaker.parameters import PAGED, Call, check, page
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import DAY

_PLANS = {
    catalog.JOBS_PLAN: ("training-job", -9 * DAY, 30, 6),
    catalog.CLUSTER_PLAN: ("hyperpod-cluster", -40 * DAY, 60, 8),
    catalog.COMING_PLAN: ("training-job", 12 * DAY, 14, 4),
}
"""The purpose of a plan, its start (seconds from the world's), its days, and its instances (of the first plan: the
pool's)."""
PLAN_STATUS = {catalog.JOBS_PLAN: "Active", catalog.CLUSTER_PLAN: "Active", catalog.COMING_PLAN: "Scheduled"}
_INSTANCE_TYPE = "ml.p5.48xlarge"


def list_training_plans(call: Call) -> Answer:
    """ListTrainingPlans, the latest start first."""
    check(call.body, PAGED)

    def find() -> list[dict[str, Any]]:
        plans = [_plan(call.world, name) for name in _PLANS]
        return sorted(plans, key=lambda plan: float(plan["StartTime"]), reverse=True)

    plans, token, total = page(call, find)
    return Answer({"TrainingPlanSummaries": plans, **token}, total=total, rows=[_row(plan) for plan in plans])


def _plan(world: World, name: str) -> dict[str, Any]:
    target, begins, days, count = _PLANS[name]
    start, end, status = float(world.started + begins), float(world.started + begins + days * DAY), PLAN_STATUS[name]
    in_use = sum(len(group.states) for group in GROUPS if group.plan == name)
    if name in world.pools:
        pool = world.pools[name]
        count, in_use = len(pool.nodes), pool.nodes_in_use
    lasts = {"DurationHours": days * 24, "DurationMinutes": 0, "StartTime": start, "EndTime": end}
    capacity = {
        "ReservedCapacityArn": arn("reserved-capacity", f"{name}-1"),
        "ReservedCapacityType": "Instance",
        "InstanceType": _INSTANCE_TYPE,
        "TotalInstanceCount": count,
        "Status": status,
        "AvailabilityZone": f"{catalog.REGION}a",
        **lasts,
    }
    return {
        "TrainingPlanArn": arn("training-plan", name),
        "TrainingPlanName": name,
        "Status": status,
        **lasts,
        "UpfrontFee": "120000.00",
        "CurrencyCode": "USD",
        "TotalInstanceCount": count,
        "AvailableInstanceCount": count - in_use if status == "Active" else 0,
        "InUseInstanceCount": in_use,
        "TargetResources": [target],
        "ReservedCapacitySummaries": [capacity],
    }


def _row(plan: dict[str, Any]) -> list[Any]:
    return [plan["TrainingPlanName"], plan["Status"], plan["TotalInstanceCount"], plan["InUseInstanceCount"]]
