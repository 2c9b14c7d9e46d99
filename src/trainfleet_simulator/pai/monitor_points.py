"""The subjects of CloudMonitor's readings at a moment (jobs, pods, cards, quotas), and their datapoints.

Subjects and times are computed once a minute for all metrics and pages. Values are computed when a page is written.
Those of quotas are computed from the use by their jobs. A quota's figures include its children's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.monitor_metrics import AVERAGES, HEALTH, IDLE_WATTS, WATTS_PER_PERCENT, Kind, Metric
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Pod
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.usage import reading

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


def _subjects(job: Job, level: str, found: Sequence[tuple[Pod, int]]) -> Iterator[Subject]:
    """Yield the latest point of a job, or each of its pods or their cards, of pods with times."""
    if level != "job":
        for pod, at in found:
            for card in range(pod.role.cards) if level == "card" else (None,):
                yield Subject(job, (pod,), card, at)
    elif found:
        latest = max(at for _, at in found)
        yield Subject(job, tuple(pod for pod, at in found if at == latest), None, latest)


def _pods(job: Job, kind: Kind) -> Iterator[Pod]:
    return (pod for pod in job.pods if pod.role.cards or not kind[1])


def subjects_at(job: Job, kind: Kind, at: int) -> Iterator[Subject]:
    """Return the points of one past moment."""
    every = (one for pod in _pods(job, kind) for one in (pod, *pod.history))
    lived = [
        (one, at)
        for one in every
        if one.started is not None and one.started <= at and (one.finished is None or at <= one.finished)
    ]
    return _subjects(job, kind[0], lived)


def _last(pod: Pod, newest: int, period: int) -> tuple[Pod, int] | None:
    """Return the latest incarnation with the end of a whole period in its life, and the last such end."""
    for one in reversed(pod.incarnations):
        if one.started is None:
            continue
        at = newest if one.finished is None else min(newest, one.finished // period * period)
        if at >= one.started:
            return one, at
    return None


def last_of(jobs: Iterable[Job], kind: Kind, moment: Moment) -> list[Subject]:
    """Return the last points of jobs, if CloudMonitor has them."""
    newest, oldest, period = moment
    found: list[Subject] = []
    for job in filter(served, jobs):
        lasts = (_last(pod, newest, period) for pod in _pods(job, kind))
        found += _subjects(job, kind[0], [last for last in lasts if last is not None and last[1] >= oldest])
    return found


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
    values = {"Value": value} if metric.level == "card" else _averages(value, metric.unit)
    return {"timestamp": place.at * 1000, **facts, **values}


def _averages(value: float, unit: str) -> dict[str, float]:
    highest = value * (1 + _SPREAD)
    return {
        "Average": value,
        "Minimum": round(value * (1 - _SPREAD), 4),
        "Maximum": round(min(highest, max(value, 100.0)) if unit == "%" else highest, 4),
    }


_AMOUNTS = {"CpuCoreUsage": "cpu", "MemoryUsage": "memory", "GpuCoreUsage": "cards", "GpuMemoryUsage": "cards"}
"""By reading, the amount of a pod or node that it is a share of."""


class Points:
    """The last points of a whole world, computed once for each moment. The latest moments are cached."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.last = lru_cache(12)(self._last)
        # The metrics of a day are requested one after the other, for the same minutes.
        self._used = lru_cache(1440)(self._use)

    def _last(self, kind: Kind, moment: Moment) -> list[Subject]:
        """Return the last points of all subjects in a stable order: the oldest job first."""
        jobs = (job for job in self._world.jobs.values() if job.finished is None or job.finished >= moment[1])
        return last_of(jobs, kind, moment)

    def of_quotas(self, metric: Metric, newest: int, period: int) -> Iterator[dict[str, Any]]:
        """Yield the points of all quotas at one moment."""
        for pool_id, pool in self._world.pools.items():
            family = list(self._world.family(pool_id))
            whole = sum(getattr(one.actual, _AMOUNTS[metric.reading]) for one in family)
            if whole:
                used = self._used(newest, period)
                busy = sum(used.get((node, metric.reading), 0.0) for one in family for node in one.nodes)
                yield _pool_point(metric, pool, newest, busy, whole)

    def _use(self, newest: int, period: int) -> dict[tuple[str, str], float]:
        """Return the used amounts by node and reading."""
        used: dict[tuple[str, str], float] = {}
        # A thing with a point at this very minute runs. Ended jobs do not count for a quota.
        for place in self.last(("pod", False), (newest, newest, period)):
            job, pod = place.job, place.pods[0]
            for name, amount in _AMOUNTS.items() if job.draft.pool_id else ():
                share = (reading(name, job, pod, place.at) or 0.0) / 100
                key = pod.node, name
                used[key] = used.get(key, 0.0) + share * getattr(pod.role, amount)
        return used


def _pool_point(metric: Metric, pool: Pool, at: int, busy: float, whole: float) -> dict[str, Any]:
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
    return point | _averages(round(100 * busy / whole, 4), metric.unit)
