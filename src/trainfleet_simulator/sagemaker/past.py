"""Jobs submitted to SageMaker before the start: a month of ordinary jobs, and the interesting ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import FAILURES, USERS
from trainfleet_simulator.sagemaker.drafts import ON_DEMAND, PLAN, SPOT, compose, draft, instances, spot_interruptions
from trainfleet_simulator.world.jobs import Plan, Role
from trainfleet_simulator.world.nouns import DAY, FOR_EVER, HOUR, STOPPED_BY_USER, SUCCEEDED
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.setting import Setting, Submissions


def submissions(rng: Random, started: int, history: int, pools: Mapping[str, Pool]) -> Submissions:
    """Return all jobs submitted before `started`, without the ordinary arrivals of the last minutes."""
    ordinary = [(started - rng.randint(9 * HOUR, 30 * DAY), draft(rng, short=False)) for _ in range(history)]
    instances_of_plan = len(pools[catalog.JOBS_PLAN].nodes)
    return sorted([*ordinary, *_watched(rng, started, instances_of_plan)], key=lambda item: item[0])


def _watched(rng: Random, started: int, instances_of_plan: int) -> Submissions:
    found: Submissions = []

    def add(ago: int, name: str, payment: str, roles: tuple[Role, ...], plan: Plan) -> None:
        made = compose(rng, user=USERS[len(found) % len(USERS)], payment=payment, roles=roles, plan=plan)
        # No job overtakes the first one in the queue, so the job that waits forever is behind all others.
        found.append((started - ago, replace(made, name=name, priority=0 if name == "waits-for-plan" else 1)))

    endless = Plan(3, 4, 30, FOR_EVER, "Stopped", STOPPED_BY_USER, stopping=8)
    add(5 * DAY, "llama-pretrain", PLAN, (instances("ml.p5.48xlarge", 2),), endless)
    hangs = replace(endless, hangs_after=3 * HOUR - 25 * 60)
    add(3 * HOUR, "p4d-hangs", ON_DEMAND, (instances("ml.p4d.24xlarge", 1),), hangs)
    add(2 * HOUR, "vit-steady", ON_DEMAND, (instances("ml.g5.12xlarge", 2),), endless)
    groups = (instances("ml.g5.12xlarge", 1, "gpu"), instances("ml.c5.9xlarge", 2, "data"))
    add(4 * HOUR, "hetero-steady", ON_DEMAND, groups, endless)
    add(5 * HOUR, "features-cpu", ON_DEMAND, (instances("ml.m5.4xlarge", 1),), endless)
    add(90 * 60, "trn1-steady", ON_DEMAND, (instances("ml.trn1.32xlarge", 1),), endless)
    spot = spot_interruptions(replace(endless, running=8 * HOUR), 40, 45)
    add(100 * 60, "spot-sweep", SPOT, (instances("ml.g5.2xlarge", 2),), spot)
    add(200, "waits-for-plan", PLAN, (instances("ml.p5.48xlarge", instances_of_plan),), endless)

    # One for each state that passes quickly. Only their timing matters.
    quick = Plan(2, 3, 15, 240, "Succeeded", SUCCEEDED, reserving=20)
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
    pools=catalog.PLANS, population=24, watched=8, draft=draft, earlier=submissions, job_id=_suffix, history=120
)
