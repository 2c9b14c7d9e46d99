"""The ModelArts project: its keys, workspaces, users, flavors and pools, and the jobs that its users submit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from trainfleet_simulator.exchange import ApiError
from trainfleet_simulator.world.fleet import (
    ENDLESS,
    QUICK,
    STOPPED,
    Setting,
    Submissions,
    World,
    new_uuid,
    running_and_end,
)
from trainfleet_simulator.world.jobs import Draft, Plan, Restart, Role
from trainfleet_simulator.world.nouns import DAY, GIB, HOUR, Machine, PoolSpec, User, Workspace, by_name
from trainfleet_simulator.world.pools import Pool

REGION = "cn-north-4"
PROJECT_ID = "5f0c8e1d2b7a49c6a3d4e5f60718293a"
OTHER_PROJECT_ID = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
PROJECTS = {REGION: PROJECT_ID, "cn-east-3": OTHER_PROJECT_ID}

ACCESS_KEY = "HUAWEISIMULATORAK"
SECRET_KEY = "simulated-secret-key"  # noqa: S105 - opens nothing but this simulator
USER_NAME = "exporter"
PASSWORD = "simulated-password"  # noqa: S105 - likewise
DOMAIN_NAME = "sim-account"
DOMAIN_ID = "d0a1b2c3d4e5f60718293a4b5c6d7e8f"

DEFAULT, TEAM_WORKSPACE = "0", "c7d8e9fa0b1c2d3e4f5061728394a5b6"
WORKSPACES = (Workspace(DEFAULT, "default"), Workspace(TEAM_WORKSPACE, "vision-team"))
USERS = (
    User("0a1b2c3d4e5f60718293a4b5c6d7e801", "li.na", "llm"),
    User("0a1b2c3d4e5f60718293a4b5c6d7e802", "zhang.wei", "llm"),
    User("0a1b2c3d4e5f60718293a4b5c6d7e803", "chen.jie", "vision"),
    User("0a1b2c3d4e5f60718293a4b5c6d7e804", "wang.fang", "vision"),
)
MODELS = {
    "llm": ("pangu-sft", "llama-dpo", "tokenizer-stats", "reward-model"),
    "vision": ("yolo-sweep", "vit-base", "ocr-finetune", "pose-distil"),
}

NODE_FAULT = "NodeFault"
FAILURES = (
    ("ContainerExitedWithError", "worker-0 exited with code 1."),
    ("ContainerExitedWithError", "worker-0 exited with code 1."),
    ("OutOfMemory", "worker-0 was killed: out of memory."),
    (NODE_FAULT, "The node of worker-0 was lost."),
)


FLAVORS = by_name(
    Machine("modelarts.vm.cpu.8u", 8, 32 * GIB),
    Machine("modelarts.vm.gpu.v100", 8, 64 * GIB, 1, "NVIDIA-V100", 32),
    Machine("modelarts.vm.gpu.8v100", 72, 512 * GIB, 8, "NVIDIA-V100", 32),
    Machine("modelarts.kat1.xlarge", 24, 96 * GIB, 1, "ascend-snt9", 32),
    Machine("modelarts.kat1.8xlarge", 192, 720 * GIB, 8, "ascend-snt9", 32),
)

ASCEND_CARD, GPU_CARD = "ascend-snt9b", "nvidia-v100"
ASCEND_NODE = Machine("modelarts.bm.npu.arm.8snt9b", 192, 1536 * GIB, 8, ASCEND_CARD, 64, prefix="os-node-created")
GPU_NODE = Machine("modelarts.vm.gpu.8v100.pool", 72, 512 * GIB, 8, GPU_CARD, 32, prefix="os-node-created")

ASCEND = "pool-7a1c-0f0e4b1f9f593c7f0b6f2a11aabbccdd"
ASCEND_TEAM = "pool-7a1d-19b2c3d4e5f60718293a4b5c6d7e8f90"
GPU = "pool-31f0-5e6f708192a3b4c5d6e7f8091a2b3c4d"
COMING = "pool-90aa-77889900aabbccddeeff001122334455"
NEVER_CAME = "pool-0bad-00112233445566778899aabbccddeeff"

POOLS = (
    PoolSpec(ASCEND, "ascend-train", "Dedicate", ASCEND_NODE, 6, (DEFAULT,), status="Running"),
    PoolSpec(ASCEND_TEAM, "ascend-team", "Logical", ASCEND_NODE, 4, (DEFAULT,), parent=ASCEND, status="Running"),
    PoolSpec(GPU, "gpu-vision", "Dedicate", GPU_NODE, 5, (TEAM_WORKSPACE,), status="Running"),
    PoolSpec(COMING, "ascend-coming", "Dedicate", ASCEND_NODE, 0, (DEFAULT,), status="Creating"),
    PoolSpec(NEVER_CAME, "gpu-never", "Dedicate", GPU_NODE, 0, (DEFAULT,), status="CreationFailed"),
)
ABNORMAL_NODES = {GPU: 1}
"""Bound but broken nodes. They run nothing, and no capacity counts them."""

DEVICE_KEYS = {ASCEND_CARD: "huawei.com/ascend-1980", GPU_CARD: "nvidia.com/gpu"}
NODE_DEVICE_KEYS = {ASCEND_CARD: "huawei.com/ascend-snt9", GPU_CARD: "nvidia.com/gpu"}

OTHER_WORKLOADS = {
    ASCEND: (("notebook", "notebook-li-na", "Running"), ("infer", "pangu-chat", "Running")),
    GPU: (("notebook", "notebook-chen-jie", "Running"), ("infer", "ocr-service", "Abnormal")),
}
"""Other workloads in pools: type, name, status. They never end and use almost nothing."""


def workspace_of(world: World, given: Any) -> str:
    """Return a workspace's id. The default is the default workspace, never all of them."""
    known = [workspace.workspace_id for workspace in WORKSPACES]
    asked = DEFAULT if given in (None, "") else given
    if asked not in known or asked in world.hidden:
        raise ApiError(403, "ModelArts.0112", "The workspace does not exist or may not be used.")
    return str(asked)


