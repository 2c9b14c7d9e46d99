"""The subjects of CloudMonitor's readings at a moment (jobs, pods, cards, quotas), and their datapoints.

Subjects and times are computed once a minute for all metrics and pages. Values are computed when a page is written.
Those of quotas are computed from the use by their jobs. A quota's figures include its children's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.monitor_metrics import AVERAGES, HEALTH, IDLE_WATTS, WATTS_PER_PERCENT, Metric, PoolMetric
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Pod
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.usage import reading

_KEPT = 12
_SPREAD = 0.05  # relative distance of minimum and maximum from the average


class Subject(NamedTuple):
    """The subject of one point: a job with all its pods at that time, a pod, or one card of a pod."""

    job: Job
    pods: tuple[Pod, ...]
    card: int | None
    at: int


Moment = tuple[int, int, int]
"""The largest age and the smallest age of points as Unix times, and the period (seconds)."""


def served(job: Job) -> bool:
    """Return whether CloudMonitor has the job. Pay-as-you-go jobs on general computing are only in DLC."""
    return job.draft.payment != "PostPaid" or job.draft.resource_type != "ECS"


def facts_of(place: Subject) -> dict[str, Any]:
    """Return the dimensions of a subject."""
    facts = {
        "userId": catalog.ACCOUNT_ID,
        "regionId": catalog.REGION,
        "workspaceId": place.job.draft.workspace_id,
        "jobId": place.job.job_id,
    }
    if len(place.pods) == 1:
        facts["pod"] = place.pods[0].pod_id
    if place.card is not None:
        facts["gpuId"] = str(place.card)
    return facts


def _last_places(job: Job, level: str, moment: Moment, *, of_cards: bool) -> Iterator[Subject]:
    """Yield the last point of a job, of each of its pods, or of each of their cards."""
    newest, oldest, period = moment
    lasts = (_last(pod, newest, period) for pod in job.pods if pod.role.cards or not of_cards)
    found = [last for last in lasts if last is not None and last[1] >= oldest]
    if level != "job":
        for pod, at in found:
            yield from _of_pod(job, pod, level, at)
    elif found:
        latest = max(at for _, at in found)
        yield Subject(job, tuple(pod for pod, at in found if at == latest), None, latest)


def places_at(job: Job, level: str, at: int, *, of_cards: bool) -> Iterator[Subject]:
    """Yield the points of one past moment."""
    pods = [
        one
        for pod in job.pods
        if pod.role.cards or not of_cards
        for one in [pod, *pod.history]
        if one.started is not None and one.started <= at and (one.finished is None or at <= one.finished)
    ]
    if level != "job":
        for pod in pods:
            yield from _of_pod(job, pod, level, at)
    elif pods:
        yield Subject(job, tuple(pods), None, at)


def _of_pod(job: Job, pod: Pod, level: str, at: int) -> Iterator[Subject]:
    for card in range(pod.role.cards) if level == "card" else (None,):
        yield Subject(job, (pod,), card, at)


def _last(pod: Pod, newest: int, period: int) -> tuple[Pod, int] | None:
    """Return the latest incarnation with the end of a whole period in its life, and the last such end."""
    for one in reversed(pod.incarnations):
        if one.started is None:
            continue
        at = newest if one.finished is None else min(newest, one.finished // period * period)
        if at >= one.started:
            return one, at
    return None


class Subjects:
    """The last points of all subjects, computed once for each moment. The last few moments are cached."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: OrderedDict[tuple[str, bool, Moment], list[Subject]] = OrderedDict()

    def everybody(self, level: str, moment: Moment, *, of_cards: bool) -> list[Subject]:
        """Return them in a stable order: the oldest job first."""
        key = (level, of_cards, moment)
        if key not in self._kept:
            jobs = (job for job in self._world.jobs.values() if job.finished is None or job.finished >= moment[1])
            self._kept[key] = self.of(jobs, level, moment, of_cards=of_cards)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def of(self, jobs: Iterable[Job], level: str, moment: Moment, *, of_cards: bool) -> list[Subject]:
        """Return the last points of these jobs only, if CloudMonitor has them."""
        return [place for job in jobs if served(job) for place in _last_places(job, level, moment, of_cards=of_cards)]


def _value_of(metric: Metric, place: Subject, period: int) -> float | None:
    """Return the average of the minutes of the period that ends with the point."""
    values = []
    for at in range(place.at - period + 60, place.at + 60, 60):
        of_pods = [value for pod in place.pods if (value := metric.read(place.job, pod, at)) is not None]
        if of_pods:
            values.append(sum(of_pods) if metric.summed else sum(of_pods) / len(of_pods))
    if not values:
        return None
    value = sum(values) / len(values)
    if place.card is not None:
        value = _of_card(metric, value, place, place.card)
    return round(value, 4)


