"""The PAI account: its workspaces, users, machine types and quotas, and the jobs that its users submit.

Jobs are drawn from a seeded generator: ordinary ones, and the interesting ones. Jobs before the simulated world's start
are submissions at past times, not states. The world then lives through them.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from trainfleet_simulator.world.fleet import ENDLESS, QUICK, STOPPED, Setting, Submissions, evenly, running_and_end
from trainfleet_simulator.world.jobs import Draft, Plan, Restart, Role
from trainfleet_simulator.world.nouns import DAY, GIB, HOUR, Machine, PoolSpec, User, Workspace, by_name
from trainfleet_simulator.world.pools import Pool

REGION = "cn-hangzhou"
ACCOUNT_ID = "1000000000000001"

WORKSPACES = (
    Workspace("12345", "ws_train"),
    Workspace("12346", "ws_vision"),
    Workspace("12347", "ws_speech"),
    Workspace("98765", "ws_hidden", member=False),
)

USERS = (
    User("200000000000000001", "alice", "llm"),
    User("200000000000000002", "bob", "llm"),
    User("200000000000000003", "carol", "vision"),
    User("200000000000000004", "dan", "vision"),
    User("200000000000000005", "erin", "speech"),
    User("200000000000000006", "faythe", "platform"),
)

ECS_SPECS = by_name(
    Machine("ecs.c6.large", 2, 4 * GIB),
    Machine("ecs.g6.2xlarge", 8, 32 * GIB),
    Machine("ecs.g6.8xlarge", 32, 128 * GIB),
    Machine("ecs.gn6v-c8g1.2xlarge", 8, 32 * GIB, 1, "NVIDIA V100", 16),
    Machine("ecs.gn6v-c8g1.8xlarge", 32, 128 * GIB, 4, "NVIDIA V100", 16),
    Machine("ecs.gn6v-c8g1.16xlarge", 64, 256 * GIB, 8, "NVIDIA V100", 16),
    Machine("ecs.gn7i-c16g1.4xlarge", 16, 60 * GIB, 1, "NVIDIA A10", 24),
    Machine("ecs.gn6e-c12g1.3xlarge", 12, 92 * GIB, 1, "NVIDIA V100", 32),
    Machine("ml.gu8tf.8.46xlarge", 184, 1800 * GIB, 8, "GU8T", 96),
)

LINGJUN_NODE = Machine("ml.gu8tf.8.46xlarge", 184, 1800 * GIB, 8, "GU8T", 96, prefix="lrn")
V100_NODE = Machine(
    "ecs.gn6v-c8g1.16xlarge", 64, 256 * GIB, 8, "V100", 16, reserved_cpu=4, reserved_memory=16 * GIB, prefix="ecs"
)

ROOT, TRAIN, VISION = "quota1simlroot", "quota1simtrain", "quota1simvisio"
GENERAL, COMING, HIDDEN = "quota1simgener", "quota1simcomin", "quota1simhidde"

QUOTAS = (
    PoolSpec(ROOT, "lingjun-root", "Lingjun", LINGJUN_NODE, 4, ("12345", "12346")),
    PoolSpec(TRAIN, "pool-train", "Lingjun", LINGJUN_NODE, 6, ("12345",), parent=ROOT),
    PoolSpec(VISION, "pool-vision", "Lingjun", LINGJUN_NODE, 3, ("12346",), parent=ROOT),
    PoolSpec(GENERAL, "pool-general", "ECS", V100_NODE, 5, ("12346", "12347")),
    PoolSpec(COMING, "pool-coming", "Lingjun", LINGJUN_NODE, 0, ("12347",), status="Creating"),
    PoolSpec(HIDDEN, "pool-hidden", "Lingjun", LINGJUN_NODE, 4, ("98765",)),
)

CORDONED = frozenset({GENERAL})
"""Quotas whose last node a user has cordoned. Its jobs continue to run."""
LEASE_DAYS = {TRAIN: 5, VISION: 90, ROOT: 90, HIDDEN: 90}
"""Days from the start to the end of the lease of a quota's first node. Each further lease ends 30 days later. Nodes of
other quotas are pay-as-you-go."""

JOB_TYPES = (*["PyTorchJob"] * 4, "TFJob", "MPIJob", "XGBoostJob", "ElasticBatchJob", "RayJob")

MODELS = {
    "llm": ("llm-pretrain-7b", "llm-sft-13b", "reward-model", "tokenizer-stats"),
    "vision": ("resnet-sweep", "vit-large", "segment-anything-ft", "ocr-distil"),
    "speech": ("asr-conformer", "tts-vits", "speaker-id", "wav-features"),
    "platform": ("nightly-smoke", "nccl-check", "dataset-shuffle", "eval-harness"),
}

FAILURES = (
    ("OutOfMemory", "Container worker-0 was killed: out of memory."),
    ("ContainerExitedWithError", "Container of pod worker-0 exited with code 1."),
    ("ImagePullFailed", "Pulling the image failed."),
    ("NodeFault", "The node of pod worker-0 is not ready."),
)

# Jobs.

# Places of jobs with their weights: (weight, workspace, quota or "" for public resources, payment).
_PLACES = (
    (22, "12345", TRAIN, "PrePaid"),
    (7, "12345", ROOT, "PrePaid"),
    (10, "12346", VISION, "PrePaid"),
    (10, "12346", GENERAL, "PrePaid"),
    (10, "12347", GENERAL, "PrePaid"),
    (9, "12345", "", "PostPaid"),
    (11, "12346", "", "PostPaid"),
    (12, "12347", "", "PostPaid"),
    (3, "12347", "", "Spot"),
    (4, "98765", HIDDEN, "PrePaid"),
)
_PUBLIC_SPECS = [spec.name for spec in ECS_SPECS.values() if spec.name != LINGJUN_NODE.name]
_TEAMS = {"12345": ("llm", "platform"), "12346": ("vision",), "12347": ("speech", "platform"), "98765": ("llm",)}


def draft(rng: Random, *, short: bool = True) -> Draft:
    _, workspace, quota, payment = rng.choices(_PLACES, [place[0] for place in _PLACES])[0]
    user = rng.choice([user for user in USERS if user.team in _TEAMS[workspace]])
    if payment == "PrePaid":
        roles = _quota_roles(rng, quota)
    else:
        spec = LINGJUN_NODE.name if payment == "Spot" and rng.random() < 0.5 else rng.choice(_PUBLIC_SPECS)
        roles = public_roles(spec, rng.choice((1, 1, 1, 2, 4)))
    plan = _plan(rng, quota, roles, short=short)
    return compose(rng, workspace=workspace, user=user, quota=quota, payment=payment, roles=roles, plan=plan)


def compose(
    rng: Random, *, workspace: str, user: User, quota: str, payment: str, roles: tuple[Role, ...], plan: Plan
) -> Draft:
    """Build a draft from its main facts. The name, type, tags and priority are random."""
    model = rng.choice(MODELS[user.team])
    spec = ECS_SPECS.get(roles[0].machine)
    lingjun = quota not in ("", GENERAL) if spec is None else spec.card_type == "GU8T"
    if lingjun and payment == "Spot" and not plan.bidding:
        plan = replace(plan, bidding=rng.randint(10, 40))
    return Draft(
        name=f"{model}-{rng.randint(1, 999):03d}",
        job_type=rng.choice(JOB_TYPES) if len(roles) == 1 else "TFJob",
        workspace_id=workspace,
        user=user,
        pool_id=quota,
        payment=payment,
        resource_type="Lingjun" if lingjun else "ECS",
        priority=rng.choice((2, 3, 3, 4, 5, 5, 5, 6, 7, 9)) if quota else 1,
        roles=roles,
        tags=_tags(rng, user),
        plan=plan,
    )


def public_roles(spec_name: str, count: int) -> tuple[Role, ...]:
    """Workers on a machine type of the public resources."""
    return (Role.on(ECS_SPECS[spec_name], "Worker", count),)


def pool_role(kind: str, count: int, cards: int, card_type: str) -> Role:
    """Return pods of a quota. Memory without cards is not whole GiB: for it, the APIs return Mi."""
    node = LINGJUN_NODE if card_type == "GU8T" else V100_NODE
    return Role.part_of(node, kind, count, cards, parts=3)


def _quota_roles(rng: Random, quota: str) -> tuple[Role, ...]:
    gpu_type = "V100" if quota == GENERAL else "GU8T"
    kind = rng.random()
    if kind < 0.12:
        return (pool_role("Worker", rng.randint(1, 3), 0, gpu_type),)
    if kind < 0.22:
        servers = Role("PS", rng.randint(1, 2), 4, 16 * GIB)
        return (pool_role("Chief", 1, 1, gpu_type), pool_role("Worker", rng.randint(1, 3), 1, gpu_type), servers)
    if kind < 0.75:
        return (pool_role("Worker", 1, rng.choice((1, 1, 2, 4)), gpu_type),)
    workers = (pool_role("Worker", 1, 8, gpu_type),)
    return (pool_role("Master", 1, 8, gpu_type), *workers) if kind > 0.95 else workers


def _plan(rng: Random, quota: str, roles: tuple[Role, ...], *, short: bool) -> Plan:
    weights = (62, 23, 15)
    running, outcome, reason = running_and_end(rng, short=short, weights=weights, failures=FAILURES)
    restarts: tuple[Restart, ...] = ()
    if rng.random() < 0.18:
        count = rng.choice((1, 1, 2))
        restarts = tuple(
            Restart(after, rng.randint(10, 40), evicted=rng.random() < 0.6, as_sub_status=rng.random() < 0.5)
            for after in evenly(running, count)
        )
    reserves = bool(quota) and outcome != "Stopped" and rng.random() < 0.25
    return Plan(
        creating=rng.randint(2, 6),
        queuing=rng.randint(1, 8),
        preparing=rng.randint(8, 40),
        checking=rng.randint(10, 25) if any(role.cards == 8 for role in roles) and rng.random() < 0.6 else 0,
        running=running,
        outcome=outcome,
        reason=reason,
        stopping=rng.randint(3, 9),
        reserving=rng.randint(60, 150) if reserves else 0,
        gives_up_after=rng.randint(120, 400) if rng.random() < 0.1 else None,
        restarts=restarts,
    )


def _tags(rng: Random, user: User) -> tuple[tuple[str, str], ...]:
    if rng.random() < 0.25:
        return ()
    tags = {"team": user.team, "project": rng.choice(("atlas", "borealis", "comet")), "run_kind": "train"}
    kind = rng.random()
    if kind < 0.5:
        tags["cost-center"] = f"cc-{rng.randint(10, 19)}"
    if kind < 0.1:
        tags["cost_center"] = f"legacy-{rng.randint(1, 9)}"  # the same Prometheus label as that of another tag
    if kind > 0.9:
        tags["说明"] = 'say "hi"\nthere'
    return tuple(tags.items())


Who = tuple[str, User]
"""A workspace, and a user who submits to it."""

_TRAIN: Who = ("12345", USERS[0])
_VISION: Who = ("12346", USERS[2])
_SPEECH: Who = ("12347", USERS[4])
_ELSEWHERE: Who = ("98765", USERS[1])


def _earlier(rng: Random, started: int, pools: Mapping[str, Pool]) -> Submissions:
    root_nodes = len(pools[ROOT].nodes)

    def public(ago: int, name: str, where: Who, spec: str, plan: Plan) -> None:
        workspace, user = where
        payment = "Spot" if name in {"tts-on-spot", "bids"} else "PostPaid"
        roles = public_roles(spec, 2)
        made = compose(rng, workspace=workspace, user=user, quota="", payment=payment, roles=roles, plan=plan)
        found.append((started - ago, replace(made, name=name, job_type="PyTorchJob")))

    def pooled(ago: int, name: str, quota: str, roles: tuple[Role, ...], plan: Plan) -> None:
        workspace, user = {VISION: _VISION, HIDDEN: _ELSEWHERE}.get(quota, _TRAIN)
        made = compose(rng, workspace=workspace, user=user, quota=quota, payment="PrePaid", roles=roles, plan=plan)
        priority = 1 if name == "waits-for-room" else 9
        found.append((started - ago, replace(made, name=name, job_type="PyTorchJob", priority=priority)))

    found: list[tuple[int, Draft]] = []
    one_gpu, four_gpus, eight_gpus = "ecs.gn6e-c12g1.3xlarge", "ecs.gn6v-c8g1.8xlarge", "ecs.gn6v-c8g1.16xlarge"
    one_full_node = (pool_role("Worker", 1, 8, "GU8T"),)
    two_full_nodes = (pool_role("Master", 1, 8, "GU8T"), *one_full_node)

    pooled(20 * DAY, "llm-pretrain-70b", ROOT, two_full_nodes, ENDLESS)
    public(3 * HOUR, "asr-hangs", _SPEECH, eight_gpus, replace(ENDLESS, hangs_after=3 * HOUR - 25 * 60))
    public(2 * HOUR, "asr-steady", _SPEECH, four_gpus, ENDLESS)
    public(5 * HOUR, "features-cpu", _VISION, "ecs.g6.8xlarge", ENDLESS)
    public(90 * 60, "tts-on-spot", _SPEECH, four_gpus, ENDLESS)
    pooled(8 * DAY, "in-the-hidden-room", HIDDEN, one_full_node, ENDLESS)
    # It requests all of the root's own nodes, two of which are always taken.
    whole_root = (pool_role("Worker", root_nodes, 8, "GU8T"),)
    pooled(200, "waits-for-room", ROOT, whole_root, ENDLESS)

    # One for each state that passes quickly. Only their timing matters.
    # These two arrive before the ordinary jobs, so that they get nodes at once.
    reserving = replace(QUICK, preparing=20, running=2700, reserving=900)
    pooled(45 * 60 + 120, "holds-after-success", VISION, one_full_node, reserving)
    failing = replace(reserving, outcome="Failed", reason=FAILURES[1], reserving=600)
    pooled(45 * 60 + 80, "holds-after-failure", TRAIN, one_full_node, failing)
    public(1, "just-created", _TRAIN, one_gpu, replace(QUICK, creating=20))
    public(25, "bids", _SPEECH, "ml.gu8tf.8.46xlarge", replace(QUICK, bidding=90))
    public(20, "prepares", _VISION, one_gpu, replace(QUICK, preparing=75))
    public(60, "is-checked", _VISION, eight_gpus, replace(QUICK, checking=90))
    lost = Restart(after=570, lasts=80, evicted=True, as_sub_status=False)
    public(600, "restarts", _TRAIN, four_gpus, replace(QUICK, running=1500, restarts=(lost,)))
    quietly = replace(lost, evicted=False, as_sub_status=True)
    public(600, "restarts-quietly", _TRAIN, one_gpu, replace(QUICK, running=1500, restarts=(quietly,)))
    public(300, "is-stopped", _SPEECH, one_gpu, STOPPED)
    return found


def _job_id(rng: Random) -> str:
    return "dlc1" + "".join(rng.choices(string.ascii_lowercase + string.digits, k=12))


SETTING = Setting(pools=QUOTAS, population=40, watched=6, draft=draft, earlier=_earlier, job_id=_job_id, history=200)
