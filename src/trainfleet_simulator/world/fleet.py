"""The simulated fleet: one seeded world in which time passes, one event after the other.

Events depend only on the seed and the start, never on when the world is read. Time only moves forward: if the clock is
set back, the world waits until the clock has caught up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from uuid import UUID

from trainfleet_simulator.world.jobs import FAULTS, PREEMPTED, Draft, Job, Loss, Plan, Pod, Restart, Role
from trainfleet_simulator.world.nouns import (
    DAY,
    FOR_EVER,
    HOUR,
    STOPPED_BY_USER,
    SUCCEEDED,
    WAITING_FOR_ROOM,
    Amount,
    PoolSpec,
)
from trainfleet_simulator.world.pools import Node, Pool

Submissions = list[tuple[int, Draft]]
"""Submitted jobs with their times (Unix seconds)."""
Life = Generator[int | None, list[Node] | None, None]
"""Yields the seconds until a job changes; None if it waits for nodes, which are sent."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The pools of a cloud, the jobs that its users submit, and the numbering of its jobs."""

    pools: tuple[PoolSpec, ...]
    population: int
    """Approximate number of live jobs if the pools have the nodes of their specs."""
    watched: int
    """Number of jobs that live forever."""
    draft: Callable[..., Draft]
    """Draws one ordinary job from a generator. With `short`, it runs 1 to 12 minutes, otherwise 10 minutes to 6
    hours."""
    earlier: Callable[[Random, int, Mapping[str, Pool]], Submissions]
    """Returns the interesting jobs submitted before the start. Arguments: a generator, the start, the pools."""
    job_id: Callable[[Random], str]
    history: int
    """Number of ordinary jobs in the month before the start."""


def running_and_end(
    rng: Random, *, short: bool, weights: Sequence[int], failures: Sequence[tuple[str, str]]
) -> tuple[int, str, tuple[str, str]]:
    """Draw the running time of an ordinary job (seconds), its outcome, and its reason. `weights` are those of success,
    failure and a stop."""
    running = rng.randint(60, 720) if short else int(rng.triangular(600, 21600, 2400))
    outcome = rng.choices(("Succeeded", "Failed", "Stopped"), weights)[0]
    reason = {"Succeeded": SUCCEEDED, "Stopped": STOPPED_BY_USER}.get(outcome) or rng.choice(failures)
    return running, outcome, reason


