"""CloudMonitor's points of quotas and their nodes, computed from the use by their jobs.

A quota's figures include its children's.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.monitor_metrics import IDLE_WATTS, WATTS_PER_PERCENT, PoolMetric
from trainfleet_simulator.pai.monitor_points import Moment, Subjects, statistics
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import Amount
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.usage import reading

_MOMENTS = 1440
"""Number of moments whose figures are cached."""


@dataclass(slots=True)
class Figures:
    """Capacity, allocation and use of one or more nodes, in cores, MiB, cards, and cards' worth of memory."""

    cpu_total: float = 0
    memory_total: float = 0
    cards_total: float = 0
    cpu_request: float = 0
    cards_request: float = 0
    cpu: float = 0
    memory: float = 0
    cards: float = 0
    card_memory: float = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def value(self, what: str) -> float | None:
        """Return one of the catalogue's figures; None if the nodes have nothing of it."""
        match what:
            case "cpu_util":
                return _percent(self.cpu, self.cpu_total)
            case "memory_util":
                return _percent(self.memory, self.memory_total)
            case "cards_util":
                return _percent(self.cards, self.cards_total)
            case "card_memory_util":
                return _percent(self.card_memory, self.cards_total)
            case "power":
                watts = self.cards_total * IDLE_WATTS + self.cards * 100 * WATTS_PER_PERCENT
                return round(watts, 2) if self.cards_total else None
        return float(getattr(self, what))


def _percent(part: float, whole: float) -> float | None:
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
        for pool_id, pool in self._world.pools.items():
            named = nodes[pool_id]
            if metric.level == "quota":
                family = [nodes[member.spec.pool_id] for member in self._world.family(pool_id)]
                named = {"": sum((figures for own in family for figures in own.values()), Figures())}
            for node, figures in named.items():
                value = figures.value(metric.what)
                if value is not None and figures.cpu_total:
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
            role = pod.role
            cpu, memory, cards, card_memory = (
                (reading(name, job, pod, place.at) or 0.0) / 100
                for name in ("CpuCoreUsage", "MemoryUsage", "GpuCoreUsage", "GpuMemoryUsage")
            )
            figures = nodes[job.draft.pool_id][pod.node]
            figures.cpu += cpu * role.cpu
            figures.memory += memory * role.memory
            figures.cards += cards * role.cards
            figures.card_memory += card_memory * role.cards
        return nodes


def _node(pool: Pool, name: str) -> Figures:
    kind = pool.spec.node_type
    taken: Amount = kind.usable - pool.nodes[name].free
    return Figures(kind.cpu, kind.memory, kind.cards, taken.cpu, taken.cards)


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
