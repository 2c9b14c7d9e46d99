"""The second generator of weeks: the same by seed, with a consistent truth, and with the exporter's own families."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks import detection_second as second
from benchmarks import detection_second_samples as samples
from benchmarks import detection_second_world as worlds
from benchmarks.detection_rules import Firing
from benchmarks.detection_second_world import MINUTES, SOURCES, Event, Job, Spell, World

from trainfleet_exporter.families import FAMILIES, KEYS

_DOCUMENTED = Path(__file__).parent.parent.parent / "docs" / "metrics.md"


def _job(kind: str, *spells: Spell, source: int = 2, pods: int = 2) -> Job:
    card = SOURCES[source].cards[0]
    return Job("j", SOURCES[source], kind, card, pods, 8, spells[0].start, list(spells))


def _firing(alert: str, start: int, end: int, pod: int | None = None) -> Firing:
    labels = {"job_id": "j", "provider": "p"} | ({} if pod is None else {"pod_id": f"worker-{pod}"})
    return Firing(alert, labels, samples.START + start * 60, samples.START + end * 60)


def test_world_is_the_same_for_the_same_seed() -> None:
    assert worlds.simulate(7, 1) == worlds.simulate(7, 1)
    assert worlds.simulate(7, 1) != worlds.simulate(8, 1)


@pytest.mark.parametrize("seed", range(1, 9))
def test_truth_agrees_with_the_lives_of_jobs(seed: int) -> None:
    world = worlds.simulate(seed)
    jobs = {job.job_id: job for job in world.jobs}
    assert len(jobs) == len(world.jobs)
    for job in world.jobs:
        assert all(one.end == other.start for one, other in zip(job.timeline, job.timeline[1:], strict=False))
        assert (job.status == "running") == (job.end >= MINUTES)
    for event in world.events:
        job = jobs[event.job_id]
        assert event.kind in worlds.REALISTIC
        assert event.wish in ("yes", "may")
        assert job.submitted <= event.start < event.end
        assert event.start <= job.end
        assert event.pod < job.pods
        if event.kind in (worlds.HANG, worlds.STRAGGLER, worlds.SLOW):
            doing = {spell.what for minute in range(event.start, event.end) if (spell := job.at(minute))}
            assert doing == {event.how}


def test_every_family_and_label_is_the_exporters_own(tmp_path: Path) -> None:
    known = {
        family.name: {"provider", *KEYS[family.of][0], *(family.labels or ())}
        for family in FAMILIES
        if family.labels is not None
    }
    documented = _DOCUMENTED.read_text(encoding="utf-8")
    jobs = [
        _job("rl", Spell("starting", 0, 3), Spell("generate", 3, 40), Spell("train", 40, 60), source=number)
        for number in range(len(SOURCES))
    ]
    for job in jobs:
        job.faults, job.status, job.reason = [(50, "node", "NodeNotReady")], "failed", "HostFailure"
    samples.write(World(1, jobs, []), tmp_path / "week.om")
    heads = {line.partition("} ")[0] for line in (tmp_path / "week.om").read_text(encoding="utf-8").splitlines()[:-1]}
    for head in heads:
        name, _, labels = head.partition("{")
        names = re.findall(r'(\w+)="[^"]*"', labels)
        if name in known:
            assert known[name] == set(names), head
        else:
            assert name == "up" or f"`{name}`" in documented, head
    assert {head.partition("{")[0] for head in heads} > {"trainfleet_job_status", "trainfleet_device_power_watts"}


def test_score_knows_right_false_tolerated_and_missed() -> None:
    job = _job("pretraining", Spell("train", 0, 500), Spell("hang", 500, 900, pod=1), Spell("train", 900, MINUTES))
    world = World(1, [job], [Event("j", "hang", 500, 900, "yes", 1, "hang")])
    found = [
        _firing("TrainfleetJobHung", 540, 910),
        _firing("TrainfleetJobHung", 2000, 2100),
        _firing("TrainfleetPodStraggling", 520, 800, pod=1),
        _firing("TrainfleetPodStraggling", 3000, 3100, pod=0),
    ]
    result = second.score(world, found)
    assert [one.verdict for one in result.alarms] == ["right", "false", "tolerated", "false"]
    delays = {one.alert: one.delay for one in result.wanted}
    assert delays == {"TrainfleetJobHung": 40, "TrainfleetJobMayHang": None}
    assert [one.delay for one in second.score(world, found[1:]).wanted] == [None, None]
    right, false = result.weekly("TrainfleetJobHung")
    assert (right, round(false)) == (worlds.REALISTIC["hang"], 100)
    assert any(line.startswith("| TrainfleetJobHung | 0.50 | 1.00 |") for line in second.report(result))
