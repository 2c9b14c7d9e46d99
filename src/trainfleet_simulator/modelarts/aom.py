"""The simulated AOM: the query API of Prometheus for samples from nodes of dedicated pools.

It reads a selector (`name{label="value", other=~"expression"}`), a selector within `last_over_time(…[10m])`, and either
of the two within `avg|sum|max by (label, …) (…)`. It rejects other queries.
https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html and related pages.
https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.modelarts.aom_samples import METRICS, Aom, Point, Samples

_LABEL = r"[A-Za-z_][A-Za-z0-9_]*"
_MATCHER = rf'\s*({_LABEL})\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\.)*)"\s*(?:,|$)'
_UNNAMED = re.sub(r"\((?!\?)", "(?:", _MATCHER).replace("$", r"(?=\})")
_SELECTOR = rf"\s*(?P<metric>[A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{{(?P<matchers>(?:{_UNNAMED})*\s*)\}}\s*)?"
_INSTANT = (
    rf"(?P<over>\s*last_over_time\s*\()?{_SELECTOR}"
    r"(?(over)\[ *(?P<window>[0-9]{1,6})(?P<unit>[smhd]) *\]\s*\)\s*)"
)
_QUERY = re.compile(
    rf"(?P<group>\s*(?P<aggregation>avg|sum|max)\s*by\s*\((?P<by>(?:\s*{_LABEL}\s*(?:,|(?=\))))*\s*)\)\s*\()?"
    rf"{_INSTANT}(?(group)\)\s*)"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\'": "'", "\\n": "\n", "\\r": "\r", "\\t": "\t"}
_KEYWORDS = {"avg", "sum", "max", "by", "last_over_time"}
_LONGEST_WINDOW = 86400  # seconds
_EXPRESSION = re.compile(r"(?:(?:[\w/:@ =|-]|\\[dwsDWS.*+?(){}|^$\[\]\\/-]|\.)[*+?]?)*", re.ASCII)
"""The part of regular expressions that all dialects share and that always ends quickly: without groups."""


class Refused(ValueError):
    """The query is not supported."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on a label. A missing label is empty."""

    label: str
    value: str
    expression: re.Pattern[str] | None = None
    negated: bool = False

    def fits(self, value: str) -> bool:
        """Return whether the label's value is accepted."""
        found = self.value == value if self.expression is None else self.expression.fullmatch(value) is not None
        return found is not self.negated


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. `window` is in seconds, and None without `last_over_time`."""

    metric: str
    matchers: tuple[Matcher, ...] = ()
    window: int | None = None
    aggregation: str = ""
    by: tuple[str, ...] = ()


def read_query(text: str) -> Query:
    """Parse a whole query. Raises only Refused."""
    found = _QUERY.fullmatch(text)
    if found is None or found["metric"] in _KEYWORDS:
        raise Refused("a selector is wanted, perhaps within last_over_time and an aggregation by labels")
    window = None if found["window"] is None else int(found["window"]) * _UNITS[found["unit"]]
    if window is not None and not 0 < window <= _LONGEST_WINDOW:
        raise Refused("a duration of at most a day is wanted")
    matchers = tuple(_matcher(*parts) for parts in re.findall(_MATCHER, found["matchers"] or ""))
    by = tuple(dict.fromkeys(re.findall(_LABEL, found["by"] or "")))
    return Query(found["metric"], matchers, window, found["aggregation"] or "", by)


def _matcher(label: str, comparison: str, text: str) -> Matcher:
    escapes = set(re.findall(r"\\.", text))
    if label == "__name__" or not escapes <= _ESCAPES.keys():
        raise Refused("a label other than __name__ and a text without unknown escapes are wanted")
    value = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], text)
    expression = None
    if comparison.endswith("~"):
        if not _EXPRESSION.fullmatch(value):
            raise Refused("a simple regular expression is wanted")
        try:
            expression = re.compile(value, re.ASCII | re.DOTALL)
        except re.error:
            raise Refused("a regular expression is wanted") from None
    return Matcher(label, value, expression, comparison.startswith("!"))


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

    def _result(self, call: Call, query: Query, when: float) -> list[Point]:
        """Return labels and values at one time."""
        points = self._fitting(call, query, when, query.window or _LOOKBACK)
        if query.aggregation:
            return self._aggregated(points, query)
        # Only here, where nothing is computed, a function over a window keeps the name of the metric.
        return [({"__name__": query.metric, **self._shown(labels)}, value) for labels, value in points]

    def _fitting(self, call: Call, query: Query, when: float, window: int) -> list[Point]:
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

    def _aggregated(self, points: list[Point], query: Query) -> list[Point]:
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
        return read_query(text).metric
    except Refused:
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


def _read(call: Call) -> Query:
    try:
        return read_query(call.text("query"))
    except Refused as error:
        raise ApiError(400, "bad_data", f'invalid parameter "query": parse error: {error}') from None