def evenly(running: int, count: int) -> list[int]:
    """Return so many times that divide a running time into equal parts, in seconds after its start."""
    return [running * place // (count + 1) for place in range(1, count + 1)]


def new_uuid(rng: Random) -> str:
    """Draw a UUID."""
    return str(UUID(int=rng.getrandbits(128), version=4))


ENDLESS = Plan(3, 4, 30, FOR_EVER, "Stopped", STOPPED_BY_USER, stopping=8)
QUICK = Plan(2, 3, 15, 240, "Succeeded", SUCCEEDED)
STOPPED = replace(QUICK, running=270, outcome="Stopped", reason=STOPPED_BY_USER, stopping=45)


_WARM_UP = 2400  # seconds of ordinary arrivals before the start, so that the world is busy at the start
_LIFETIME = 470  # approximate lifetime of an ordinary job in seconds
_SETTLED = 7500  # seconds since the last event of a still world at the start: no look-back reaches earlier readings
_STILL_HISTORY = 25 * DAY  # no older jobs in a still world, because a month's window would drop them one by one
_WAVE = 1500  # period of the number of arrivals in seconds, so that pools fill and drain


class World:
    """Every job and pool of one cloud. `population` is the approximate number of live jobs. Pools grow with it.

    Ordinary jobs live for minutes, so that users see changes, or `patience` times as long. A `still` world stopped two
    hours before the start: no event happens, and a pod's readings are constant.
    """

    def __init__(
        self,
        setting: Setting,
        seed: int,
        now: float,
        *,
        population: int | None = None,
        patience: int = 1,
        still: bool = False,
    ) -> None:
        self.started = int(now) - (_SETTLED if still else 0)
        self.now = self.started - 32 * DAY
        self.present = self.now
        """The time of the newest readings: now. In a still world, it also moves on."""
        self.hidden: set[str] = set()
        """Hidden workspaces; their jobs are hidden, too."""
        self.closed = False
        """Whether no job is submitted. Existing jobs continue and end."""
        self._still = still
        self._stopped_at: float = math.inf
        self.jobs: dict[str, Job] = {}
        self._setting = setting
        self._rng = Random(seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._lives: dict[str, Life] = {}
        population = setting.population if population is None else population
        scale = population / setting.population
        self.pools = {spec.pool_id: Pool(spec, scale, 16 + i) for i, spec in enumerate(setting.pools)}
        self._patience = patience
        self._interval = _LIFETIME * patience / max(population - setting.watched, 1)
        earlier = [
            (self.started - self._rng.randint(9 * HOUR, 30 * DAY), setting.draft(self._rng, short=False))
            for _ in range(setting.history)
        ]
        earlier += setting.earlier(self._rng, self.started, self.pools)
        for at, asked in sorted(earlier, key=lambda item: item[0]):
            if not still or at >= self.started - _STILL_HISTORY:
                self._at(at, partial(self._submit, asked))
        self._next_arrival = float(self.started - _WARM_UP * patience)
        self._at(int(self._next_arrival), self._arrival)
        self.advance(self.started)
        if still:
            self._stopped_at = self.started
            self.advance(now)

    def advance(self, to: float) -> None:
        """Process all events up to the Unix time `to`."""
        self.present = max(self.present, int(to))
        to = min(to, self._stopped_at)
        while self._events and self._events[0][0] <= to:
            at, _, happen = heapq.heappop(self._events)
            self.now = max(self.now, at)
            happen()
        self.now = max(self.now, int(to))

    def live(self) -> list[Job]:
        """Return jobs that have not finished, oldest first."""
        return [job for job in self.jobs.values() if job.live]

    def between(self, start: float, end: float, *, by_finish: bool = False) -> list[Job]:
        """Return visible jobs that were created in `start..end` (both included), or finished, the oldest first."""
        found = []
        for job in filter(self.shows, self.jobs.values()):
            at = job.finished if by_finish else job.created
            if at is not None and start <= at <= end:
                found.append(job)
        return sorted(found, key=lambda job: (job.created, job.job_id))

    def shows(self, job: Job) -> bool:
        """Return whether the job's workspace is visible."""
        return job.draft.workspace_id not in self.hidden

    def shown(self, job_id: str) -> Job | None:
        """Return the job with this id; None if there is none, or if its workspace is hidden."""
        job = self.jobs.get(job_id)
        return job if job is not None and self.shows(job) else None

    def offers(self, pool: Pool) -> bool:
        """Return whether one of the pool's workspaces is visible."""
        return not self.hidden.issuperset(pool.spec.workspaces)

    def family(self, pool_id: str) -> Iterator[Pool]:
        """Return a pool and all pools below it."""
        yield self.pools[pool_id]
        for pool in self.pools.values():
            if pool.spec.parent == pool_id:
                yield from self.family(pool.spec.pool_id)

    def amount(self, pool_id: str, what: Callable[[Pool], Amount]) -> Amount:
        """Return a figure of a pool as the API returns it, including its children's."""
        return sum((what(pool) for pool in self.family(pool_id)), Amount())

    def stop(self, job: Job) -> None:
        """Stop a running job, as in the console. The cloud begins in the next second."""
        self._at(self.now + 1, lambda: self._stop(job) if job.status == "Running" else None)

    def _at(self, at: int, happen: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._events, (at, self._scheduled, happen))

    def _after(self, job: Job, seconds: int, happen: Callable[[], None]) -> None:
        """Schedule, unless the job's state changes first."""
        step = job.step
        self._at(self.now + max(seconds, 1), lambda: happen() if job.step == step else None)

    def _arrival(self) -> None:
        if not self.closed:
            self._submit(self._setting.draft(self._rng).lasting(self._patience))
        swell = 1 + 0.35 * math.sin(2 * math.pi * self._next_arrival / (_WAVE * self._patience))
        self._next_arrival += self._interval * self._rng.uniform(0.7, 1.3) / swell
        self._at(int(self._next_arrival), self._arrival)

    def _submit(self, asked: Draft) -> None:
        while (job_id := self._setting.job_id(self._rng)) in self.jobs:
            pass
        job = Job(job_id, asked, self.now, modified=self.now, statuses=[("Creating", self.now)], still=self._still)
        self.jobs[job_id] = job
        self._begin(job, self._life(job))

    def _begin(self, job: Job, life: Life) -> None:
        self._lives[job.job_id] = life
        self._go_on(job)

    def _go_on(self, job: Job, nodes: list[Node] | None = None) -> None:
        """Continue the life of a job up to its next wait."""
        seconds = None
        try:
            seconds = self._lives[job.job_id].send(nodes)
        except StopIteration:
            del self._lives[job.job_id]
        if seconds is not None:
            self._after(job, seconds, lambda: self._go_on(job))
        elif job.draft.pool_id:
            self._place(self.pools[job.draft.pool_id])

    def _place(self, pool: Pool) -> None:
        while (started := pool.next_to_start()) is not None:
            self._go_on(*started)

    def _become(self, job: Job, status: str, sub_status: str = "") -> None:
        job.status, job.sub_status = status, sub_status
        job.modified = self.now
        job.step += 1
        if job.statuses[-1][0] != status:
            job.statuses.append((status, self.now))

    def _life(self, job: Job) -> Life:
        """Live a job's plan."""
        plan = job.draft.plan
        yield plan.creating
        job.submitted = self.now
        nodes = None
        self._become(job, "Bidding" if plan.bidding else "Queuing")
        if plan.bidding or not job.draft.pool_id:
            yield plan.bidding or plan.queuing
        else:
            job.reason = WAITING_FOR_ROOM
            if plan.gives_up_after is not None:
                self._after(job, plan.gives_up_after, lambda: self._give_up(job))
            self.pools[job.draft.pool_id].enqueue(job)
            nodes = yield None
        places = [(role, index) for role in job.draft.roles for index in range(role.count)]
        for position, (role, index) in enumerate(places):
            node = None if nodes is None else nodes[position]
            job.pods.append(self._pod(f"{job.job_id}-{role.type.lower()}-{index}", role, node))
        job.reason = ("", "")
        self._become(job, "EnvPreparing")
        yield plan.preparing
        if plan.checking:
            self._become(job, "SanityChecking")
            yield plan.checking
        job.running = self.now
        job.hangs_at = None if plan.hangs_after is None else self.now + plan.hangs_after
        for restart in plan.restarts:
            self._run(job)
            yield job.running + restart.after - self.now
            self._lose_a_pod(job, restart)
            yield restart.lasts
            if plan.loading is not None and not restart.as_sub_status:
                self._become(job, "EnvPreparing")
                yield plan.loading
        self._run(job)
        yield job.running + plan.running - self.now
        job.reason = plan.reason
        if plan.outcome == "Stopped":
            yield from self._stopping(job)
            return
        job.work_ended = self.now
        if plan.reserving:
            if plan.outcome == "Failed":  # one pod broke; the others are kept for inspection
                job.pods[0].status, job.pods[0].finished = plan.outcome, self.now
            self._become(job, f"{plan.outcome}Reserving")
            yield plan.reserving
        self._finish(job, plan.outcome)

    def _pod(self, pod_id: str, role: Role, node: Node | None) -> Pod:
        uid = new_uuid(self._rng)
        if node is None:  # on public resources: a separate virtual machine
            address = self._rng.getrandbits(16)
            name, ip = f"virtual-{uid[:8]}", f"10.200.{address >> 8}.{max(address & 255, 1)}"
        else:
            name, ip = node.name, f"{node.ip_prefix}.{node.next_ip}"
            node.next_ip = node.next_ip % 250 + 1
        return Pod(pod_id, uid, role, self.now, name, ip)

    def _run(self, job: Job) -> None:
        for pod in job.pods:
            if pod.status == "Pending":
                pod.status, pod.started = "Running", self.now
        for loss in job.losses:
            loss.over = self.now if loss.over is None else loss.over
        self._become(job, "Running")

    def _lose_a_pod(self, job: Job, restart: Restart) -> None:
        job.restarts += 1
        place = self._rng.randrange(len(job.pods))
        old = job.pods[place]
        node = self.pools[job.draft.pool_id].move(old) if job.draft.pool_id else None
        new = self._pod(old.pod_id, old.role, node)
        new.history, old.history = [*old.history, old], []
        old.status, old.finished = "Failed", self.now
        old.sub_status = "Evicted" if restart.evicted else "Normal"
        job.pods[place] = new
        # The cause of the loss is not random, so that all other events stay the same.
        moved = new.node != old.node
        faults = FAULTS if moved else FAULTS[:-1]
        fault = PREEMPTED if restart.evicted else faults[(job.created + job.restarts) % len(faults)]
        job.losses.append(Loss(self.now, fault, old, moved))
        if restart.as_sub_status:
            self._become(job, "Running", "Restarting")
        else:
            self._become(job, "Restarting")

    def _give_up(self, job: Job) -> None:
        pool = self.pools[job.draft.pool_id]
        pool.leave(job)
        self._stop(job)
        self._place(pool)  # others may have waited behind it

    def _stop(self, job: Job) -> None:
        job.reason = STOPPED_BY_USER
        self._begin(job, self._stopping(job))

    def _stopping(self, job: Job) -> Life:
        self._become(job, "Stopping")
        yield job.draft.plan.stopping
        job.work_ended = self.now
        self._finish(job, "Stopped")

    def _finish(self, job: Job, outcome: str) -> None:
        for pod in job.pods:
            if pod.finished is None:
                pod.status, pod.finished = outcome, self.now
        job.finished = self.now
        self._become(job, outcome)
        if job.draft.pool_id:
            self.pools[job.draft.pool_id].release(job)
