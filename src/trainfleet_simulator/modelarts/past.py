"""Jobs submitted to ModelArts before the start: a month of ordinary jobs, and the interesting ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from uuid import UUID

from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.catalog import FAILURES, USERS
from trainfleet_simulator.modelarts.drafts import compose, draft, pool_role, public_roles
from trainfleet_simulator.world.jobs import Draft, Plan, Role
from trainfleet_simulator.world.nouns import DAY, FOR_EVER, HOUR, STOPPED_BY_USER, SUCCEEDED
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.setting import Setting, Submissions


def submissions(rng: Random, started: int, history: int, pools: Mapping[str, Pool]) -> Submissions:
    """Return all jobs submitted before `started`, without the ordinary arrivals of the last minutes."""
    ordinary = [(started - rng.randint(9 * HOUR, 30 * DAY), draft(rng, short=False)) for _ in range(history)]
    nodes = len(pools[catalog.ASCEND].nodes)
    return sorted([*ordinary, *_watched(rng, started, nodes)], key=lambda item: item[0])


def _watched(rng: Random, started: int, ascend_nodes: int) -> Submissions:
    found: Submissions = []

    def add(ago: int, name: str, where: str, roles: tuple[Role, ...], plan: Plan) -> None:
        vision = where == catalog.GPU or (not where and "gpu" in roles[0].machine)
        made: Draft = compose(
            rng,
            workspace=catalog.TEAM_WORKSPACE if vision else catalog.DEFAULT,
            user=USERS[2 if vision else 0],
            pool=where,
            roles=roles,
            plan=plan,
        )
        found.append((started - ago, replace(made, name=name, priority=0 if name == "waits-for-room" else 3)))

    def one(pool: str, count: int, cards: int) -> tuple[Role, ...]:
        return (pool_role(pool, "worker", count, cards),)

    ascend, team, gpu = catalog.ASCEND, catalog.ASCEND_TEAM, catalog.GPU
    endless = Plan(3, 4, 30, FOR_EVER, "Stopped", STOPPED_BY_USER, stopping=8)
    add(6 * DAY, "pangu-pretrain", ascend, one(ascend, 2, 8), endless)
    add(3 * HOUR, "ascend-hangs", team, one(team, 1, 8), replace(endless, hangs_after=3 * HOUR - 25 * 60))
    add(2 * HOUR, "gpu-steady", gpu, one(gpu, 2, 4), endless)
    roles = (pool_role(gpu, "worker", 2, 2), pool_role(gpu, "server", 1, 0))
    add(4 * HOUR, "hetero-steady", gpu, roles, endless)
    add(5 * HOUR, "features-cpu", "", public_roles("modelarts.vm.cpu.8u", 2), endless)
    add(90 * 60, "public-ascend", "", public_roles("modelarts.kat1.8xlarge", 1), endless)
    add(200, "waits-for-room", ascend, one(ascend, ascend_nodes, 8), endless)

    # One for each phase that passes quickly. Only their timing matters.
    quick = Plan(2, 3, 15, 240, "Succeeded", SUCCEEDED)
    on_gpu = public_roles("modelarts.vm.gpu.v100", 1)
    add(1, "just-created", "", on_gpu, replace(quick, creating=20))
    add(20, "prepares", "", on_gpu, replace(quick, preparing=75))
    stopped = replace(quick, running=270, outcome="Stopped", reason=STOPPED_BY_USER, stopping=45)
    add(300, "is-stopped", "", on_gpu, stopped)
    add(900, "lost-its-node", "", on_gpu, replace(quick, outcome="Failed", reason=FAILURES[-1]))
    add(910, "has-failed", "", on_gpu, replace(quick, outcome="Failed", reason=FAILURES[0]))
    add(920, "has-completed", "", on_gpu, quick)
    return found


def _uuid(rng: Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


SETTING = Setting(
    pools=catalog.POOLS, population=24, watched=7, draft=draft, earlier=submissions, job_id=_uuid, history=120
)
