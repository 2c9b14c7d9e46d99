"""The simulated CloudMonitor (version 2019-01-01).

https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclast
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.pages import Pages
from trainfleet_simulator.pai import monitor_metrics as metrics
from trainfleet_simulator.pai.monitor_metrics import Metric
from trainfleet_simulator.pai.monitor_points import Points, Subject, facts_of, last_of, point_of, served, subjects_at
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
        self._points = Points(world)
        self._pages: dict[str, Pages[Subject | Point]] = {"last": Pages(4096), "list": Pages(8)}

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
        metric, period, wanted = _asked(call)
        end = min(_time(call, "EndTime", call.now), call.now)
        since = max(end - _LOOK_BACK, _time(call, "StartTime", 0))
        # The range is open at its start and closed at its end.
        moment = int(min(call.now - LAG, end)) // period * period, (int(since) // period + 1) * period, period

        def find() -> Sequence[Subject | Point]:
            if metric.level == "quota":
                return self._of_quotas(metric, moment[:1] if moment[0] >= moment[1] else (), period, wanted)
            jobs = self._named(wanted)
            found = self._points.last(metric.kind, moment) if jobs is None else last_of(jobs, metric.kind, moment)
            if not wanted and not self._world.hidden:
                return found
            return [place for place in found if self._world.shows(place.job) and _fits(wanted, facts_of(place))]

        return self._answer("last", call, metric, period, find)

    def describe_metric_list(self, call: Call) -> Answer:
        """DescribeMetricList: the points of a range, open at its start and closed at its end, of at most 31 days.

        Points older than the retention are missing.
        """
        metric, period, wanted = _asked(call)
        end = _time(call, "EndTime", call.now)
        start = _time(call, "StartTime", end - 3600)
        if not 0 <= end - start <= _LONGEST_RANGE:
            raise call.invalid("StartTime", "a range of at most 31 days")
        newest = int(min(call.now - LAG, end)) // period * period
        oldest = max(int(start), int(call.now) - _RETENTION[period])
        times = range((oldest // period + 1) * period, newest + 1, period)

        def find() -> Sequence[Subject | Point]:
            if metric.level == "quota":
                return self._of_quotas(metric, times, period, wanted)
            jobs = self._named(wanted)
            return [
                place
                for job in (self._world.jobs.values() if jobs is None else jobs)
                if served(job) and self._world.shows(job)
                for place in _of_range(job, metric, times, wanted)
            ]

        return self._answer("list", call, metric, period, find)

    def _answer(
        self, operation: str, call: Call, metric: Metric, period: int, find: Callable[[], Sequence[Subject | Point]]
    ) -> Answer:
        length, question = call.whole("Length", 1000, 1, 1440), tuple(map(call.text, _QUESTION))
        page = self._pages[operation].cut(call.text("NextToken"), length, find, question=question)
        if page is None:
            raise call.invalid("NextToken", "a token of this list")
        made = (one if isinstance(one, dict) else point_of(metric, one, period) for one in page[0])
        points = [point for point in made if point is not None]
        body = {"Code": "200", "Success": True, "Message": "", "Period": str(period)}
        if page[1]:
            body["NextToken"] = page[1]
        return Answer(body | {"Datapoints": json.dumps(points, separators=(",", ":"))})

    def _of_quotas(self, metric: Metric, times: Iterable[int], period: int, wanted: Sequence[Filter]) -> list[Point]:
        points = (point for at in times for point in self._points.of_quotas(metric, at, period))
        return [point for point in points if _fits(wanted, point)]

    def _named(self, wanted: Sequence[Filter]) -> list[Job] | None:
        """Return the jobs that the filters name; None if a filter names none, or there is no filter."""
        if not wanted or not all("jobId" in one for one in wanted):
            return None
        found = map(self._world.shown, dict.fromkeys(one["jobId"] for one in wanted))
        return [job for job in found if job is not None]


def _asked(call: Call) -> tuple[Metric, int, Sequence[Filter]]:
    """Return the metric, the period in seconds, and the filters: a point must fit one of them. Raises ApiError."""
    namespace, name = required(call, "Namespace"), required(call, "MetricName")
    metric = next((metric for metric in metrics.NAMESPACES.get(namespace, ()) if metric.name == name), None)
    if metric is None:
        raise ApiError(404, "ResourceNotFound", "The specified metric is not found.")
    period = int(call.choice("Period", tuple(map(str, metrics.PERIODS)), "60"))
    try:
        given = json.loads(call.text("Dimensions", "[]"))
    except ValueError:
        given = None
    wanted, known = [given] if isinstance(given, dict) else given, set(metrics.DIMENSIONS[metric.level])
    if (
        not isinstance(wanted, list)
        or len(wanted) > _MOST_DIMENSIONS
        or not all(isinstance(one, dict) and one.keys() <= known for one in wanted)
    ):
        raise call.invalid("Dimensions", f"at most {_MOST_DIMENSIONS} JSON objects of {', '.join(known)}")
    return metric, period, wanted


def _time(call: Call, name: str, default: float) -> float:
    """Parse Unix milliseconds or UTC time as text; return Unix seconds."""
    text = call.text(name)
    if len(text) == 13 and text.isascii() and text.isdigit():
        return int(text) / 1000
    found = time_of(call, name)
    return default if found is None else found


def _of_range(job: Job, metric: Metric, times: range, wanted: Sequence[Filter]) -> list[Subject]:
    """Return a job's points at these times: one thing after the other, each from its oldest point on."""
    if not times or job.created > times[-1] or (job.finished is not None and job.finished < times[0]):
        return []
    by_job = all(set(one) == {"jobId"} for one in wanted)  # it is one of the named jobs
    places = [
        place
        for at in times
        if at >= job.created and (job.finished is None or at <= job.finished)
        for place in subjects_at(job, metric.kind, at)
        if by_job or _fits(wanted, facts_of(place))
    ]
    if metric.level != "job":
        places.sort(key=lambda place: (place.pods[0].pod_id, place.card or 0))
    return places


def _fits(wanted: Sequence[Filter], facts: Mapping[str, Any]) -> bool:
    return not wanted or any(all(facts.get(name) == value for name, value in one.items()) for one in wanted)
