"""The jobs that users of the ModelArts project submit: ordinary ones, and the interesting ones before the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from uuid import UUID

from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.catalog import FAILURES, FLAVORS, USERS
from trainfleet_simulator.world.fleet import ENDLESS, QUICK, Setting, Submissions, running_and_end
from trainfleet_simulator.world.jobs import Draft, Plan, Restart, Role
from trainfleet_simulator.world.nouns import DAY, HOUR, STOPPED_BY_USER, User
from trainfleet_simulator.world.pools import Pool

# Places of jobs with their weights: (weight, workspace, pool or "" for the public one).
_PLACES = (
    (24, catalog.DEFAULT, catalog.ASCEND),
    (11, catalog.DEFAULT, catalog.ASCEND_TEAM),
    (22, catalog.TEAM_WORKSPACE, catalog.GPU),
    (10, catalog.DEFAULT, ""),
    (14, catalog.TEAM_WORKSPACE, ""),
)
_TEAMS = {catalog.DEFAULT: "llm", catalog.TEAM_WORKSPACE: "vision"}


def draft(rng: Random, *, short: bool = True) -> Draft:
    """Draw an ordinary job."""
    _, workspace, pool = rng.choices(_PLACES, [place[0] for place in _PLACES])[0]
    user = rng.choice([user for user in catalog.USERS if user.team == _TEAMS[workspace]])
    roles = _pool_roles(rng, pool) if pool else public_roles(rng.choice(tuple(FLAVORS)), rng.choice((1, 1, 2)))
    plan = ordinary_plan(rng, short=short)
    return compose(rng, workspace=workspace, user=user, pool=pool, roles=roles, plan=plan)


def compose(rng: Random, *, workspace: str, user: User, pool: str, roles: tuple[Role, ...], plan: Plan) -> Draft:
    """Build a draft from its main facts. The name, annotations and priority are random."""
    annotations = {"fault-tolerance/job-retry-num": "3"}
    if rng.random() < 0.75:
        annotations |= {"team": user.team, "project": rng.choice(("atlas", "borealis", "comet"))}
    return Draft(
        name=f"{rng.choice(catalog.MODELS[user.team])}-{rng.randint(1, 999):03d}",
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
    """Return tasks with `cards` cards of a pool's node, and their share of its other resources; without cards, an
    eighth of a node."""
    spec = next(spec for spec in catalog.POOLS if spec.pool_id == pool)
    node, share = spec.node_type, max(cards, 1)
    size = f"modelarts.pool.visual.{f'{cards}x' if cards > 1 else 'x' if cards else 'cpu.'}large"
    return Role(
        kind,
        count,
        node.cpu * share // node.cards // (1 if cards else 2),
        node.memory * share // node.cards // (1 if cards else 2),
        cards,
        node.card_type if cards else "",
        size,
    )


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
    running, outcome, reason = running_and_end(rng, short=short, weights=weights, failures=catalog.FAILURES)
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
        vision = where == catalog.GPU or (not where and "gpu" in roles[0].machine)
        place, user = (catalog.TEAM_WORKSPACE, USERS[2]) if vision else (catalog.DEFAULT, USERS[0])
        made = compose(rng, workspace=place, user=user, pool=where, roles=roles, plan=plan)
        found.append((started - ago, replace(made, name=name, priority=0 if name == "waits-for-room" else 3)))

    def one(pool: str, count: int, cards: int) -> tuple[Role, ...]:
        return (pool_role(pool, "worker", count, cards),)

    ascend, team, gpu = catalog.ASCEND, catalog.ASCEND_TEAM, catalog.GPU
    add(6 * DAY, "pangu-pretrain", ascend, one(ascend, 2, 8), ENDLESS)
    add(3 * HOUR, "ascend-hangs", team, one(team, 1, 8), replace(ENDLESS, hangs_after=3 * HOUR - 25 * 60))
    add(2 * HOUR, "gpu-steady", gpu, one(gpu, 2, 4), ENDLESS)
    roles = (pool_role(gpu, "worker", 2, 2), pool_role(gpu, "server", 1, 0))
    add(4 * HOUR, "hetero-steady", gpu, roles, ENDLESS)
    add(5 * HOUR, "features-cpu", "", public_roles("modelarts.vm.cpu.8u", 2), ENDLESS)
    add(90 * 60, "public-ascend", "", public_roles("modelarts.kat1.8xlarge", 1), ENDLESS)
    add(200, "waits-for-room", ascend, one(ascend, len(pools[ascend].nodes), 8), ENDLESS)

    # One for each phase that passes quickly. Only their timing matters.
    on_gpu = public_roles("modelarts.vm.gpu.v100", 1)
    add(1, "just-created", "", on_gpu, replace(QUICK, creating=20))
    add(20, "prepares", "", on_gpu, replace(QUICK, preparing=75))
    stopped = replace(QUICK, running=270, outcome="Stopped", reason=STOPPED_BY_USER, stopping=45)
    add(300, "is-stopped", "", on_gpu, stopped)
    add(900, "lost-its-node", "", on_gpu, replace(QUICK, outcome="Failed", reason=FAILURES[-1]))
    add(910, "has-failed", "", on_gpu, replace(QUICK, outcome="Failed", reason=FAILURES[0]))
    add(920, "has-completed", "", on_gpu, QUICK)
    return found


def _uuid(rng: Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


SETTING = Setting(
    pools=catalog.POOLS, population=24, watched=7, draft=draft, earlier=_earlier, job_id=_uuid, history=120
)
