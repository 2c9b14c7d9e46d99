"""CloudMonitor's points of quotas and their nodes, computed from the use by their jobs.

A quota's figures include its children's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.monitor_metrics import IDLE_WATTS, WATTS_PER_PERCENT, PoolMetric
from trainfleet_simulator.pai.monitor_points import statistics
from trainfleet_simulator.pai.monitor_subjects import Moment, Subjects
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.pools import Amount, Pool
from trainfleet_simulator.world.usage import reading

_MOMENTS = 1440
"""Number of moments whose figures are cached."""


@dataclass(slots=True)
class Figures:
    """Capacity, allocation and use of one or more nodes (cores, MiB, cards, cards' worth of memory)."""

    total: Amount = field(default_factory=Amount)
    taken: Amount = field(default_factory=Amount)
    cpu: float = 0.0
    memory: float = 0.0
    cards: float = 0.0
    card_memory: float = 0.0

    def add(self, other: Figures) -> None:
        """Add the figures of another node."""
        self.total += other.total
        self.taken += other.taken
        self.cpu += other.cpu
        self.memory += other.memory
        self.cards += other.cards
        self.card_memory += other.card_memory

    def value(self, what: str) -> float | None:
        """Return one of the catalogue's figures; None if the nodes have nothing of it."""
        match what:
            case "cpu_util":
                return _percent(self.cpu, self.total.cpu)
            case "memory_util":
                return _percent(self.memory, self.total.memory)
            case "cards_util":
                return _percent(self.cards, self.total.cards)
            case "card_memory_util":
                return _percent(self.card_memory, self.total.cards)
            case "power":
                if not self.total.cards:
                    return None
                return round(self.total.cards * IDLE_WATTS + self.cards * 100 * WATTS_PER_PERCENT, 2)
            case "cpu_request":
                return float(self.taken.cpu)
            case "cpu_total":
                return float(self.total.cpu)
            case "cards_request":
                return float(self.taken.cards)
        return float(self.total.cards)


def _percent(part: float, whole: int) -> float | None:
    return round(100 * part / whole, 4) if whole else None


class PoolPoints:
    """Datapoints of quotas and nodes. Their figures are computed once a minute."""

    def __init__(self, world: World, places: Subjects) -> None:
        self._world = world
        self._places = places
        self._gathered: OrderedDict[tuple[int, int], dict[str, dict[str, Figures]]] = OrderedDict()
        """By moment and period: the metrics of a day are requested one after the other, for the same minutes."""

    def points(self, metric: PoolMetric, moment: Moment) -> list[dict[str, Any]]:
        """Return the points of all quotas or nodes at one moment."""
        newest, oldest, period = moment
        if newest < oldest:
            return []
        nodes = self._gathered.get((newest, period))
        if nodes is None:
            # A thing with a point at this very minute runs. Ended jobs do not count for a quota.
            nodes = self._gathered[newest, period] = self._gather((newest, newest, period))
            while len(self._gathered) > _MOMENTS:
                self._gathered.popitem(last=False)
        found = []
        for pool in self._world.pools.values():
            if metric.level == "quota":
                named = [("", _sum(nodes[member.spec.pool_id] for member in self._world.family(pool.spec.pool_id)))]
            else:
                named = list(nodes[pool.spec.pool_id].items())
            for node, figures in named:
                value = figures.value(metric.what)
                if value is not None and figures.total != Amount():
                    found.append(_point(metric, pool, node, newest, value))
        return found

    def _gather(self, moment: Moment) -> dict[str, dict[str, Figures]]:
        nodes = {
            pool_id: {name: _node(pool, name) for name in pool.nodes} for pool_id, pool in self._world.pools.items()
        }
        for place in self._places.everybody("pod", moment, of_cards=False):
            job, pod = place.job, place.pods[0]
            if not job.draft.pool_id:
                continue
            figures, role = nodes[job.draft.pool_id][pod.node], pod.role
            figures.cpu += _ratio(reading("CpuCoreUsage", job, pod, place.at)) * role.cpu
            figures.memory += _ratio(reading("MemoryUsage", job, pod, place.at)) * role.memory
            figures.cards += _ratio(reading("GpuCoreUsage", job, pod, place.at)) * role.cards
            figures.card_memory += _ratio(reading("GpuMemoryUsage", job, pod, place.at)) * role.cards
        return nodes


def _ratio(percent: float | None) -> float:
    return (percent or 0.0) / 100


def _node(pool: Pool, name: str) -> Figures:
    kind = pool.spec.node_type
    usable = Amount(kind.cpu - kind.reserved_cpu, kind.memory - kind.reserved_memory, kind.cards)
    return Figures(Amount(kind.cpu, kind.memory, kind.cards), usable - pool.nodes[name].free)


def _sum(pools: Iterable[dict[str, Figures]]) -> Figures:
    whole = Figures()
    for nodes in pools:
        for figures in nodes.values():
            whole.add(figures)
    return whole


def _point(metric: PoolMetric, pool: Pool, node: str, at: int, value: float) -> dict[str, Any]:
    point: dict[str, Any] = {
        "timestamp": at * 1000,
        "userId": catalog.ACCOUNT_ID,
        "regionId": catalog.REGION,
        "quotaId": pool.spec.pool_id,
        "quotaName": pool.spec.name,
    }
    if node:
        point["nodeId"] = node
    if metric.unit != "%":
        return point | dict.fromkeys(metric.statistics, value)
    return point | statistics(value, metric.statistics, metric.unit)
