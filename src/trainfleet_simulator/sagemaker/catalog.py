"""The AWS account: its keys, users, instance types, training plans and HyperPod cluster, and its users' jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from trainfleet_simulator.world.fleet import ENDLESS, QUICK, STOPPED, Setting, Submissions, evenly, running_and_end
from trainfleet_simulator.world.jobs import Draft, Plan, Restart, Role
from trainfleet_simulator.world.nouns import DAY, GIB, HOUR, Machine, PoolSpec, User, by_name
from trainfleet_simulator.world.pools import Pool

REGION = "us-east-1"
ACCOUNT_ID = "123456789012"
ACCESS_KEY_ID = "AKIASIMULATOR7EXAMPLE"
SECRET_ACCESS_KEY = "simulated-secret-access-key"  # noqa: S105 - opens nothing but this simulator
WORKSPACE = "default"
"""The world's one workspace; SageMaker has none."""

USERS = (
    User("AIDASIMANA", "ana", "llm"),
    User("AIDASIMBEN", "ben", "llm"),
    User("AIDASIMCAI", "cai", "vision"),
    User("AIDASIMDEE", "dee", "speech"),
)
MODELS = {
    "llm": ("llama-sft", "mixtral-dpo", "reward-model", "tokenizer"),
    "vision": ("vit-large", "detr-sweep", "ocr"),
    "speech": ("asr-conformer", "tts-distil"),
}
FAILURES = (
    ("AlgorithmError", 'ExecuteUserScriptError:\nExitCode 1\nErrorMessage "CUDA out of memory"'),
    ("AlgorithmError", 'ExecuteUserScriptError:\nExitCode 137\nErrorMessage "killed"'),
    ("ClientError", "Data download failed: no objects found under the S3 prefix."),
    ("InternalServerError", "We encountered an internal error. Please try again."),
)
"""The word before the colon of FailureReason, and the text after it."""
MAX_RUNTIME = ("MaxRuntimeExceeded", "")
MAX_WAIT = ("MaxWaitTimeExceeded", "")
"""The secondary status of a job that SageMaker stops because its maximum wait is over."""


INSTANCE_TYPES = by_name(
    Machine("ml.p5.48xlarge", 192, 2048 * GIB, 8, "h100", 80),
    Machine("ml.p4d.24xlarge", 96, 1152 * GIB, 8, "a100", 40),
    Machine("ml.g5.12xlarge", 48, 192 * GIB, 4, "a10g", 24),
    Machine("ml.g5.2xlarge", 8, 32 * GIB, 1, "a10g", 24),
    Machine("ml.g6.4xlarge", 16, 64 * GIB, 1, "l4", 24),
    Machine("ml.trn1.32xlarge", 128, 512 * GIB, 16, "trainium", 32),
    Machine("ml.m5.4xlarge", 16, 64 * GIB),
    Machine("ml.c5.9xlarge", 36, 72 * GIB),
)

JOBS_PLAN = "p5-reserved"
CLUSTER_PLAN = "hyperpod-p5"
COMING_PLAN = "p5-next-quarter"
_P5_NODE = replace(INSTANCE_TYPES["ml.p5.48xlarge"], prefix="p5")
PLANS = (PoolSpec(JOBS_PLAN, JOBS_PLAN, "TrainingPlan", _P5_NODE, 6, (WORKSPACE,), status="Active"),)
"""The plans with instances for training jobs, which wait for them in a queue."""

CLUSTER = "hyperpod-llm"
CLUSTER_ID = "k3f9a7c2d1e8"


@dataclass(frozen=True, slots=True)
class Group:
    """An instance group of the cluster: its target number of instances, and the states of the existing ones."""

    name: str
    instance_type: str
    target: int
    states: tuple[str, ...]
    status: str = "InService"
    plan: str = ""


GROUPS = (
    Group("controller", "ml.m5.4xlarge", 1, ("Running",)),
    Group(
        "p5-workers",
        "ml.p5.48xlarge",
        8,
        ("Running", "Running", "Failure", "Running", "Running", "Running", "DeepHealthCheckInProgress"),
        status="Degraded",
        plan=CLUSTER_PLAN,
    ),
    Group("g5-dev", "ml.g5.12xlarge", 2, ("Running", "Pending"), status="Updating"),
)


def arn(kind: str, name: str) -> str:
    """Return the ARN of a SageMaker resource."""
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT_ID}:{kind}/{name}"


# Jobs.

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
    _, team, machine, payment = rng.choices(_PLACES, [place[0] for place in _PLACES])[0]
    user = rng.choice([user for user in USERS if user.team == team])
    roles = (instances(machine, rng.choice((1, 1, 1, 2))),)
    return compose(rng, user=user, payment=payment, roles=roles, plan=_plan(rng, payment, short=short))


def compose(rng: Random, *, user: User, payment: str, roles: tuple[Role, ...], plan: Plan) -> Draft:
    """Build a draft from its main facts. Its name and tags are random. Jobs of a training plan wait for its
    instances."""
    tags = {"team": user.team, "project": rng.choice(("atlas", "borealis", "comet"))} if rng.random() < 0.8 else {}
    if tags and rng.random() < 0.5:
        tags["cost-center"] = f"cc-{rng.randint(10, 19)}"
    return Draft(
        name=rng.choice(MODELS[user.team]),
        workspace_id=WORKSPACE,
        user=user,
        pool_id=JOBS_PLAN if payment == PLAN else "",
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
    restarts = [Restart(after, lasts, evicted=True, as_sub_status=False) for after in evenly(plan.running, count)]
    return replace(plan, restarts=tuple(restarts), loading=15)


def _plan(rng: Random, payment: str, *, short: bool) -> Plan:
    weights = (64, 22, 14)
    running, outcome, reason = running_and_end(rng, short=short, weights=weights, failures=FAILURES)
    if outcome == "Stopped" and rng.random() < 0.4:
        reason = MAX_WAIT if payment == SPOT else MAX_RUNTIME
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
    add(200, "waits-for-plan", PLAN, (instances("ml.p5.48xlarge", len(pools[JOBS_PLAN].nodes)),), ENDLESS)

    # One for each state that passes quickly. Only their timing matters.
    quick = replace(QUICK, reserving=20)
    one = (instances("ml.g5.2xlarge", 1),)
    add(1, "just-created", ON_DEMAND, one, replace(quick, creating=20))
    add(20, "downloads", ON_DEMAND, one, replace(quick, preparing=75))
    add(330, "uploads", ON_DEMAND, one, replace(quick, running=290, reserving=60))
    add(300, "is-stopped", ON_DEMAND, one, STOPPED)
    add(860, "ran-too-long", ON_DEMAND, one, replace(STOPPED, reason=MAX_RUNTIME))
    add(870, "waited-too-long", SPOT, one, replace(STOPPED, reason=MAX_WAIT))
    add(880, "was-interrupted", SPOT, one, spot_interruptions(quick, 2, 40))
    add(900, "lost-its-host", ON_DEMAND, one, replace(quick, outcome="Failed", reason=FAILURES[-1], reserving=0))
    add(910, "has-failed", ON_DEMAND, one, replace(quick, outcome="Failed", reason=FAILURES[0], reserving=0))
    add(920, "has-completed", ON_DEMAND, one, quick)
    return found


def _suffix(rng: Random) -> str:
    """Return a suffix that makes the name of a training job unique."""
    return f"{rng.getrandbits(40):010x}"


SETTING = Setting(pools=PLANS, population=24, watched=8, draft=draft, earlier=_earlier, job_id=_suffix, history=120)