# Jobs.

# Places of jobs with their weights: (weight, workspace, pool or "" for the public one).
_PLACES = (
    (24, DEFAULT, ASCEND),
    (11, DEFAULT, ASCEND_TEAM),
    (22, TEAM_WORKSPACE, GPU),
    (10, DEFAULT, ""),
    (14, TEAM_WORKSPACE, ""),
)
_TEAMS = {DEFAULT: "llm", TEAM_WORKSPACE: "vision"}


def draft(rng: Random, *, short: bool = True) -> Draft:
    _, workspace, pool = rng.choices(_PLACES, [place[0] for place in _PLACES])[0]
    user = rng.choice([user for user in USERS if user.team == _TEAMS[workspace]])
    roles = _pool_roles(rng, pool) if pool else public_roles(rng.choice(tuple(FLAVORS)), rng.choice((1, 1, 2)))
    plan = ordinary_plan(rng, short=short)
    return compose(rng, workspace=workspace, user=user, pool=pool, roles=roles, plan=plan)


def compose(rng: Random, *, workspace: str, user: User, pool: str, roles: tuple[Role, ...], plan: Plan) -> Draft:
    """Build a draft from its main facts. The name, annotations and priority are random."""
    annotations = {"fault-tolerance/job-retry-num": "3"}
    if rng.random() < 0.75:
        annotations |= {"team": user.team, "project": rng.choice(("atlas", "borealis", "comet"))}
    return Draft(
        name=f"{rng.choice(MODELS[user.team])}-{rng.randint(1, 999):03d}",
        job_type="job" if len(roles) == 1 else "hetero_job",
        workspace_id=workspace,
        user=user,
        pool_id=pool,
        priority=rng.choice((1, 1, 1, 2, 3)),
        roles=roles,
        tags=tuple(annotations.items()),
        plan=plan,
        restarts_allowed=3,
    )


def public_roles(flavor_id: str, count: int) -> tuple[Role, ...]:
    """Workers on machines of the public pool."""
    return (Role.on(FLAVORS[flavor_id], "worker", count),)


def pool_role(pool: str, kind: str, count: int, cards: int) -> Role:
    """Return tasks on a pool's nodes."""
    node = next(spec.node_type for spec in POOLS if spec.pool_id == pool)
    size = f"modelarts.pool.visual.{f'{cards}x' if cards > 1 else 'x' if cards else 'cpu.'}large"
    return Role.part_of(node, kind, count, cards, size=size)


