"""Pools: their nodes, their queue, and the placement of pods on nodes."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

from trainfleet_simulator.world.jobs import Job, Pod
from trainfleet_simulator.world.nouns import Amount, PoolSpec


@dataclass(slots=True)
class Node:
    """A node and its free resources."""

    name: str
    ip_prefix: str
    free: Amount
    pods: int = 0
    next_ip: int = 1


class Pool:
    """One pool without its children; figures of an API include them (see `World`).

    It has `scale` times the nodes of its spec, all empty. `number` is part of the names of its nodes.
    """

    def __init__(self, spec: PoolSpec, scale: float, number: int) -> None:
        self.spec = spec
        kind = spec.node_type
        names = [
            f"{kind.prefix}-{number}-node-{i:03d}" for i in range(1, max(spec.nodes, round(spec.nodes * scale)) + 1)
        ]
        self.nodes = {name: Node(name, f"10.{number}.{i % 250}", kind.usable) for i, name in enumerate(names, 1)}
        self.free = kind.usable.times(len(self.nodes))
        self.allocated = Amount()
        self.queue: list[Job] = []
        """The jobs that wait, the next one first."""
        # Nodes by their free cards, so that the placement of a pod does not check every node of a large pool.
        self._by_free_cards: list[dict[str, Node]] = [{} for _ in range(kind.cards + 1)]
        self._by_free_cards[kind.cards].update(self.nodes)

    @property
    def actual(self) -> Amount:
        """Return the resources of its nodes, including the system's share."""
        return self.spec.node_type.whole.times(len(self.nodes))

    @property
    def nodes_in_use(self) -> int:
        return sum(1 for node in self.nodes.values() if node.pods)

    def enqueue(self, job: Job) -> None:
        """Put a job into the queue: by priority, then by arrival."""
        insort(self.queue, job, key=lambda other: -other.draft.priority)

    def leave(self, job: Job) -> None:
        """Remove a job from the queue."""
        self.queue = [one for one in self.queue if one is not job]

    def next_to_start(self) -> tuple[Job, list[Node]] | None:
        """Return the first job of the queue, and take nodes for its pods; None if it must wait.

        No job overtakes the first one: small jobs do not starve a large one.
        """
        nodes = self._take(self.queue[0]) if self.queue else None
        return None if nodes is None else (self.queue.pop(0), nodes)

    def move(self, pod: Pod) -> Node:
        """Return another node for a pod that lost its node; the same one if no other has room."""
        amount = pod.role.amount
        old = self.nodes[pod.node]
        self._put(amount, old, -1)
        new = self._find(amount, other_than=old) or old
        self._put(amount, new, 1)
        return new

    def release(self, job: Job) -> None:
        """Release the resources of a job's pods."""
        for pod in job.pods:
            self._put(pod.role.amount, self.nodes[pod.node], -1)

    def _find(self, amount: Amount, other_than: Node | None = None) -> Node | None:
        """Return a node with room, the fullest first, so that whole nodes stay free for large pods."""
        for nodes in self._by_free_cards[amount.cards :]:
            for node in nodes.values():
                if node is not other_than and amount.fits(node.free):
                    return node
        return None

    def _take(self, job: Job) -> list[Node] | None:
        if not job.draft.amount.fits(self.free):
            return None
        taken: list[tuple[Amount, Node]] = []
        for role in job.draft.roles:
            amount = role.amount
            for _ in range(role.count):
                node = self._find(amount)
                if node is None:
                    for held, place in taken:
                        self._put(held, place, -1)
                    return None
                self._put(amount, node, 1)
                taken.append((amount, node))
        return [node for _, node in taken]

    def _put(self, amount: Amount, node: Node, sign: int) -> None:
        change = amount.times(sign)
        del self._by_free_cards[node.free.cards][node.name]
        node.free -= change
        self._by_free_cards[node.free.cards][node.name] = node
        node.pods += sign
        self.free -= change
        self.allocated += change