def _of_card(metric: Metric, value: float, place: Subject, card: int) -> float:
    """Return the value of a card. Cards of a pod are in pairs, one slightly above the pod's average, one equally below
    it.

    One card of a job that hangs is not healthy.
    """
    pod = place.pods[0]
    if metric.name == HEALTH:
        is_first = card == 0 and pod is place.job.pods[0]
        hung = place.job.hangs_at is not None and place.at >= place.job.hangs_at
        return 0.0 if is_first and hung else value
    if card == pod.role.cards - 1 and card % 2 == 0:
        return value
    apart = min(0.03 * value, 100 - value) if metric.unit == "%" else 0.03 * value
    apart *= crc32(f"{pod.uid}/{card // 2}".encode()) / 0xFFFFFFFF
    return value + (apart if card % 2 else -apart)


def point_of(metric: Metric, place: Subject, period: int) -> dict[str, Any] | None:
    """Return a datapoint with its dimensions and statistics; None if there is no reading."""
    value = _value_of(metric, place, period)
    if value is None:
        return None
    facts = facts_of(place)
    if metric.level == "job":
        facts.pop("pod", None)
    return {"timestamp": place.at * 1000, **facts, **statistics(value, metric.statistics, metric.unit)}


def statistics(value: float, names: tuple[str, ...], unit: str) -> dict[str, float]:
    """Return the statistics of a metric."""
    if names == ("Value",):
        return {"Value": value}
    highest = value * (1 + _SPREAD)
    return {
        "Average": value,
        "Minimum": round(value * (1 - _SPREAD), 4),
        "Maximum": round(min(highest, max(value, 100.0)) if unit == "%" else highest, 4),
    }


_MOMENTS = 1440
"""Number of moments whose figures are cached."""
_AMOUNTS = {"CpuCoreUsage": "cpu", "MemoryUsage": "memory", "GpuCoreUsage": "cards", "GpuMemoryUsage": "cards"}
"""By reading, the amount of a pod or node that it is a share of."""


class PoolPoints:
    """Datapoints of quotas. The use of all pools is computed once a minute."""

    def __init__(self, world: World, places: Subjects) -> None:
        self._world = world
        self._places = places
        self._used: OrderedDict[tuple[int, int], dict[tuple[str, str], float]] = OrderedDict()
        """By moment and period: the metrics of a day are requested one after the other, for the same minutes."""

    def points(self, metric: PoolMetric, moment: Moment) -> list[dict[str, Any]]:
        """Return the points of all quotas at one moment."""
        newest, oldest, period = moment
        if newest < oldest:
            return []
        if (newest, period) not in self._used:
            # A thing with a point at this very minute runs. Ended jobs do not count for a quota.
            self._used[newest, period] = self._gather((newest, newest, period))
            while len(self._used) > _MOMENTS:
                self._used.popitem(last=False)
        found = []
        for pool_id, pool in self._world.pools.items():
            family = list(self._world.family(pool_id))
            whole = sum(getattr(one.actual, _AMOUNTS[metric.reading]) for one in family)
            if whole:
                used = self._used[newest, period]
                busy = sum(used.get((node, metric.reading), 0.0) for one in family for node in one.nodes)
                found.append(_pool_point(metric, pool, newest, busy, whole))
        return found

    def _gather(self, moment: Moment) -> dict[tuple[str, str], float]:
        """Return the used amounts by node and reading."""
        used: dict[tuple[str, str], float] = {}
        for place in self._places.everybody("pod", moment, of_cards=False):
            job, pod = place.job, place.pods[0]
            for name, amount in _AMOUNTS.items() if job.draft.pool_id else ():
                share = (reading(name, job, pod, place.at) or 0.0) / 100
                key = pod.node, name
                used[key] = used.get(key, 0.0) + share * getattr(pod.role, amount)
        return used


def _pool_point(metric: PoolMetric, pool: Pool, at: int, busy: float, whole: float) -> dict[str, Any]:
    point: dict[str, Any] = {
        "timestamp": at * 1000,
        "userId": catalog.ACCOUNT_ID,
        "regionId": catalog.REGION,
        "quotaId": pool.spec.pool_id,
        "quotaName": pool.spec.name,
    }
    if metric.unit == "W":
        watts = round(whole * IDLE_WATTS + busy * 100 * WATTS_PER_PERCENT, 2)
        return point | dict.fromkeys(AVERAGES, watts)
    return point | statistics(round(100 * busy / whole, 4), AVERAGES, metric.unit)