def _pool_roles(rng: Random, pool: str) -> tuple[Role, ...]:
    kind = rng.random()
    if kind < 0.12:
        return (pool_role(pool, "worker", rng.randint(1, 2), 0),)
    if kind < 0.24:
        return (pool_role(pool, "worker", rng.randint(1, 3), rng.choice((1, 2))), pool_role(pool, "server", 1, 0))
    if kind < 0.8:
        return (pool_role(pool, "worker", 1, rng.choice((1, 1, 2, 4))),)
    return (pool_role(pool, "worker", 2 if kind > 0.95 else 1, 8),)


def ordinary_plan(rng: Random, *, short: bool) -> Plan:
    """Draw the plan of an ordinary job. Its restarts do not show in its phase."""
    weights = (62, 24, 14)
    running, outcome, reason = running_and_end(rng, short=short, weights=weights, failures=FAILURES)
    restarts: tuple[Restart, ...] = ()
    if rng.random() < 0.15:
        restarts = (Restart(after=running // 2, lasts=rng.randint(10, 40), evicted=False, as_sub_status=True),)
    return Plan(
        creating=rng.randint(2, 6),
        queuing=rng.randint(1, 8),
        preparing=rng.randint(8, 40),
        running=running,
        outcome=outcome,
        reason=reason,
        stopping=rng.randint(3, 9),
        gives_up_after=rng.randint(120, 400) if rng.random() < 0.1 else None,
        restarts=restarts,
    )


def _earlier(rng: Random, started: int, pools: Mapping[str, Pool]) -> Submissions:
    found: Submissions = []

    def add(ago: int, name: str, where: str, roles: tuple[Role, ...], plan: Plan) -> None:
        vision = where == GPU or (not where and "gpu" in roles[0].machine)
        place, user = (TEAM_WORKSPACE, USERS[2]) if vision else (DEFAULT, USERS[0])
        made = compose(rng, workspace=place, user=user, pool=where, roles=roles, plan=plan)
        found.append((started - ago, replace(made, name=name, priority=0 if name == "waits-for-room" else 3)))

    def one(pool: str, count: int, cards: int) -> tuple[Role, ...]:
        return (pool_role(pool, "worker", count, cards),)

    add(6 * DAY, "pangu-pretrain", ASCEND, one(ASCEND, 2, 8), ENDLESS)
    add(3 * HOUR, "ascend-hangs", ASCEND_TEAM, one(ASCEND_TEAM, 1, 8), replace(ENDLESS, hangs_after=3 * HOUR - 25 * 60))
    add(2 * HOUR, "gpu-steady", GPU, one(GPU, 2, 4), ENDLESS)
    roles = (pool_role(GPU, "worker", 2, 2), pool_role(GPU, "server", 1, 0))
    add(4 * HOUR, "hetero-steady", GPU, roles, ENDLESS)
    add(5 * HOUR, "features-cpu", "", public_roles("modelarts.vm.cpu.8u", 2), ENDLESS)
    add(90 * 60, "public-ascend", "", public_roles("modelarts.kat1.8xlarge", 1), ENDLESS)
    add(200, "waits-for-room", ASCEND, one(ASCEND, len(pools[ASCEND].nodes), 8), ENDLESS)

    # One for each phase that passes quickly. Only their timing matters.
    on_gpu = public_roles("modelarts.vm.gpu.v100", 1)
    add(1, "just-created", "", on_gpu, replace(QUICK, creating=20))
    add(20, "prepares", "", on_gpu, replace(QUICK, preparing=75))
    add(300, "is-stopped", "", on_gpu, STOPPED)
    add(900, "lost-its-node", "", on_gpu, replace(QUICK, outcome="Failed", reason=FAILURES[-1]))
    add(910, "has-failed", "", on_gpu, replace(QUICK, outcome="Failed", reason=FAILURES[0]))
    add(920, "has-completed", "", on_gpu, QUICK)
    return found


SETTING = Setting(pools=POOLS, population=24, watched=7, draft=draft, earlier=_earlier, job_id=new_uuid, history=120)
