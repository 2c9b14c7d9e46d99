"""Jobs submitted before the simulated world's start: a month of ordinary jobs, and the interesting ones.

These are submissions at past times, not states. The world then lives through them.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.catalog import FAILURES, USERS
from trainfleet_simulator.pai.drafts import compose, draft, pool_role, public_roles
from trainfleet_simulator.world.jobs import Draft, Plan, Restart, Role
from trainfleet_simulator.world.nouns import DAY, FOR_EVER, HOUR, STOPPED_BY_USER, SUCCEEDED, User
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.setting import Setting, Submissions

Who = tuple[str, User]
"""A workspace, and a user who submits to it."""

_TRAIN: Who = ("12345", USERS[0])
_VISION: Who = ("12346", USERS[2])
_SPEECH: Who = ("12347", USERS[4])
_ELSEWHERE: Who = ("98765", USERS[1])


def submissions(rng: Random, started: int, history: int, pools: Mapping[str, Pool]) -> Submissions:
    """Return all submissions before `started`, without the ordinary arrivals of the last minutes: (Unix time,
    draft)."""
    root_nodes = len(pools[catalog.ROOT].nodes)
    ordinary = [(started - rng.randint(9 * HOUR, 30 * DAY), draft(rng, short=False)) for _ in range(history)]
    return sorted([*ordinary, *_watched(rng, started, root_nodes)], key=lambda item: item[0])


def _watched(rng: Random, started: int, root_nodes: int) -> Submissions:
    def add(ago: int, made: Draft) -> None:
        found.append((started - ago, replace(made, job_type="PyTorchJob")))

    def public(ago: int, name: str, where: Who, spec: str, plan: Plan) -> None:
        workspace, user = where
        payment = "Spot" if name in {"tts-on-spot", "bids"} else "PostPaid"
        roles = public_roles(spec, 2)
        made = compose(rng, workspace=workspace, user=user, quota="", payment=payment, roles=roles, plan=plan)
        add(ago, replace(made, name=name))

    def pooled(ago: int, name: str, quota: str, roles: tuple[Role, ...], plan: Plan) -> None:
        workspace, user = {catalog.VISION: _VISION, catalog.HIDDEN: _ELSEWHERE}.get(quota, _TRAIN)
        made = compose(rng, workspace=workspace, user=user, quota=quota, payment="PrePaid", roles=roles, plan=plan)
        add(ago, replace(made, name=name, priority=1 if name == "waits-for-room" else 9))

    found: list[tuple[int, Draft]] = []
    one_gpu, four_gpus, eight_gpus = "ecs.gn6e-c12g1.3xlarge", "ecs.gn6v-c8g1.8xlarge", "ecs.gn6v-c8g1.16xlarge"
    endless = Plan(3, 4, 30, FOR_EVER, "Stopped", STOPPED_BY_USER, stopping=8)
    two_full_nodes = (pool_role("Master", 1, 8, "GU8T"), pool_role("Worker", 1, 8, "GU8T"))
    one_full_node = (pool_role("Worker", 1, 8, "GU8T"),)

    pooled(20 * DAY, "llm-pretrain-70b", catalog.ROOT, two_full_nodes, endless)
    public(3 * HOUR, "asr-hangs", _SPEECH, eight_gpus, replace(endless, hangs_after=3 * HOUR - 25 * 60))
    public(2 * HOUR, "asr-steady", _SPEECH, four_gpus, endless)
    public(5 * HOUR, "features-cpu", _VISION, "ecs.g6.8xlarge", endless)
    public(90 * 60, "tts-on-spot", _SPEECH, four_gpus, endless)
    pooled(8 * DAY, "in-the-hidden-room", catalog.HIDDEN, one_full_node, endless)
    # It requests all of the root's own nodes, two of which are always taken.
    whole_root = (pool_role("Worker", root_nodes, 8, "GU8T"),)
    pooled(200, "waits-for-room", catalog.ROOT, whole_root, endless)

    # One for each state that passes quickly. Only their timing matters.
    quick = Plan(2, 3, 15, 240, "Succeeded", SUCCEEDED)
    # These two arrive before the ordinary jobs, so that they get nodes at once.
    reserving = Plan(2, 3, 20, 2700, "Succeeded", SUCCEEDED, reserving=900)
    pooled(45 * 60 + 120, "holds-after-success", catalog.VISION, one_full_node, reserving)
    failing = replace(reserving, outcome="Failed", reason=FAILURES[1], reserving=600)
    pooled(45 * 60 + 80, "holds-after-failure", catalog.TRAIN, one_full_node, failing)
    public(1, "just-created", _TRAIN, one_gpu, replace(quick, creating=20))
    public(25, "bids", _SPEECH, "ml.gu8tf.8.46xlarge", replace(quick, bidding=90))
    public(20, "prepares", _VISION, one_gpu, replace(quick, preparing=75))
    public(60, "is-checked", _VISION, eight_gpus, replace(quick, checking=90))
    lost = Restart(after=570, lasts=80, evicted=True, as_sub_status=False)
    public(600, "restarts", _TRAIN, four_gpus, replace(quick, running=1500, restarts=(lost,)))
    quietly = replace(lost, evicted=False, as_sub_status=True)
    public(600, "restarts-quietly", _TRAIN, one_gpu, replace(quick, running=1500, restarts=(quietly,)))
    stopped = replace(quick, running=270, outcome="Stopped", reason=STOPPED_BY_USER, stopping=45)
    public(300, "is-stopped", _SPEECH, one_gpu, stopped)
    return found


def _job_id(rng: Random) -> str:
    return "dlc1" + "".join(rng.choices(string.ascii_lowercase + string.digits, k=12))


SETTING = Setting(
    pools=catalog.QUOTAS, population=40, watched=6, draft=draft, earlier=submissions, job_id=_job_id, history=200
)
