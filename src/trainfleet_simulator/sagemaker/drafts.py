"""The jobs that users of the AWS account submit."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import INSTANCE_TYPES
from trainfleet_simulator.world.jobs import Draft, Plan, Restart, Role
from trainfleet_simulator.world.nouns import GIB, STOPPED_BY_USER, SUCCEEDED, User

ON_DEMAND, SPOT, PLAN = "OnDemand", "Spot", "TrainingPlan"

# Places of jobs with their weights: (weight, team, instance type, payment).
_PLACES = (
    (14, "llm", "ml.p5.48xlarge", PLAN),
    (8, "llm", "ml.p4d.24xlarge", ON_DEMAND),
    (4, "llm", "ml.trn1.32xlarge", ON_DEMAND),
    (14, "vision", "ml.g5.12xlarge", ON_DEMAND),
    (10, "vision", "ml.g5.2xlarge", SPOT),
    (8, "vision", "ml.g6.4xlarge", SPOT),
    (10, "speech", "ml.g5.2xlarge", ON_DEMAND),
    (8, "speech", "ml.m5.4xlarge", ON_DEMAND),
    (6, "llm", "ml.c5.9xlarge", ON_DEMAND),
)


def draft(rng: Random, *, short: bool = True) -> Draft:
    """Draw a job. `short` ones run 1 to 12 minutes, others 10 minutes to 6 hours."""
    _, team, machine, payment = rng.choices(_PLACES, [place[0] for place in _PLACES])[0]
    user = rng.choice([user for user in catalog.USERS if user.team == team])
    roles = (instances(machine, rng.choice((1, 1, 1, 2))),)
    return compose(rng, user=user, payment=payment, roles=roles, plan=_plan(rng, payment, short=short))


def compose(rng: Random, *, user: User, payment: str, roles: tuple[Role, ...], plan: Plan) -> Draft:
    """Build a draft from its main facts. Its name and tags are random. Jobs of a training plan wait for its
    instances."""
    tags = {"team": user.team, "project": rng.choice(("atlas", "borealis", "comet"))} if rng.random() < 0.8 else {}
    if tags and rng.random() < 0.5:
        tags["cost-center"] = f"cc-{rng.randint(10, 19)}"
    return Draft(
        name=rng.choice(catalog.MODELS[user.team]),
        job_type="",
        workspace_id=catalog.WORKSPACE,
        user=user,
        pool_id=catalog.JOBS_PLAN if payment == PLAN else "",
        payment=payment,
        resource_type="",
        priority=1,
        roles=roles,
        tags=tuple(tags.items()),
        plan=plan,
        restarts_allowed=3,
    )


def instances(machine: str, count: int, group: str = "") -> Role:
    """Return whole instances. `group` names them in a job with several instance types."""
    kind = INSTANCE_TYPES[machine]
    return Role(group or "algo", count, kind.cpu, kind.memory * GIB, kind.cards, kind.card, machine)


def spot_interruptions(plan: Plan, count: int, lasts: int) -> Plan:
    """Return the plan with interruptions. After each, data is downloaded again."""
    restarts = tuple(
        Restart(plan.running * (place + 1) // (count + 1), lasts, evicted=True, as_sub_status=False)
        for place in range(count)
    )
    return replace(plan, restarts=restarts, loading=15)


def _plan(rng: Random, payment: str, *, short: bool) -> Plan:
    running = rng.randint(60, 720) if short else int(rng.triangular(600, 21600, 2400))
    outcome = rng.choices(("Succeeded", "Failed", "Stopped"), (64, 22, 14))[0]
    reason = {"Succeeded": SUCCEEDED, "Stopped": STOPPED_BY_USER}.get(outcome) or rng.choice(catalog.FAILURES)
    if outcome == "Stopped" and rng.random() < 0.4:
        reason = catalog.MAX_WAIT if payment == SPOT else catalog.MAX_RUNTIME
    plan = Plan(
        creating=rng.randint(2, 6),
        queuing=rng.randint(2, 12),
        preparing=rng.randint(10, 50),
        running=running,
        outcome=outcome,
        reason=reason,
        stopping=rng.randint(5, 20),
        reserving=rng.randint(5, 30) if outcome == "Succeeded" else 0,
        gives_up_after=rng.randint(120, 400) if rng.random() < 0.1 else None,
    )
    if payment == SPOT and rng.random() < 0.5:
        return spot_interruptions(plan, rng.choice((1, 1, 2)), rng.randint(20, 60))
    return plan
