"""The simulated CloudMonitor (version 2019-01-01).

https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclast
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.pages import Pages
from trainfleet_simulator.pai import monitor_metrics as metrics
from trainfleet_simulator.pai.monitor_metrics import Metric, PoolMetric
from trainfleet_simulator.pai.monitor_points import (
    Moment,
    PoolPoints,
    Subject,
    Subjects,
    facts_of,
    places_at,
    point_of,
    served,
)
from trainfleet_simulator.pai.parameters import time_of
from trainfleet_simulator.pai.sts import required
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job

LAG = 60
"""Seconds until a reading appears."""
_LOOK_BACK = 7200  # seconds: the largest age of a last point
_DAY = 86_400
_LONGEST_RANGE = 31 * _DAY
_RETENTION = {60: 31 * _DAY, 300: 91 * _DAY, 900: 91 * _DAY}
"""Seconds for which points are kept, by period."""
_MOST_OF_A_RANGE = 1_000_000
_MOST_DIMENSIONS = 50
_QUESTION = ("Namespace", "MetricName", "Period", "Dimensions", "StartTime", "EndTime")
"""Parameters that must be the same for the later pages."""

Filter = Mapping[str, str]
"""Names and values that a point must have."""
Point = dict[str, Any]


class Monitor:
    """The operations of CloudMonitor on one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._places = Subjects(world)
        self._pools = PoolPoints(world, self._places)
        self._pages: dict[str, Pages[Subject | Point]] = {"last": Pages(4096, 300), "list": Pages(8, 300)}

    def describe_metric_meta_list(self, call: Call) -> Answer:
        """DescribeMetricMetaList: the catalogue. Counts and page numbers are text."""
        namespace, wanted = required(call, "Namespace"), call.text("MetricName")
        number, size = call.whole("PageNumber", 1, 1, 1_000_000), call.whole("PageSize", 30, 1, 200)
        found = [
            {
                "Namespace": namespace,
                "MetricName": metric.name,
                "Description": metric.name.replace("_", " ").lower(),
                "Unit": metric.unit,
                "Dimensions": ",".join(metrics.DIMENSIONS[metric.level]),
                "Periods": ",".join(map(str, metrics.PERIODS)),
                "Statistics": ",".join(metric.statistics),
                "Labels": "[]",
            }
            for metric in metrics.NAMESPACES.get(namespace, ())
            if wanted in {"", metric.name}
        ]
        body: dict[str, Any] = {
            "Code": "200",
            "Success": True,
            "TotalCount": str(len(found)),
            "PageNumber": str(number),
            "PageSize": str(size),
            "Resources": {"Resource": found[(number - 1) * size : number * size]},
        }
        return Answer(body)

    def describe_metric_last(self, call: Call) -> Answer:
        """DescribeMetricLast: the last point of all things, or of those in Dimensions, including ended jobs.

        Without StartTime, a point may be two hours old.
        """
        metric, period = _metric(call), _period(call)
        end = _time(call, "EndTime")
        end = call.now if end is None else min(end, call.now)
        start = _time(call, "StartTime")
        since = max(end - _LOOK_BACK, end - _LOOK_BACK if start is None else start)
        # The range is open at its start and closed at its end.
        newest = int(min(call.now - LAG, end)) // period * period
        moment = newest, (int(since) // period + 1) * period, period
        wanted = _filters(call, metric)

        def find() -> Sequence[Subject | Point]:
            if isinstance(metric, PoolMetric):
                return [point for point in self._pools.points(metric, moment) if _fits(wanted, point)]
            return self._last_places(metric, moment, wanted)

        return self._answer("last", call, metric, period, find)

    def describe_metric_list(self, call: Call) -> Answer:
        """DescribeMetricList: the points of a range, open at its start and closed at its end, of at most 31 days.

        Points older than the retention are missing.
        """
        metric, period = _metric(call), _period(call)
        start, end = _time(call, "StartTime"), _time(call, "EndTime")
        end = call.now if end is None else end
        start = end - 3600 if start is None else start
        if not 0 <= end - start <= _LONGEST_RANGE:
            raise call.invalid("StartTime", "a range of at most 31 days")
        wanted = _filters(call, metric)
        newest = int(min(call.now - LAG, end)) // period * period
        oldest = max(int(start), int(call.now) - _RETENTION[period])
        times = range((oldest // period + 1) * period, newest + 1, period)

        def find() -> Sequence[Subject | Point]:
            if isinstance(metric, PoolMetric):
                points = (point for at in times for point in self._pools.points(metric, (at, at, period)))
                return [point for point in points if _fits(wanted, point)]
            found = [place for job in self._of_range(wanted, times) for place in _places_of(job, metric, times, wanted)]
            if len(found) > _MOST_OF_A_RANGE:
                raise call.invalid("StartTime", f"at most {_MOST_OF_A_RANGE} points")
            return found

        return self._answer("list", call, metric, period, find)

    def _answer(
        self,
        operation: str,
        call: Call,
        metric: Metric | PoolMetric,
        period: int,
        find: Callable[[], Sequence[Subject | Point]],
    ) -> Answer:
        length, question = call.whole("Length", 1000, 1, 1440), tuple(map(call.text, _QUESTION))
        page = self._pages[operation].cut(call.text("NextToken"), length, find, question=question, now=call.now)
        if page is None:
            raise call.invalid("NextToken", "a token of this list")
        made = (one if isinstance(one, dict) else point_of(cast("Metric", metric), one, period) for one in page.items)
        points = [point for point in made if point is not None]
        body = {"Code": "200", "Success": True, "Message": "", "Period": str(period)}
        if page.token:
            body["NextToken"] = page.token
        return Answer(body | {"Datapoints": json.dumps(points, separators=(",", ":"))}, no_data=not points)

    def _of_range(self, wanted: Sequence[Filter], times: range) -> Iterable[Job]:
        """Return the jobs that may have points: the named ones, or all that lived at these times."""
        for job in self._named(wanted):
            lived = times and job.created <= times[-1] and (job.finished is None or job.finished >= times[0])
            if lived and served(job) and self._world.shows(job):
                yield job

    def _named(self, wanted: Sequence[Filter]) -> Iterable[Job]:
        """Return the jobs that the filters name; all jobs if a filter names none."""
        if not wanted or not all("jobId" in one for one in wanted):
            return self._world.jobs.values()
        found = map(self._world.shown, dict.fromkeys(one["jobId"] for one in wanted))
        return [job for job in found if job is not None]

    def _last_places(self, metric: Metric, moment: Moment, wanted: Sequence[Filter]) -> Sequence[Subject]:
        if wanted and all("jobId" in one for one in wanted):
            places = self._places.of(self._named(wanted), metric.level, moment, of_cards=metric.of_cards)
        else:
            places = self._places.everybody(metric.level, moment, of_cards=metric.of_cards)
        if wanted or self._world.hidden:
            return [place for place in places if self._world.shows(place.job) and _fits(wanted, facts_of(place))]
        return places


def _filters(call: Call, metric: Metric | PoolMetric) -> Sequence[Filter]:
    """Return one filter for each object of Dimensions; a point must fit one of them. Raises ApiError."""
    text, known = call.text("Dimensions"), metrics.DIMENSIONS[metric.level]
    if not text:
        return ()
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    objects = [given] if isinstance(given, dict) else given
    if not isinstance(objects, list) or len(objects) > _MOST_DIMENSIONS:
        raise call.invalid("Dimensions", f"a JSON object, or a list of at most {_MOST_DIMENSIONS}")
    for one in objects:
        if not isinstance(one, dict) or not all(name in known and isinstance(one[name], str) for name in one):
            raise call.invalid("Dimensions", f"objects of text by {', '.join(known)}")
    return objects


def _metric(call: Call) -> Metric | PoolMetric:
    namespace, name = required(call, "Namespace"), required(call, "MetricName")
    for metric in metrics.NAMESPACES.get(namespace, ()):
        if metric.name == name:
            return metric
    raise ApiError(404, "ResourceNotFound", "The specified metric is not found.")


def _period(call: Call) -> int:
    return int(call.choice("Period", tuple(map(str, metrics.PERIODS)), "60"))


def _time(call: Call, name: str) -> float | None:
    """Parse Unix milliseconds or UTC time as text; return Unix seconds."""
    text = call.text(name)
    if len(text) == 13 and text.isascii() and text.isdigit():
        return int(text) / 1000
    return time_of(call, name)


def _places_of(job: Job, metric: Metric, times: range, wanted: Sequence[Filter]) -> list[Subject]:
    """Return a job's points at these times: one thing after the other, each from its oldest point on."""
    by_job = all(set(one) == {"jobId"} for one in wanted)  # it is one of the named jobs
    places = [
        place
        for at in times
        if at >= job.created and (job.finished is None or at <= job.finished)
        for place in places_at(job, metric.level, at, of_cards=metric.of_cards)
        if by_job or _fits(wanted, facts_of(place))
    ]
    if metric.level != "job":
        places.sort(key=lambda place: (place.pods[0].pod_id, place.card or 0))
    return places


def _fits(wanted: Sequence[Filter], facts: Mapping[str, Any]) -> bool:
    return not wanted or any(all(facts.get(name) == value for name, value in one.items()) for one in wanted)
