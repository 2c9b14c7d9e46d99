"""The simulated AOM: the query API of Prometheus for samples from nodes of dedicated pools.

https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html and related pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.modelarts import promql
from trainfleet_simulator.modelarts.aom_samples import METRICS, Aom, Point, Samples

_LOOKBACK = 300  # seconds that a sample is the current one, if the query has no window
_REMEMBERED = 600  # seconds for which names of metrics can be found
_MOST_STEPS = 11_000  # of one range, as in Prometheus
_FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "avg": lambda values: sum(values) / len(values),
    "sum": sum,
    "max": max,
}
_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


class AomApi:
    """The operations. They remember the samples of the last minutes."""

    def __init__(self, aom: Aom) -> None:
        self._aom = aom
        self._samples = Samples()

    def query(self, call: Call) -> Answer:
        """POST or GET …/aom/api/v1/query: the newest sample of each series or group. Parameters are in the URL."""
        self._check()
        query = _read(call)
        when = _seconds(call, "time") if call.text("time") else call.now
        rows = [
            {"metric": labels, "value": [_stamp(when), _text(value)]}
            for labels, value in self._result(call, query, when)
        ]
        return _answer("vector", rows)

    def query_range(self, call: Call) -> Answer:
        """POST or GET …/aom/api/v1/query_range: the same at every step of a range, both ends included."""
        self._check()
        query = _read(call)
        start, end, step = (_seconds(call, name) for name in ("start", "end", "step"))
        if end < start or step <= 0:
            raise call.invalid("end", "not before the start")
        if (end - start) / step > _MOST_STEPS:
            raise call.invalid("step", f"at most {_MOST_STEPS} points per timeseries")
        series: dict[tuple[tuple[str, str], ...], list[list[float | str]]] = {}
        for number in range(int((end - start) // step) + 1):
            when = start + number * step
            for labels, value in self._result(call, query, when):
                series.setdefault(tuple(labels.items()), []).append([_stamp(when), _text(value)])
        return _answer("matrix", [{"metric": dict(labels), "values": values} for labels, values in series.items()])

    def names(self, call: Call) -> Answer:
        """GET …/aom/api/v1/label/__name__/values: the metrics that have series."""
        self._check()
        until, after = call.now - self._aom.lag, call.now - _REMEMBERED
        known = set(METRICS) - self._aom.hidden
        data = sorted(metric for metric in known if self._samples.exists(call.world, metric, until, after))
        return Answer({"status": "success", "data": data}, no_data=not data)

    def _check(self) -> None:
        if self._aom.refused:
            raise ApiError(403, "forbidden", "aom:metric:list is not allowed")

    def _result(self, call: Call, query: promql.Query, when: float) -> list[Point]:
        """Return labels and values at one time."""
        points = self._fitting(call, query, when, query.window or _LOOKBACK)
        if query.aggregation:
            return self._aggregated(points, query)
        # Only here, where nothing is computed, a function over a window keeps the name of the metric.
        return [({"__name__": query.metric, **self._shown(labels)}, value) for labels, value in points]

    def _fitting(self, call: Call, query: promql.Query, when: float, window: int) -> list[Point]:
        if query.metric in self._aom.hidden:
            return []
        # A delayed sample does not count. The look-back of a query does not depend on the delay.
        points = self._samples.newest(call.world, query.metric, min(when, call.now - self._aom.lag), when - window)
        if call.world.hidden:  # series without a job have no workspace
            gone = {job.job_id for job in call.world.jobs.values() if not call.world.shows(job)}
            points = [point for point in points if point[0]["service_id"] not in gone]
        wanted = [(self._own(matcher.label), matcher) for matcher in query.matchers]
        if not wanted:
            return points
        return [point for point in points if all(matcher.fits(point[0].get(own, "")) for own, matcher in wanted)]

    def _own(self, label: str) -> str:
        """Return the simulator's own name of a label. The old name of a renamed label is unknown."""
        for own, shown in self._aom.renamed.items():
            if shown == label:
                return own
        return "" if label in self._aom.renamed else label

    def _shown(self, labels: Mapping[str, str]) -> dict[str, str]:
        if not self._aom.renamed:
            return dict(labels)
        return dict(sorted((self._aom.renamed.get(name, name), value) for name, value in labels.items()))

    def _aggregated(self, points: list[Point], query: promql.Query) -> list[Point]:
        by = sorted(query.by)
        own = [self._own(label) for label in by]
        groups: dict[tuple[str, ...], list[float]] = {}
        for labels, value in points:
            groups.setdefault(tuple(labels.get(name, "") for name in own), []).append(value)
        function = _FUNCTIONS[query.aggregation]
        return [
            ({label: value for label, value in zip(by, key, strict=True) if value}, function(values))
            for key, values in groups.items()
        ]


def metric_of(text: str) -> str:
    """Return the metric of a query; empty if it cannot be read."""
    try:
        return promql.read(text).metric
    except promql.Refused:
        return ""


def _answer(kind: str, rows: list[dict[str, Any]]) -> Answer:
    return Answer({"status": "success", "data": {"resultType": kind, "result": rows}}, no_data=not rows)


def _stamp(when: float) -> float:
    return int(when) if when.is_integer() else round(when, 3)


def _seconds(call: Call, name: str) -> float:
    if not _TIME.fullmatch(call.text(name)):
        raise call.invalid(name, "a number of seconds")
    return float(call.text(name))


def _text(value: float) -> str:
    return f"{round(value, 6):.15g}"


def _read(call: Call) -> promql.Query:
    try:
        return promql.read(call.text("query"))
    except promql.Refused as error:
        raise ApiError(400, "bad_data", f'invalid parameter "query": parse error: {error}') from None
