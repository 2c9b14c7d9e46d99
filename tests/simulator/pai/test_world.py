"""The simulated world: repeatable, consistent at every moment, and worth watching."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.client import START
from trainfleet_simulator.pai.catalog import ROOT, WORKSPACES
from trainfleet_simulator.pai.past import SETTING
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import DAY, FINISHED, JOB_STATUSES, LIVE
from trainfleet_simulator.world.pools import Amount, pod_amount

FOLLOWS = {
    "Creating": {"Queuing", "Bidding"},
    "Queuing": {"EnvPreparing", "Stopping"},
    "Bidding": {"EnvPreparing"},
    "EnvPreparing": {"SanityChecking", "Running"},
    "SanityChecking": {"Running"},
    "Running": {"Restarting", "Stopping", "SucceededReserving", "FailedReserving", "Succeeded", "Failed"},
    "Restarting": {"Running"},
    "Stopping": {"Stopped"},
    "SucceededReserving": {"Succeeded"},
    "FailedReserving": {"Failed"},
}
HOLDING = {"EnvPreparing", "SanityChecking", "Running", "Restarting", "SucceededReserving", "FailedReserving"}


def picture(world: World) -> list[Any]:
    """Everything that a caller could see."""
    return [
        (job.job_id, job.status, job.sub_status, job.finished, [(pod.uid, pod.node, pod.ip) for pod in job.pods])
        for job in world.jobs.values()
    ]


def check(world: World) -> None:
    """What holds at every moment."""
    held: Counter[str] = Counter()
    for job in world.jobs.values():
        check_job(job, world.now)
        if job.draft.pool_id and job.pods and job.live:
            for pod in job.pods:
                held[pod.node] += pod.role.cards
    for quota in world.pools.values():
        assert quota.allocated.fits(quota.allocatable)
        assert quota.allocatable.fits(quota.actual)
        assert Amount().fits(quota.queued)
        assert all(Amount().fits(node.free) for node in quota.nodes.values())
        kind = quota.spec.node_type
        taken = {name: kind.cards - node.free.cards for name, node in quota.nodes.items()}
        assert {name: cards for name, cards in taken.items() if cards} == {
            name: cards for name, cards in held.items() if cards and name in quota.nodes
        }
        assert quota.allocated == sum(
            (
                pod_amount(pod.role)
                for job in world.live()
                if job.draft.pool_id == quota.spec.pool_id
                for pod in job.pods
            ),
            Amount(),
        )
        waiting = [job for job in world.live() if job.draft.pool_id == quota.spec.pool_id and job.status == "Queuing"]
        assert (quota.queued != Amount()) == bool(waiting)
    family = sum((quota.allocated for quota in world.family(ROOT)), Amount())
    assert world.amount(ROOT, lambda quota: quota.allocated) == family


def check_job(job: Job, now: int) -> None:
    times = [job.created, job.submitted, job.running, job.work_ended, job.finished]
    reached = [moment for moment in times if moment is not None]
    assert reached == sorted(reached)
    assert reached[-1] <= now
    assert (job.finished is not None) == (job.status in FINISHED)
    ended = {"Succeeded": job.succeeded, "Failed": job.failed, "Stopped": job.stopped}
    assert (job.status in HOLDING) <= bool(job.pods)
    if job.status in FINISHED:
        assert ended.pop(job.status) is not None
        assert not any(ended.values())
        assert {pod.status for pod in job.pods} <= {job.status}
    assert job.statuses[0] == ("Creating", job.created)
    for (one, since), (two, until) in pairwise(job.statuses):
        assert two in FOLLOWS[one]
        assert since <= until
    assert job.restarts <= job.draft.restarts_allowed
    assert job.restarts == sum(len(pod.history) for pod in job.pods)


def steps(world: World, seconds: int, count: int) -> Iterator[int]:
    for step in range(1, count + 1):
        world.advance(START + step * seconds)
        yield step


@pytest.mark.long
@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), seconds=st.sampled_from([7, 60, 901]))
def test_invariants_hold_while_time_passes(seed: int, seconds: int) -> None:
    world = World(SETTING, seed, START)
    check(world)
    known: dict[str, tuple[str, int | None]] = {}
    for _ in steps(world, seconds, 12):
        check(world)
        assert known.keys() <= world.jobs.keys(), "no job vanishes"
        for job_id, end in known.items():
            assert (world.jobs[job_id].status, world.jobs[job_id].finished) == end, "finished jobs stay finished"
        known = {job.job_id: (job.status, job.finished) for job in world.jobs.values() if not job.live}


@settings(max_examples=6)
@given(seed=st.integers(0, 10_000), looks=st.lists(st.integers(0, 3000), max_size=20))
def test_what_happens_does_not_depend_on_who_looks_when(seed: int, looks: list[int]) -> None:
    watched, alone = World(SETTING, seed, START), World(SETTING, seed, START)
    for look in sorted(looks):
        watched.advance(START + look + 0.5)
    watched.advance(START + 3600)
    alone.advance(START + 3600)
    assert picture(watched) == picture(alone)


def test_another_seed_is_another_world() -> None:
    assert picture(World(SETTING, 1, START)) == picture(World(SETTING, 1, START)) != picture(World(SETTING, 2, START))


def test_time_does_not_go_back() -> None:
    world = World(SETTING, 1, START)
    world.advance(START + 600)
    before = picture(world)
    world.advance(START - 86400)
    assert world.now == START + 600
    assert picture(world) == before
    world.advance(START + 660)
    assert picture(world) != before


@pytest.mark.parametrize("seed", range(16))
def test_the_world_starts_with_a_past_and_in_every_state(seed: int) -> None:
    world = World(SETTING, seed, START)
    statuses = Counter(job.status for job in world.jobs.values())
    assert set(statuses) == set(JOB_STATUSES)
    finished = [job for job in world.jobs.values() if not job.live]
    assert len(finished) >= 200
    assert min(job.created for job in finished) < START - 25 * DAY
    assert all(statuses[status] > 10 for status in FINISHED)
    assert len({job.draft.user for job in finished}) == 6
    assert {job.draft.workspace_id for job in world.live()} == {workspace.workspace_id for workspace in WORKSPACES}
    assert any(job.sub_status == "Restarting" for job in world.live())
    assert any(pod.sub_status == "Evicted" for job in finished for new in job.pods for pod in new.history)


def test_a_fleet_of_believable_size_whose_pools_fill_and_drain() -> None:
    world = World(SETTING, 1, START)
    full, empty, seen, sizes = False, False, set(), []
    for _ in steps(world, 10, 1080):
        sizes.append(len(world.live()))
        seen |= {job.status for job in world.live()}
        shares = [q.allocated.cards / q.allocatable.cards for q in world.pools.values() if q.nodes]
        full |= max(shares) == 1
        empty |= min(shares) < 0.2
    assert min(sizes) >= 18
    assert max(sizes) <= 75
    assert 30 <= sum(sizes) / len(sizes) <= 55
    assert full, "pools fill"
    assert empty, "and drain"
    assert seen == set(LIVE)


def test_something_happens_every_few_seconds() -> None:
    world = World(SETTING, 1, START)
    quiet = 0
    last = picture(world)
    for _ in steps(world, 10, 60):
        now = picture(world)
        quiet += now == last
        last = now
    assert quiet <= 12, "of 60 looks, ten seconds apart"


def test_new_jobs_run_for_minutes() -> None:
    world = World(SETTING, 3, START)
    world.advance(START + 7200)
    recent = [job for job in world.jobs.values() if job.created > START and job.finished and job.running]
    assert len(recent) > 100
    assert all(0 < job.duration(world.now) < 15 * 60 for job in recent)
    assert {job.status for job in recent} == FINISHED


def test_what_is_worth_watching_stays() -> None:
    world = World(SETTING, 1, START)
    world.advance(START + 4 * 3600)
    running = {job.draft.name: job for job in world.live()}
    assert running["llm-pretrain-70b"].duration(world.now) > 20 * DAY
    assert running["waits-for-room"].status == "Queuing"
    assert {"asr-hangs", "asr-steady", "features-cpu", "tts-on-spot"} < set(running)


def test_queue_order_is_priority_and_then_arrival() -> None:
    world = World(SETTING, 5, START)
    world.advance(START + 6 * 3600)
    waited = []
    for job in world.jobs.values():
        left = next((since for status, since in job.statuses if status == "EnvPreparing"), None)
        if job.draft.pool_id and job.submitted is not None and job.submitted > START and left is not None:
            waited.append((job, job.submitted, left))
    overtaken = 0
    for one, since, left in waited:
        for two, since_two, left_two in waited:
            both_waited = one.draft.pool_id == two.draft.pool_id and since < since_two < left
            if both_waited and left_two < left:
                overtaken += 1
                assert two.draft.priority > one.draft.priority
    assert overtaken, "in six hours somebody is overtaken"
    assert any(job.status == "Stopped" and not job.pods for job in world.jobs.values()), "and somebody gives up"


def test_pools_grow_with_the_population() -> None:
    small, large = World(SETTING, 1, START), World(SETTING, 1, START, population=400)
    assert len(large.pools[ROOT].nodes) == 10 * len(small.pools[ROOT].nodes)
    assert len(large.live()) > 5 * len(small.live())
    check(large)
    assert any(job.draft.name == "waits-for-room" and job.status == "Queuing" for job in large.live())
