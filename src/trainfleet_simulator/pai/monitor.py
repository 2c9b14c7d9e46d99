"""The simulated CloudMonitor (version 2019-01-01): its catalogue, and readings of jobs, pods, cards and quotas.

Subjects and times are computed once a minute for all metrics and pages. Values are computed when a page is written.
Those of quotas are computed from the use by their jobs. A quota's figures include its children's.
https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclast
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai import monitor_metrics as metrics
from trainfleet_simulator.pai.monitor_metrics import HEALTH, IDLE_WATTS, WATTS_PER_PERCENT, Kind, Metric
from trainfleet_simulator.pai.parameters import time_of
from trainfleet_simulator.pai.sts import required
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Pod
from trainfleet_simulator.world.usage import reading

_LAG = 60  # seconds until a reading appears
_LOOK_BACK = 7200  # seconds: the largest age of a last point
_DAY = 86_400
_LONGEST_RANGE = 31 * _DAY
_RETENTION = {60: 31 * _DAY, 300: 91 * _DAY, 900: 91 * _DAY}
"""Seconds for which points are kept, by period."""
_MOST_DIMENSIONS = 50
_QUESTION = ("Namespace", "MetricName", "Period", "Dimensions", "StartTime", "EndTime")
"""Parameters that must be the same for the later pages."""
_AMOUNTS = {"CpuCoreUsage": "cpu", "MemoryUsage": "memory", "GpuCoreUsage": "cards", "GpuMemoryUsage": "cards"}
"""By reading, the amount of a pod or node that it is a share of."""


class Subject(NamedTuple):
    """The subject of one point: a job with all its pods at that time, a pod, or one card of a pod."""

    job: Job
    pods: tuple[Pod, ...]
    card: int | None
    at: int


Moment = tuple[int, int, int]
"""The largest age and the smallest age of points as Unix times, and the period (seconds)."""
Filter = Mapping[str, str]
"""Names and values that a point must have."""
Point = dict[str, Any]


class Monitor:
    """The operations of CloudMonitor on one world. The last points and uses of the latest moments are cached."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last = lru_cache(12)(self._last_of_all)
        # The metrics of a day are requested one after the other, for the same minutes.
        self._used = lru_cache(1440)(self._use)

    def describe_metric_meta_list(self, call: Call) -> Answer:
        """DescribeMetricMetaList: the catalogue. Counts are text."""
        namespace, wanted = required(call, "Namespace"), call.text("MetricName")
        number, size = call.whole("PageNumber", 1, 1, 1_000_000), call.whole("PageSize", 30, 1, 200)
        found = [
            {
                "MetricName": metric.name,
                "Unit": metric.unit,
                "Dimensions": ",".join(metrics.DIMENSIONS[metric.level]),
                "Periods": ",".join(map(str, metrics.PERIODS)),
                "Statistics": ",".join(metric.statistics),
            }
            for metric in metrics.NAMESPACES.get(namespace, ())
            if wanted in {"", metric.name}
        ]
        page = {"Resource": found[(number - 1) * size : number * size]}
        return Answer({"Code": "200", "Success": True, "TotalCount": str(len(found)), "Resources": page})

    def describe_metric_last(self, call: Call) -> Answer:
        """DescribeMetricLast: the last point of all things, or of those in Dimensions, including ended jobs.

        Without StartTime, a point may be two hours old.
        """
        metric, period, wanted = _asked(call)
        end = min(_time(call, "EndTime", call.now), call.now)
        since = max(end - _LOOK_BACK, _time(call, "StartTime", 0))
        # The range is open at its start and closed at its end.
        moment = int(min(call.now - _LAG, end)) // period * period, (int(since) // period + 1) * period, period

        def find() -> Sequence[Subject | Point]:
            if metric.level == "quota":
                return self._of_quotas(metric, moment[:1] if moment[0] >= moment[1] else (), period, wanted)
            jobs = self._named(wanted)
            found = self._last(metric.kind, moment) if jobs is None else _last_of(jobs, metric.kind, moment)
            if not wanted and not self._world.hidden:
                return found
            return [place for place in found if self._world.shows(place.job) and _fits(wanted, _facts(metric, place))]

        return _answer(call, metric, period, find)

    def describe_metric_list(self, call: Call) -> Answer:
        """DescribeMetricList: the points of a range, open at its start and closed at its end, of at most 31 days.

        Points older than the retention are missing.
        """
        metric, period, wanted = _asked(call)
        end = _time(call, "EndTime", call.now)
        start = _time(call, "StartTime", end - 3600)
        if not 0 <= end - start <= _LONGEST_RANGE:
            raise call.invalid("StartTime", "a range of at most 31 days")
        newest = int(min(call.now - _LAG, end)) // period * period
        oldest = max(int(start), int(call.now) - _RETENTION[period])
        times = range((oldest // period + 1) * period, newest + 1, period)

        def find() -> Sequence[Subject | Point]:
            if metric.level == "quota":
                return self._of_quotas(metric, times, period, wanted)
            jobs = self._named(wanted)
            return [
                place
                for job in (self._world.jobs.values() if jobs is None else jobs)
                if _served(job) and self._world.shows(job)
                for place in _of_range(job, metric, times, wanted)
            ]

        return _answer(call, metric, period, find)

    def _named(self, wanted: Sequence[Filter]) -> list[Job] | None:
        """Return the jobs that the filters name; None if a filter names none, or there is no filter."""
        if not wanted or not all("jobId" in one for one in wanted):
            return None
        found = map(self._world.shown, dict.fromkeys(one["jobId"] for one in wanted))
        return [job for job in found if job is not None]

    def _last_of_all(self, kind: Kind, moment: Moment) -> list[Subject]:
        """Return the last points of all subjects in a stable order: the oldest job first."""
        jobs = (job for job in self._world.jobs.values() if job.finished is None or job.finished >= moment[1])
        return _last_of(jobs, kind, moment)

    def _of_quotas(self, metric: Metric, times: Iterable[int], period: int, wanted: Sequence[Filter]) -> list[Point]:
        points = [
            {
                "timestamp": at * 1000,
                "userId": catalog.ACCOUNT_ID,
                "regionId": catalog.REGION,
                "quotaId": pool_id,
                "quotaName": pool.spec.name,
                **_averages(value),
            }
            for at in times
            for pool_id, pool in self._world.pools.items()
            if (value := self._of_quota(metric, pool_id, at, period)) is not None
        ]
        return [point for point in points if _fits(wanted, point)]

    def _of_quota(self, metric: Metric, pool_id: str, at: int, period: int) -> float | None:
        """Return a quota's value; None without nodes."""
        family = list(self._world.family(pool_id))
        whole: float = sum(getattr(one.actual, _AMOUNTS[metric.reading]) for one in family)
        if not whole:
            return None
        used = self._used(at, period)
        busy = sum(used.get((node, metric.reading), 0.0) for one in family for node in one.nodes)
        if metric.unit == "W":
            return round(whole * IDLE_WATTS + busy * 100 * WATTS_PER_PERCENT, 2)
        return round(100 * busy / whole, 4)

    def _use(self, newest: int, period: int) -> dict[tuple[str, str], float]:
        """Return the used amounts by node and reading."""
        used: dict[tuple[str, str], float] = {}
        # A thing with a point at this very minute runs. Ended jobs do not count for a quota.
        for place in self._last(("pod", False), (newest, newest, period)):
            job, pod = place.job, place.pods[0]
            for name, amount in _AMOUNTS.items() if job.draft.pool_id else ():
                share = (reading(name, job, pod, place.at) or 0.0) / 100
                key = pod.node, name
                used[key] = used.get(key, 0.0) + share * getattr(pod.role, amount)
        return used


def _asked(call: Call) -> tuple[Metric, int, Sequence[Filter]]:
    """Return the metric, the period in seconds, and the filters: a point must fit one of them. Raises ApiError."""
    namespace, name = required(call, "Namespace"), required(call, "MetricName")
    metric = next((metric for metric in metrics.NAMESPACES.get(namespace, ()) if metric.name == name), None)
    if metric is None:
        raise ApiError(404, "ResourceNotFound", "The specified metric is not found.")
    period = int(call.choice("Period", tuple(map(str, metrics.PERIODS)), "60"))
    try:
        wanted = json.loads(call.text("Dimensions", "[]"))
    except ValueError:
        wanted = None
    known = set(metrics.DIMENSIONS[metric.level])
    if (
        not isinstance(wanted, list)
        or len(wanted) > _MOST_DIMENSIONS
        or not all(isinstance(one, dict) and one.keys() <= known for one in wanted)
    ):
        raise call.invalid("Dimensions", f"at most {_MOST_DIMENSIONS} JSON objects of {', '.join(known)}")
    return metric, period, wanted


def _answer(call: Call, metric: Metric, period: int, find: Callable[[], Sequence[Subject | Point]]) -> Answer:
    length = call.whole("Length", 1000, 1, 1440)
    page, token, _ = call.page(call.text("NextToken"), length, find, *map(call.text, _QUESTION))
    made = (one if isinstance(one, dict) else _point(metric, one, period) for one in page)
    points = json.dumps([point for point in made if point is not None], separators=(",", ":"))
    return Answer({"Code": "200", "Success": True, "Period": str(period), **token, "Datapoints": points})


def _time(call: Call, name: str, default: float) -> float:
    """Parse Unix milliseconds or UTC time as text; return Unix seconds."""
    text = call.text(name)
    if len(text) == 13 and text.isascii() and text.isdigit():
        return int(text) / 1000
    found = time_of(call, name)
    return default if found is None else found


def _fits(wanted: Sequence[Filter], facts: Mapping[str, Any]) -> bool:
    return not wanted or any(all(facts.get(name) == value for name, value in one.items()) for one in wanted)


# The subjects of points.


def _served(job: Job) -> bool:
    """Return whether CloudMonitor has the job. Pay-as-you-go jobs on general computing are only in DLC."""
    return job.draft.payment != "PostPaid" or job.draft.resource_type != "ECS"


def _pods(job: Job, kind: Kind) -> Iterator[Pod]:
    return (pod for pod in job.pods if pod.role.cards or not kind[1])


def _subjects(job: Job, level: str, found: Sequence[tuple[Pod, int]]) -> Iterator[Subject]:
    """Yield the latest point of a job, or each of its pods or their cards, of pods with times."""
    if level != "job":
        for pod, at in found:
            for card in range(pod.role.cards) if level == "card" else (None,):
                yield Subject(job, (pod,), card, at)
    elif found:
        latest = max(at for _, at in found)
        yield Subject(job, tuple(pod for pod, at in found if at == latest), None, latest)


def _subjects_at(job: Job, kind: Kind, at: int) -> Iterator[Subject]:
    """Return the points of one past moment."""
    every = (one for pod in _pods(job, kind) for one in (pod, *pod.history))
    lived = [
        (one, at)
        for one in every
        if one.started is not None and one.started <= at and (one.finished is None or at <= one.finished)
    ]
    return _subjects(job, kind[0], lived)


def _of_range(job: Job, metric: Metric, times: range, wanted: Sequence[Filter]) -> list[Subject]:
    """Return a job's points at these times: one thing after the other, each from its oldest point on."""
    if not times or job.created > times[-1] or (job.finished is not None and job.finished < times[0]):
        return []
    by_job = all(set(one) == {"jobId"} for one in wanted)  # it is one of the named jobs
    places = [
        place
        for at in times
        if at >= job.created and (job.finished is None or at <= job.finished)
        for place in _subjects_at(job, metric.kind, at)
        if by_job or _fits(wanted, _facts(metric, place))
    ]
    if metric.level != "job":
        places.sort(key=lambda place: (place.pods[0].pod_id, place.card or 0))
    return places


def _last(pod: Pod, newest: int, period: int) -> tuple[Pod, int] | None:
    """Return the latest incarnation with the end of a whole period in its life, and the last such end."""
    for one in reversed(pod.incarnations):
        if one.started is None:
            continue
        at = newest if one.finished is None else min(newest, one.finished // period * period)
        if at >= one.started:
            return one, at
    return None


def _last_of(jobs: Iterable[Job], kind: Kind, moment: Moment) -> list[Subject]:
    """Return the last points of jobs, if CloudMonitor has them."""
    newest, oldest, period = moment
    found: list[Subject] = []
    for job in filter(_served, jobs):
        lasts = (_last(pod, newest, period) for pod in _pods(job, kind))
        found += _subjects(job, kind[0], [last for last in lasts if last is not None and last[1] >= oldest])
    return found


# Points.


def _facts(metric: Metric, place: Subject) -> dict[str, Any]:
    """Return the dimensions of a subject."""
    facts = {
        "userId": catalog.ACCOUNT_ID,
        "regionId": catalog.REGION,
        "workspaceId": place.job.draft.workspace_id,
        "jobId": place.job.job_id,
        "pod": place.pods[0].pod_id,
        "gpuId": str(place.card),
    }
    return {name: facts[name] for name in metrics.DIMENSIONS[metric.level]}


def _point(metric: Metric, place: Subject, period: int) -> Point | None:
    """Return a datapoint with its dimensions and statistics, the average of the minutes of the period that ends with
    it; None if there is no reading."""
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
    value = round(value, 4)
    statistics = {"Value": value} if metric.level == "card" else _averages(value)
    return {"timestamp": place.at * 1000, **_facts(metric, place), **statistics}


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


def _averages(value: float) -> dict[str, float]:
    return {"Average": value, "Minimum": round(value * 0.95, 4), "Maximum": round(value * 1.05, 4)}
