"""The simulated CloudMonitor (version 2019-01-01).

https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclast
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.pai import monitor_metrics as metrics
from trainfleet_simulator.pai.monitor_dimensions import Filter, filters_of
from trainfleet_simulator.pai.monitor_metrics import Metric, PoolMetric
from trainfleet_simulator.pai.monitor_pages import Page, Pages
from trainfleet_simulator.pai.monitor_points import point_of, row_of
from trainfleet_simulator.pai.monitor_pools import PoolPoints
from trainfleet_simulator.pai.monitor_subjects import Moment, Subject, Subjects, places_at, served
from trainfleet_simulator.pai.parameters import Call, Query, choice_of, int_of, invalid, time_of
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job

_LOOK_BACK = 7200  # seconds: the largest age of a last point
_ROWS_LOGGED = 200
_DAY = 86_400
_LONGEST_RANGE = 31 * _DAY
_RETENTION = {60: 31 * _DAY, 300: 91 * _DAY, 900: 91 * _DAY}
"""Seconds for which points are kept, by period."""
_MOST_OF_A_RANGE = 1_000_000


@dataclass(slots=True)
class MonitorSettings:
    """The behaviour of CloudMonitor, which tests can change at any time.

    `without_dimensions` is the response of DescribeMetricLast without dimensions: `all` returns all points, `refused`
    is an error (400 ParameterInvalid), `empty` returns no point. `quota` is the number of calls of DescribeMetricLast
    and DescribeMetricList before the account's allowance is spent (400 Throttling.User); None is unlimited. `lag` is
    the number of seconds until a reading appears.
    """

    without_dimensions: str = "all"
    quota: int | None = None
    lag: float = 60


class Monitor:
    """The operations of CloudMonitor on one world."""

    def __init__(self, world: World, settings: MonitorSettings) -> None:
        self._world = world
        self._settings = settings
        self._places = Subjects(world)
        self._pools = PoolPoints(world, self._places)
        self._pages = Pages()
        self._ranges = Pages(kept=8)

    def describe_metric_meta_list(self, call: Call) -> Answer:
        """DescribeMetricMetaList: the catalogue. Counts and page numbers are text."""
        with_namespace = _required(call.query, "Namespace")
        number, size = int_of(call.query, "PageNumber", 1, 1_000_000), int_of(call.query, "PageSize", 30, 200)
        wanted = call.query.get("MetricName", "")
        found = [
            {
                "Namespace": with_namespace,
                "MetricName": metric.name,
                "Description": metric.name.replace("_", " ").lower(),
                "Unit": metric.unit,
                "Dimensions": ",".join(metrics.DIMENSIONS[metric.level]),
                "Periods": ",".join(map(str, metrics.PERIODS)),
                "Statistics": ",".join(metric.statistics),
                "Labels": "[]",
            }
            for metric in metrics.NAMESPACES.get(with_namespace, ())
            if wanted in {"", metric.name}
        ]
        page = found[(number - 1) * size : number * size]
        body: dict[str, Any] = {
            "Code": "200",
            "Success": True,
            "TotalCount": str(len(found)),
            "PageNumber": str(number),
            "PageSize": str(size),
            "Resources": {"Resource": page},
        }
        return Answer(body, total=len(found), rows=[[row["MetricName"], row["Unit"]] for row in page])

    def describe_metric_last(self, call: Call) -> Answer:
        """DescribeMetricLast: the last point of all things, or of those in Dimensions, including ended jobs.

        This operation is metered. Without StartTime, a point may be two hours old.
        """
        query, settings = call.query, self._settings
        self._meter()
        metric, period = _metric(query), _period(query)
        length = int_of(query, "Length", 1000, 1440)
        moment = self._moment(query, call.now, period)
        wanted = filters_of(query, metrics.DIMENSIONS[metric.level])
        if not wanted and settings.without_dimensions == "refused":
            raise ApiError(400, "ParameterInvalid", "The parameter Dimensions is required.")

        def find() -> Sequence[Subject | dict[str, Any]]:
            if not wanted and settings.without_dimensions == "empty":
                return ()
            if isinstance(metric, PoolMetric):
                return [point for point in self._pools.points(metric, moment) if _takes_point(wanted, point)]
            return self._last_places(metric, moment, wanted)

        return _answer(metric, period, self._pages.cut("last", call, find, length))

    def describe_metric_list(self, call: Call) -> Answer:
        """DescribeMetricList: the points of a range, open at its start and closed at its end, of at most 31 days.

        It shares the meter of DescribeMetricLast. Points older than the retention are missing.
        """
        query = call.query
        self._meter()
        metric, period = _metric(query), _period(query)
        length = int_of(query, "Length", 1000, 1440)
        start, end = _time(query, "StartTime"), _time(query, "EndTime")
        end = call.now if end is None else end
        start = end - 3600 if start is None else start
        if not 0 <= end - start <= _LONGEST_RANGE:
            raise invalid("StartTime", query.get("StartTime", ""), "a range of at most 31 days")
        wanted = filters_of(query, metrics.DIMENSIONS[metric.level])
        newest = int(min(call.now - self._settings.lag, end)) // period * period
        oldest = max(int(start), int(call.now) - _RETENTION[period])
        times = range((oldest // period + 1) * period, newest + 1, period)

        def find() -> Sequence[Subject | dict[str, Any]]:
            if not wanted and self._settings.without_dimensions == "empty":
                return ()
            if isinstance(metric, PoolMetric):
                return [
                    point
                    for at in times
                    for point in self._pools.points(metric, (at, at, period))
                    if _takes_point(wanted, point)
                ]
            found = [place for job in self._of_range(wanted, times) for place in _places_of(job, metric, times, wanted)]
            if len(found) > _MOST_OF_A_RANGE:
                raise invalid("StartTime", query.get("StartTime", ""), f"at most {_MOST_OF_A_RANGE} points")
            return found

        if not wanted and self._settings.without_dimensions == "refused":
            raise ApiError(400, "ParameterInvalid", "The parameter Dimensions is required.")
        return _answer(metric, period, self._ranges.cut("list", call, find, length))

    def _meter(self) -> None:
        """Count one call of those that share the account's allowance."""
        settings = self._settings
        if settings.quota is not None:
            if settings.quota <= 0:
                raise ApiError(400, "Throttling.User", "user api quota limit")
            settings.quota -= 1

    def _of_range(self, wanted: tuple[Filter, ...], times: range) -> Sequence[Job]:
        """Return the jobs that may have points: the named ones, or all that lived at these times."""
        jobs: Iterable[Job] = self._world.jobs.values()
        if wanted and all("jobId" in one for one in wanted):
            jobs = [
                job for name in dict.fromkeys(one["jobId"] for one in wanted) if (job := self._world.jobs.get(name))
            ]
        return [
            job
            for job in jobs
            if times
            and served(job)
            and self._world.shows(job)
            and job.created <= times[-1]
            and (job.finished is None or job.finished >= times[0])
        ]

    def _moment(self, query: Query, now: float, period: int) -> Moment:
        """Return the time of the newest point. The range is open at its start and closed at its end, and has at most
        two hours."""
        end = _time(query, "EndTime")
        end = now if end is None else min(end, now)
        start = _time(query, "StartTime")
        since = max(end - _LOOK_BACK, end - _LOOK_BACK if start is None else start)
        newest = int(min(now - self._settings.lag, end)) // period * period
        return newest, (int(since) // period + 1) * period, period

    def _last_places(self, metric: Metric, moment: Moment, wanted: tuple[Filter, ...]) -> Sequence[Subject]:
        if wanted and all("jobId" in one for one in wanted):
            ids = dict.fromkeys(one["jobId"] for one in wanted)
            jobs = [job for job in map(self._world.shown, ids) if job is not None]
            places = self._places.of(jobs, metric.level, moment, of_cards=metric.of_cards)
        else:
            places = self._places.everybody(metric.level, moment, of_cards=metric.of_cards)
            if self._world.hidden:
                places = [place for place in places if self._world.shows(place.job)]
        return [place for place in places if _takes_place(wanted, place)] if wanted else places


def in_its_own_words(operate: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
    """Use CloudMonitor's own error code for an invalid parameter."""

    def answer(call: Call) -> Answer:
        try:
            return operate(call)
        except ApiError as error:
            if error.code != "InvalidParameter":
                raise
            raise ApiError(error.status, "ParameterInvalid", error.message) from None

    return answer


def _required(query: Query, name: str) -> str:
    if not query.get(name):
        raise ApiError(400, f"Missing{name}", f"The parameter {name} is mandatory.")
    return query[name]


def _metric(query: Query) -> Metric | PoolMetric:
    namespace, name = _required(query, "Namespace"), _required(query, "MetricName")
    for metric in metrics.NAMESPACES.get(namespace, ()):
        if metric.name == name:
            return metric
    raise ApiError(404, "ResourceNotFound", "The specified metric is not found.")


def _period(query: Query) -> int:
    return int(choice_of(query, "Period", tuple(map(str, metrics.PERIODS)), "60"))


def _time(query: Query, name: str) -> float | None:
    """Parse Unix milliseconds or UTC time as text; return Unix seconds."""
    text = query.get(name, "")
    if len(text) == 13 and text.isascii() and text.isdigit():
        return int(text) / 1000
    return time_of(query, name)


def _places_of(job: Job, metric: Metric, times: range, wanted: tuple[Filter, ...]) -> list[Subject]:
    """Yield a job's points at these times: one thing after the other, each from its oldest point on."""
    by_job = all(set(one) == {"jobId"} for one in wanted)  # it is one of the named jobs
    places = [
        place
        for at in times
        if at >= job.created and (job.finished is None or at <= job.finished)
        for place in places_at(job, metric.level, at, of_cards=metric.of_cards)
        if by_job or _takes_place(wanted, place)
    ]
    if metric.level != "job":
        places.sort(key=lambda place: (place.pods[0].pod_id, place.card or 0))
    return places


def _takes_place(wanted: tuple[Filter, ...], place: Subject) -> bool:
    facts = {"jobId": place.job.job_id, "workspaceId": place.job.draft.workspace_id}
    if len(place.pods) == 1:
        facts["pod"] = place.pods[0].pod_id
    if place.card is not None:
        facts["gpuId"] = str(place.card)
    return _takes_point(wanted, facts)


def _takes_point(wanted: tuple[Filter, ...], facts: dict[str, Any]) -> bool:
    return not wanted or any(all(facts.get(name) == value for name, value in one.items()) for one in wanted)


def _answer(
    metric: Metric | PoolMetric, period: int, page: Page[Subject | dict[str, Any]], *, key: str = "Datapoints"
) -> Answer:
    points = []
    for one in page.items:
        point = point_of(metric, one, period) if isinstance(one, Subject) and isinstance(metric, Metric) else one
        if isinstance(point, dict):
            points.append(point)
    body: dict[str, Any] = {"Code": "200", "Success": True, "Message": "", "Period": str(period)}
    if page.token:
        body["NextToken"] = page.token
    return Answer(
        body | {key: json.dumps(points, separators=(",", ":"))},
        total=page.total,
        rows=[row_of(metric.name, point) for point in points[:_ROWS_LOGGED]],
        no_data=not points,
    )
