"""The nouns of the simulated world: workspaces, users, nodes, pools, and the states of jobs.

The states have the names of the cloud with most distinct states (PAI). The other clouds translate them.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1024  # memory is stored in MiB, the smallest unit in responses
HOUR, DAY = 3600, 86400
FOR_EVER = 3650 * DAY

JOB_STATUSES = (
    "Creating",
    "Queuing",
    "Bidding",
    "EnvPreparing",
    "SanityChecking",
    "Running",
    "Restarting",
    "Stopping",
    "SucceededReserving",
    "FailedReserving",
    "Succeeded",
    "Failed",
    "Stopped",
)
FINISHED = frozenset({"Succeeded", "Failed", "Stopped"})
LIVE = tuple(status for status in JOB_STATUSES if status not in FINISHED)

STOPPED_BY_USER = ("JobStoppedByUser", "Job is stopped by user.")
WAITING_FOR_ROOM = ("JobEnqueued", "The quota has no room for the job yet.")
SUCCEEDED = ("JobSucceeded", "Job succeeded.")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace. The simulator's identity is a member of it, or not."""

    workspace_id: str
    name: str
    member: bool = True


@dataclass(frozen=True, slots=True)
class User:
    """A user who submits jobs."""

    user_id: str
    name: str
    team: str


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of resources; memory in MiB."""

    cpu: int = 0
    memory: int = 0
    cards: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cpu + other.cpu, self.memory + other.memory, self.cards + other.cards)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.cpu - other.cpu, self.memory - other.memory, self.cards - other.cards)

    def times(self, count: int) -> Amount:
        return Amount(self.cpu * count, self.memory * count, self.cards * count)

    def fits(self, room: Amount) -> bool:
        return self.cpu <= room.cpu and self.memory <= room.memory and self.cards <= room.cards


@dataclass(frozen=True, slots=True)
class Machine:
    """A type of machines, of pools or outside of them. Memory in MiB, card memory in GiB per card.

    Without cards, `card_type` is empty. Pools reserve a share for the system, and begin the names of nodes with
    `prefix`.
    """

    name: str
    cpu: int
    memory: int
    cards: int = 0
    card_type: str = ""
    card_memory: int = 0
    reserved_cpu: int = 0
    reserved_memory: int = 0
    prefix: str = "node"

    @property
    def whole(self) -> Amount:
        """Return its resources, including the system's share."""
        return Amount(self.cpu, self.memory, self.cards)

    @property
    def usable(self) -> Amount:
        """Return the resources that jobs can have."""
        return self.whole - Amount(self.reserved_cpu, self.reserved_memory)


def by_name(*machines: Machine) -> dict[str, Machine]:
    """Return machine types by name."""
    return {machine.name: machine for machine in machines}


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A pool with its own nodes. The figures of `parent` include it."""

    pool_id: str
    name: str
    resource_type: str
    node_type: Machine
    nodes: int
    workspaces: tuple[str, ...]
    parent: str = ""
    status: str = "Ready"


PLANTED_SECRETS = (
    "planted-env-wandb-7f3a91",
    "planted-command-token-c20d58",
    "planted-registry-password-91be04",
)
"""Secrets in a job of every cloud that must never appear in a metric, log line or page."""
