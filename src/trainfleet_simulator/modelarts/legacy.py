"""The world of the v1 training API: a few separate jobs on public machines, each with several versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from zlib import crc32

from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.drafts import compose, ordinary_plan, public_roles
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Draft, Job, Plan
from trainfleet_simulator.world.nouns import DAY, FOR_EVER, STOPPED_BY_USER
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.setting import Setting, Submissions

_NAMES = ("resnet-v1", "bert-v1", "mnist-v1", "unet-v1")
_ENDLESS = Plan(3, 4, 30, FOR_EVER, "Stopped", STOPPED_BY_USER, stopping=8)


def versions(world: World) -> dict[int, list[Job]]:
    """Return every v1 job by id, each with its versions, oldest first. A job of the world is one version."""
    found: dict[int, list[Job]] = {}
    for version in world.jobs.values():
        if not world.shows(version):
            continue
        found.setdefault(v1_job_id(version), []).append(version)
    return found


def v1_job_id(version: Job) -> int:
    """Return the id of the job of a version."""
    return 500_000 + crc32(version.draft.name.encode()) % 100_000


def _draft(rng: Random) -> Draft:
    roles = public_roles(rng.choice(("modelarts.vm.gpu.v100", "modelarts.vm.cpu.8u")), rng.choice((1, 1, 2)))
    made = compose(
        rng,
        workspace=catalog.DEFAULT,
        user=catalog.USERS[1],
        pool="",
        roles=roles,
        plan=replace(ordinary_plan(rng, short=True), restarts=()),
    )
    return replace(made, name=rng.choice(_NAMES))


def _earlier(rng: Random, started: int, history: int, _: Mapping[str, Pool]) -> Submissions:
    found = [(started - rng.randint(3600, 30 * DAY), _draft(rng)) for _ in range(history)]
    for name, flavor, count in (
        ("steady-v1", "modelarts.vm.gpu.8v100", 2),
        ("features-v1", "modelarts.vm.cpu.8u", 1),
    ):
        made = compose(
            rng,
            workspace=catalog.DEFAULT,
            user=catalog.USERS[0],
            pool="",
            roles=public_roles(flavor, count),
            plan=_ENDLESS,
        )
        found.append((started - 2 * 3600, replace(made, name=name)))
    return sorted(found, key=lambda item: item[0])


def _version_id(rng: Random) -> str:
    return str(rng.randrange(1_000_000, 10_000_000))


SETTING = Setting(pools=(), population=5, watched=2, draft=_draft, earlier=_earlier, job_id=_version_id, history=12)
