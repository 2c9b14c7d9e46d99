"""The jobs that users of the AWS account submit: ordinary ones, and the interesting ones before the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import FAILURES, INSTANCE_TYPES, USERS
from trainfleet_simulator.world.fleet import ENDLESS, QUICK, Setting, Submissions, running_and_end
from trainfleet_simulator.world.jobs import Draft, Plan, Restart, Role
from trainfleet_simulator.world.nouns import DAY, HOUR, STOPPED_BY_USER, User
from trainfleet_simulator.world.pools import Pool

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
    """Draw an ordinary job."""
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
        workspace_id=catalog.WORKSPACE,
        user=user,
        pool_id=catalog.JOBS_PLAN if payment == PLAN else "",
        payment=payment,
        priority=1,
        roles=roles,
        tags=tuple(tags.items()),
        plan=plan,
        restarts_allowed=3,
    )


def instances(machine: str, count: int, group: str = "") -> Role:
    """Return whole instances. `group` names them in a job with several instance types."""
    return Role.on(INSTANCE_TYPES[machine], group or "algo", count)


def spot_interruptions(plan: Plan, count: int, lasts: int) -> Plan:
    """Return the plan with interruptions. After each, data is downloaded again."""
    restarts = tuple(
        Restart(plan.running * (place + 1) // (count + 1), lasts, evicted=True, as_sub_status=False)
        for place in range(count)
    )
    return replace(plan, restarts=restarts, loading=15)


def _plan(rng: Random, payment: str, *, short: bool) -> Plan:
    weights = (64, 22, 14)
    running, outcome, reason = running_and_end(rng, short=short, weights=weights, failures=catalog.FAILURES)
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


def _earlier(rng: Random, started: int, pools: Mapping[str, Pool]) -> Submissions:
    found: Submissions = []

    def add(ago: int, name: str, payment: str, roles: tuple[Role, ...], plan: Plan) -> None:
        made = compose(rng, user=USERS[len(found) % len(USERS)], payment=payment, roles=roles, plan=plan)
        # No job overtakes the first one in the queue, so the job that waits forever is behind all others.
        found.append((started - ago, replace(made, name=name, priority=0 if name == "waits-for-plan" else 1)))

    add(5 * DAY, "llama-pretrain", PLAN, (instances("ml.p5.48xlarge", 2),), ENDLESS)
    hangs = replace(ENDLESS, hangs_after=3 * HOUR - 25 * 60)
    add(3 * HOUR, "p4d-hangs", ON_DEMAND, (instances("ml.p4d.24xlarge", 1),), hangs)
    add(2 * HOUR, "vit-steady", ON_DEMAND, (instances("ml.g5.12xlarge", 2),), ENDLESS)
    groups = (instances("ml.g5.12xlarge", 1, "gpu"), instances("ml.c5.9xlarge", 2, "data"))
    add(4 * HOUR, "hetero-steady", ON_DEMAND, groups, ENDLESS)
    add(5 * HOUR, "features-cpu", ON_DEMAND, (instances("ml.m5.4xlarge", 1),), ENDLESS)
    add(90 * 60, "trn1-steady", ON_DEMAND, (instances("ml.trn1.32xlarge", 1),), ENDLESS)
    spot = spot_interruptions(replace(ENDLESS, running=8 * HOUR), 40, 45)
    add(100 * 60, "spot-sweep", SPOT, (instances("ml.g5.2xlarge", 2),), spot)
    add(200, "waits-for-plan", PLAN, (instances("ml.p5.48xlarge", len(pools[catalog.JOBS_PLAN].nodes)),), ENDLESS)

    # One for each state that passes quickly. Only their timing matters.
    quick = replace(QUICK, reserving=20)
    one = (instances("ml.g5.2xlarge", 1),)
    add(1, "just-created", ON_DEMAND, one, replace(quick, creating=20))
    add(20, "downloads", ON_DEMAND, one, replace(quick, preparing=75))
    add(330, "uploads", ON_DEMAND, one, replace(quick, running=290, reserving=60))
    stopped = replace(quick, running=270, outcome="Stopped", reason=STOPPED_BY_USER, stopping=45, reserving=0)
    add(300, "is-stopped", ON_DEMAND, one, stopped)
    add(860, "ran-too-long", ON_DEMAND, one, replace(stopped, reason=catalog.MAX_RUNTIME))
    add(870, "waited-too-long", SPOT, one, replace(stopped, reason=catalog.MAX_WAIT))
    add(880, "was-interrupted", SPOT, one, spot_interruptions(quick, 2, 40))
    add(900, "lost-its-host", ON_DEMAND, one, replace(quick, outcome="Failed", reason=FAILURES[-1], reserving=0))
    add(910, "has-failed", ON_DEMAND, one, replace(quick, outcome="Failed", reason=FAILURES[0], reserving=0))
    add(920, "has-completed", ON_DEMAND, one, quick)
    return found


def _suffix(rng: Random) -> str:
    """Return a suffix that makes the name of a training job unique."""
    return f"{rng.getrandbits(40):010x}"


SETTING = Setting(
    pools=catalog.PLANS, population=24, watched=8, draft=draft, earlier=_earlier, job_id=_suffix, history=120
)
