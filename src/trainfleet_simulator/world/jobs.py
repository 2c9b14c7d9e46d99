"""What a simulated job is: what was asked for, what will become of it, and where it stands. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trainfleet_simulator.world.nouns import FINISHED, User


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of pod of a job; the amounts are one pod's. Memory in MiB."""

    type: str
    count: int
    cpu: int
    memory: int
    cards: int = 0
    card_type: str = ""
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """A pod of the job is lost `after` seconds of running, and replaced `lasts` seconds later."""

    after: int
    lasts: int
    evicted: bool
    as_sub_status: bool
    """The job says so as SubStatus of Running, instead of Status Restarting."""


@dataclass(slots=True)
class Loss:
    """A pod that was lost: when, why, and until when it was missing."""

    at: int
    fault: str
    """One of FAULTS, or PREEMPTED."""
    pod: Pod
    """The incarnation that was lost."""
    moved: bool
    """Whether its place was taken on another node."""
    over: int | None = None


FAULTS = ("accelerator", "process", "hang", "degraded", "node")
"""Why pods are lost. One whose node is lost is never replaced in its place."""
PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True)
class Plan:
    """What will become of a job, in seconds; how long it queues for a pool is not planned but happens."""

    creating: int
    queuing: int
    preparing: int
    running: int
    outcome: str
    reason: tuple[str, str]
    bidding: int = 0
    checking: int = 0
    stopping: int = 0
    reserving: int = 0
    gives_up_after: int | None = None
    restarts: tuple[Restart, ...] = ()
    hangs_after: int | None = None
    loading: int | None = None
    """How long each run loads before its accelerators work; None: some seconds, and nothing after a restart on PAI."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a user submits."""

    name: str
    job_type: str
    workspace_id: str
    user: User
    pool_id: str
    payment: str
    resource_type: str
    priority: int
    roles: tuple[Role, ...]
    tags: tuple[tuple[str, str], ...]
    plan: Plan
    restarts_allowed: int = 10

    def lasting(self, times: int) -> Draft:
        """The same job, running so many times as long."""
        if times == 1:
            return self
        restarts = tuple(replace(restart, after=restart.after * times) for restart in self.plan.restarts)
        return replace(self, plan=replace(self.plan, running=self.plan.running * times, restarts=restarts))


@dataclass(slots=True)
class Pod:
    """One pod in its present incarnation; `history` holds the earlier ones, oldest first."""

    pod_id: str
    uid: str
    role: Role
    created: int
    node: str
    ip: str
    status: str = "Pending"
    sub_status: str = "Normal"
    started: int | None = None
    finished: int | None = None
    history: list[Pod] = field(default_factory=list)

    @property
    def incarnations(self) -> list[Pod]:
        """The earlier ones and the present one, oldest first."""
        return [*self.history, self]


@dataclass(slots=True)
class Job:
    """A job's whole state."""

    job_id: str
    draft: Draft
    created: int
    status: str = "Creating"
    sub_status: str = ""
    reason: tuple[str, str] = ("", "")
    modified: int = 0
    submitted: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    stopped: int | None = None
    finished: int | None = None
    hangs_at: int | None = None
    restarts: int = 0
    step: int = 0
    """Grows with every change of state; what was scheduled for an earlier step no longer happens."""
    pods: list[Pod] = field(default_factory=list)
    statuses: list[tuple[str, int]] = field(default_factory=list)
    """Every status it has had, and since when."""
    losses: list[Loss] = field(default_factory=list)
    """The pods that it has lost, in their order."""
    still: bool = False
    """Whether what it uses is always the same."""

    @property
    def live(self) -> bool:
        return self.status not in FINISHED

    @property
    def work_ended(self) -> int | None:
        """When its command ended, which is before `finished` where resources stay reserved."""
        ends = [end for end in (self.succeeded, self.failed, self.stopped) if end is not None]
        return min(ends, default=None)

    def duration(self, now: int) -> int:
        """Seconds that it has been running, restarts included."""
        if self.running is None:
            return 0
        ended = self.work_ended
        return (now if ended is None else ended) - self.running


def total(roles: Sequence[Role]) -> tuple[int, int, int]:
    """CPU cores, memory (MiB) and cards of a whole job."""
    return (
        sum(role.count * role.cpu for role in roles),
        sum(role.count * role.memory for role in roles),
        sum(role.count * role.cards for role in roles),
    )
