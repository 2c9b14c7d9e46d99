"""The second cloud's world: repeatable, consistent at every moment, and worth watching."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.client import START
from trainfleet_simulator.modelarts.catalog import ASCEND, FLAVORS, GPU
from trainfleet_simulator.modelarts.legacy import SETTING as V1
from trainfleet_simulator.modelarts.legacy import v1_job_id
from trainfleet_simulator.modelarts.past import SETTING as V2
from trainfleet_simulator.modelarts.phases import PHASES, phase, v1_status, workload_status
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import DAY
from trainfleet_simulator.world.pools import Amount, pod_amount
from trainfleet_simulator.world.setting import Setting

FOLLOWS = {
    "Creating": {"Pending"},
    "Pending": {"Running", "Terminating"},
    "Running": {"Running", "Completed", "Failed", "Abnormal", "Terminating"},
    "Terminating": {"Terminated"},
}


def picture(world: World) -> list[Any]:
    """Everything that a caller could see."""
    return [
        (job.job_id, phase(job), job.finished, [(pod.uid, pod.node) for pod in job.pods]) for job in world.jobs.values()
    ]


def check(world: World) -> None:
    for pool in world.pools.values():
        assert pool.allocated.fits(pool.allocatable)
        assert Amount().fits(pool.queued)
        held = [job for job in world.live() if job.draft.pool_id == pool.spec.pool_id]
        amounts = (pod_amount(pod.role) for job in held for pod in job.pods)
        assert pool.allocated == sum(amounts, Amount())
        waiting = pool.waiting()
        assert sorted(waiting) == sorted(job.job_id for job in held if workload_status(job) == "Queue")
        ranks = [-world.jobs[job_id].draft.priority for job_id in waiting]
        assert ranks == sorted(ranks), "the next one first"


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), seconds=st.sampled_from([7, 60, 901]))
def test_invariants_hold_while_time_passes(seed: int, seconds: int) -> None:
    world = World(V2, seed, START)
    phases: dict[str, str] = {}
    for step in range(12):
        world.advance(START + step * seconds)
        check(world)
        now = {job.job_id: phase(job) for job in world.jobs.values()}
        assert phases.keys() <= now.keys(), "no job vanishes"
        if seconds == 7:  # often enough to miss no phase but the shortest
            for job_id, before in phases.items():
                after = now[job_id]
                reached = {before} | FOLLOWS.get(before, set())
                assert after in reached | {word for one in reached for word in FOLLOWS.get(one, set())}
        phases = now


@pytest.mark.parametrize("setting", [V1, V2], ids=["v1", "v2"])
@settings(max_examples=5)
@given(seed=st.integers(0, 10_000), looks=st.lists(st.integers(0, 3000), max_size=20))
def test_what_happens_does_not_depend_on_who_looks_when(setting: Setting, seed: int, looks: list[int]) -> None:
    watched, alone = World(setting, seed, START), World(setting, seed, START)
    for look in sorted(looks):
        watched.advance(START + look + 0.5)
    watched.advance(START + 3600)
    alone.advance(START + 3600)
    assert picture(watched) == picture(alone)


@pytest.mark.parametrize("seed", range(16))
def test_the_world_starts_with_a_past_and_in_every_phase(seed: int) -> None:
    world = World(V2, seed, START)
    phases = Counter(phase(job) for job in world.jobs.values())
    assert set(phases) == set(PHASES)
    assert min(job.created for job in world.jobs.values()) < START - 25 * DAY
    kinds = {pod.role.card_type.partition("-")[0] for job in world.live() for pod in job.pods}
    assert {"ascend", "nvidia", ""} <= {kind.lower() for kind in kinds}
    assert {job.draft.job_type for job in world.live()} == {"job", "hetero_job"}
    assert any(not job.draft.pool_id for job in world.live())


def test_a_fleet_of_believable_size_whose_pools_fill_and_drain() -> None:
    world, old = World(V2, 1, START), World(V1, 1, START)
    sizes, shares, seen = [], [], set()
    for step in range(1, 721):
        world.advance(START + step * 15)
        old.advance(START + step * 15)
        sizes.append(len(world.live()) + len(old.live()))
        shares.append(world.pools[ASCEND].allocated.cards / world.pools[ASCEND].allocatable.cards)
        seen |= {phase(job) for job in world.live()}
    assert 20 <= sum(sizes) / len(sizes) <= 40
    assert max(sizes) <= 60
    assert max(shares) > 0.9
    assert min(shares) < 0.5
    assert seen == {"Creating", "Pending", "Running", "Terminating"}


def test_what_is_worth_watching_stays() -> None:
    world = World(V2, 1, START)
    world.advance(START + 4 * 3600)
    live = {job.draft.name: job for job in world.live()}
    assert phase(live["pangu-pretrain"]) == "Running"
    assert workload_status(live["waits-for-room"]) == "Queue"
    assert live["ascend-hangs"].hangs_at is not None
    assert {"gpu-steady", "hetero-steady", "features-cpu", "public-ascend"} < set(live)


def test_pools_grow_with_the_population() -> None:
    small, large = World(V2, 1, START), World(V2, 1, START, population=240)
    assert len(large.pools[GPU].nodes) == 10 * len(small.pools[GPU].nodes)
    assert len(large.live()) > 5 * len(small.live())
    check(large)


def test_v1_jobs_have_numbers_and_live_on_public_machines() -> None:
    world = World(V1, 1, START)
    assert all(version.job_id.isdigit() for version in world.jobs.values())
    assert {version.draft.roles[0].machine for version in world.jobs.values()} <= set(FLAVORS)
    assert 2 <= len(world.live()) <= 15
    assert {v1_status(version) for version in world.jobs.values()} >= {8, 10}
    names = {version.draft.name for version in world.jobs.values()}
    assert len({v1_job_id(version) for version in world.jobs.values()}) == len(names) == 6
