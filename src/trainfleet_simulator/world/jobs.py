"""A simulated job: its request, its plan and its state. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from trainfleet_simulator.world.nouns import FINISHED, Amount, Machine, User


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

    @classmethod
    def on(cls, machine: Machine, type_: str, count: int) -> Role:
        """Return pods that each have a whole machine."""
        card_type = machine.card_type
        return cls(type_, count, machine.cpu, machine.memory, machine.cards, card_type, machine.name)

    @classmethod
    def part_of(cls, machine: Machine, type_: str, count: int, cards: int, *, size: str = "", parts: int = 2) -> Role:
        """Return pods that each have `cards` cards of a pool's machine, and their share of its other resources.

        Without cards, a pod has half of the CPU that belongs to a card, and one of so many `parts` of its memory.
        """
        cpu, memory = (whole * max(cards, 1) // machine.cards for whole in (machine.usable.cpu, machine.usable.memory))
        if not cards:
            return cls(type_, count, cpu // 2, memory // parts, machine=size)
        return cls(type_, count, cpu, memory, cards, machine.card_type, size)

    @property
    def amount(self) -> Amount:
        """Return the resources of one pod."""
        return Amount(self.cpu, self.memory, self.cards)


@dataclass(frozen=True, slots=True)
class Restart:
    """After `after` seconds of running, the job loses a pod, and gets a new one `lasts` seconds later."""

    after: int
    lasts: int
    evicted: bool
    as_sub_status: bool
    """The job shows it as SubStatus of Running, instead of Status Restarting."""


@dataclass(slots=True)
class Loss:
    """A lost pod, with its time, cause and end."""

    at: int
    fault: str
    """One of FAULTS, or PREEMPTED."""
    pod: Pod
    """The lost incarnation."""
    moved: bool
    """Whether the new pod runs on another node."""
    over: int | None = None


FAULTS = ("accelerator", "process", "hang", "degraded", "node")
"""Causes of the loss of pods. If the node is lost, the new pod runs on another node."""
PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True)
class Plan:
    """The future of a job, in seconds. Its time in a queue is not planned."""

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
    """Seconds that each run loads before its accelerators work. None: some seconds, and none after a restart on PAI."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A submitted job."""

    name: str
    workspace_id: str
    user: User
    pool_id: str
    priority: int
    roles: tuple[Role, ...]
    tags: tuple[tuple[str, str], ...]
    plan: Plan
    restarts_allowed: int = 10
    job_type: str = ""
    payment: str = ""
    resource_type: str = ""

    @property
    def amount(self) -> Amount:
        """Return the resources of all pods."""
        return sum((role.amount.times(role.count) for role in self.roles), Amount())

    def lasting(self, times: int) -> Draft:
        """Return the same job with so many times the running time."""
        if times == 1:
            return self
        restarts = tuple(replace(restart, after=restart.after * times) for restart in self.plan.restarts)
        return replace(self, plan=replace(self.plan, running=self.plan.running * times, restarts=restarts))


@dataclass(slots=True)
class Pod:
    """One pod in its present incarnation. `history` has the earlier ones, oldest first."""

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
        """Return the earlier incarnations and the present one, oldest first."""
        return [*self.history, self]


@dataclass(slots=True)
class Job:
    """The whole state of a job."""

    job_id: str
    draft: Draft
    created: int
    status: str = "Creating"
    sub_status: str = ""
    reason: tuple[str, str] = ("", "")
    modified: int = 0
    submitted: int | None = None
    running: int | None = None
    work_ended: int | None = None
    """The end of its command. It is before `finished` if resources stay reserved."""
    finished: int | None = None
    hangs_at: int | None = None
    restarts: int = 0
    step: int = 0
    """Grows with every change of state. Events scheduled in an earlier step are dropped."""
    pods: list[Pod] = field(default_factory=list)
    statuses: list[tuple[str, int]] = field(default_factory=list)
    """Every status so far, with its start."""
    losses: list[Loss] = field(default_factory=list)
    """The lost pods, in order."""
    still: bool = False
    """Whether its use of resources is constant."""
    series: dict[tuple[int, str], tuple[int, list[float | None]]] = field(default_factory=dict)
    """By place of a pod and metric, the first minute and the readings that were requested so far."""

    @property
    def live(self) -> bool:
        return self.status not in FINISHED

    def duration(self, now: int) -> int:
        """Return the seconds that it has run, including restarts."""
        if self.running is None:
            return 0
        ended = self.work_ended
        return (now if ended is None else ended) - self.running
