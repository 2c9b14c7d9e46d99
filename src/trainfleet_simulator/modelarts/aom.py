"""The simulated AOM: the query API of Prometheus for samples from nodes of dedicated pools.

It reads a selector (`name{label="value",other=~"expression"}`), perhaps within `last_over_time(…[10m])` and within
`avg by (label, …) (…)`. It rejects other queries.
https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html and related pages.
"""

from __future__ import annotations

import json
import re
from statistics import fmean
from typing import Any, NamedTuple

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.modelarts.aom_samples import METRICS, Aom, Point, Samples
from trainfleet_simulator.world.fleet import World

_MATCHER = r'(\w+)(=~?)("(?:[^"\\]|\\.)*")'
_UNNAMED = _MATCHER.replace("(\\w", "(?:\\w").replace("(=", "(?:=").replace('("', '(?:"')
_QUERY = re.compile(
    r"(?P<group>avg by \((?P<by>[\w, ]*)\) \()?(?P<over>last_over_time\()?"
    rf"(?P<metric>[A-Za-z_:][\w:]*)(?:\{{(?P<matchers>(?:{_UNNAMED},?)*)\}})?"
    r"(?(over)\[(?P<window>[1-9]\d{0,4})(?P<unit>[sm])\]\))(?(group)\))",
    re.ASCII,
)
_UNITS = {"s": 1, "m": 60}
_LOOKBACK = 300  # seconds that a sample is the current one, if the query has no window
_REMEMBERED = 600  # seconds for which names of metrics can be found
_MOST_STEPS = 11_000  # of one range, as in Prometheus
_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


class Query(NamedTuple):
    """A parsed query. `window` is in seconds. Without `by`, nothing is aggregated."""

    metric: str
    matchers: tuple[tuple[str, re.Pattern[str]], ...]
    window: int
    by: tuple[str, ...] | None


def read_query(text: str) -> Query | None:
    """Parse a whole query; None if it is not supported."""
    found = _QUERY.fullmatch(text)
    if found is None:
        return None
    try:
        matchers = tuple(
            (label, re.compile(json.loads(value) if comparison == "=~" else re.escape(json.loads(value)), re.ASCII))
            for label, comparison, value in re.findall(_MATCHER, found["matchers"] or "")
        )
    except (ValueError, re.error):
        return None
    window = int(found["window"]) * _UNITS[found["unit"]] if found["over"] else _LOOKBACK
    by = tuple(sorted(set(re.findall(r"\w+", found["by"])))) if found["group"] else None
    return Query(found["metric"], matchers, window, by)


class AomApi:
    """The operations. They remember the samples of the last minutes."""

    def __init__(self, aom: Aom, world: World) -> None:
        self._aom = aom
        self._samples = Samples(world)

    def query(self, call: Call) -> Answer:
        """POST or GET …/aom/api/v1/query: the newest sample of each series or group. Parameters are in the URL."""
        query = _read(call)
        when = _seconds(call, "time") if call.text("time") else call.now
        rows = [
            {"metric": labels, "value": [_stamp(when), _text(value)]}
            for labels, value in self._result(call, query, when)
        ]
        return _answer("vector", rows)

    def query_range(self, call: Call) -> Answer:
        """POST or GET …/aom/api/v1/query_range: the same at every step of a range, both ends included."""
        query = _read(call)
        start, end, step = (_seconds(call, name) for name in ("start", "end", "step"))
        if end < start or step <= 0 or (end - start) / step > _MOST_STEPS:
            raise call.invalid("end", f"not before the start, and at most {_MOST_STEPS} points per timeseries")
        series: dict[tuple[tuple[str, str], ...], list[list[float | str]]] = {}
        for number in range(int((end - start) // step) + 1):
            when = start + number * step
            for labels, value in self._result(call, query, when):
                series.setdefault(tuple(labels.items()), []).append([_stamp(when), _text(value)])
        return _answer("matrix", [{"metric": dict(labels), "values": values} for labels, values in series.items()])

    def names(self, call: Call) -> Answer:
        """GET …/aom/api/v1/label/__name__/values: the metrics that have series."""
        until, after = call.now - self._aom.lag, call.now - _REMEMBERED
        data = sorted(metric for metric in METRICS if self._samples.newest(metric, until, after))
        return Answer({"status": "success", "data": data})

    def _result(self, call: Call, query: Query, when: float) -> list[Point]:
        """Return labels and values at one time."""
        # A delayed sample does not count. The look-back of a query does not depend on the delay.
        until = min(when, call.now - self._aom.lag)
        points = self._samples.newest(query.metric, until, when - query.window)
        if call.world.hidden:  # series without a job have no workspace
            gone = {job.job_id for job in call.world.jobs.values() if not call.world.shows(job)}
            points = [point for point in points if point[0]["service_id"] not in gone]
        if renamed := self._aom.renamed:
            points = [
                (dict(sorted((renamed.get(name, name), text) for name, text in labels.items())), value)
                for labels, value in points
            ]
        points = [
            point
            for point in points
            if all(wanted.fullmatch(point[0].get(label, "")) for label, wanted in query.matchers)
        ]
        if query.by is None:
            # Only here, where nothing is computed, a function over a window keeps the name of the metric.
            return [({"__name__": query.metric, **labels}, value) for labels, value in points]
        groups: dict[tuple[tuple[str, str], ...], list[float]] = {}
        for labels, value in points:
            key = tuple((label, labels[label]) for label in query.by if labels.get(label))
            groups.setdefault(key, []).append(value)
        return [(dict(key), fmean(values)) for key, values in groups.items()]


def _read(call: Call) -> Query:
    query = read_query(call.text("query"))
    if query is None:
        wanted = "a selector is wanted, perhaps within last_over_time and an aggregation by labels"
        raise ApiError(400, "bad_data", f'invalid parameter "query": parse error: {wanted}')
    return query


def metric_of(text: str) -> str:
    """Return the metric of a query; empty if it cannot be read."""
    query = read_query(text)
    return "" if query is None else query.metric


def _answer(kind: str, rows: list[dict[str, Any]]) -> Answer:
    return Answer({"status": "success", "data": {"resultType": kind, "result": rows}})


def _stamp(when: float) -> float:
    return int(when) if when.is_integer() else round(when, 3)


def _seconds(call: Call, name: str) -> float:
    if not _TIME.fullmatch(call.text(name)):
        raise call.invalid(name, "a number of seconds")
    return float(call.text(name))


def _text(value: float) -> str:
    return f"{round(value, 6):.15g}"
