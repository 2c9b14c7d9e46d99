"""The simulated AOM: the query API of Prometheus for samples from nodes of dedicated pools.

https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html and related pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.modelarts import promql
from trainfleet_simulator.modelarts.aom_samples import METRICS, Aom, Point
from trainfleet_simulator.modelarts.parameters import Call

_LOOKBACK = 300  # seconds that a sample is the current one, if the query has no window
_REMEMBERED = 600  # seconds for which names of metrics can be found
_ROWS = 200  # of a response, in the log
_MOST_STEPS = 11_000  # of one range, as in Prometheus
_FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "avg": lambda values: sum(values) / len(values),
    "sum": sum,
    "max": max,
}
_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


def list_instant_query_aom_prom(call: Call) -> Answer:
    """POST or GET …/aom/api/v1/query: the newest sample of each series or group. Parameters are in the URL."""
    _check(call)
    query = _read(call.text("query"))
    at = call.text("time")
    if at and not _TIME.fullmatch(at):
        raise _bad('invalid parameter "time": Unix seconds are wanted')
    when = float(at or call.now)
    result = _result(call, query, when)
    stamp = _stamp(when)
    answers = [{"metric": labels, "value": [stamp, _text(value)]} for labels, value in result]
    return Answer(
        {"status": "success", "data": {"resultType": "vector", "result": answers}},
        total=len(answers),
        rows=[[*labels.values(), _text(value)] for labels, value in result[:_ROWS]],
        no_data=not answers,
    )


def list_range_query_aom_prom(call: Call) -> Answer:
    """POST or GET …/aom/api/v1/query_range: the same at every step of a range, both ends included."""
    _check(call)
    query = _read(call.text("query"))
    start, end, step = (_number(call, name) for name in ("start", "end", "step"))
    if end < start or step <= 0:
        raise _bad('invalid parameter "end": end timestamp must not be before start time')
    if (end - start) / step > _MOST_STEPS:
        raise _bad("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution")
    series: dict[tuple[tuple[str, str], ...], list[list[float | str]]] = {}
    for number in range(int((end - start) // step) + 1):
        when = start + number * step
        for labels, value in _result(call, query, when):
            series.setdefault(tuple(labels.items()), []).append([_stamp(when), _text(value)])
    answers = [{"metric": dict(labels), "values": values} for labels, values in series.items()]
    return Answer(
        {"status": "success", "data": {"resultType": "matrix", "result": answers}},
        total=len(answers),
        rows=[[*(value for _, value in labels), len(values)] for labels, values in list(series.items())[:_ROWS]],
        no_data=not answers,
    )


def _result(call: Call, query: promql.Query, when: float) -> list[Point]:
    """Return labels and values at one time."""
    points = _fitting(call, query, when, query.window or _LOOKBACK)
    if query.aggregation:
        return _aggregated(points, query, call.aom)
    # Only here, where nothing is computed, a function over a window keeps the name of the metric.
    return [({"__name__": query.metric, **_shown(labels, call.aom)}, value) for labels, value in points]


def _stamp(when: float) -> float:
    return int(when) if when.is_integer() else round(when, 3)


def _number(call: Call, name: str) -> float:
    text = call.text(name)
    if not _TIME.fullmatch(text):
        raise _bad(f'invalid parameter "{name}": a number of seconds is wanted')
    return float(text)


def list_label_values_aom_prom(call: Call) -> Answer:
    """GET …/aom/api/v1/label/__name__/values: the metrics that have series."""
    _check(call)
    until, after = call.now - call.aom.lag, call.now - _REMEMBERED
    known = set(METRICS) - call.aom.hidden
    data = sorted(metric for metric in known if call.samples.exists(call.world, metric, until, after))
    body = {"status": "success", "data": data}
    return Answer(body, total=len(data), rows=[[metric] for metric in data], no_data=not data)


def metric_of(text: str) -> str:
    """Return the metric of a query; empty if it cannot be read."""
    try:
        return promql.read(text).metric
    except promql.Refused:
        return ""


def _check(call: Call) -> None:
    if call.aom.refused:
        raise ApiError(403, "forbidden", "aom:metric:list is not allowed")
    if call.instance not in call.aom.instances:
        raise _bad("the Prometheus instance does not exist")


def _fitting(call: Call, query: promql.Query, when: float, window: int) -> list[Point]:
    aom = call.aom
    if query.metric in aom.hidden:
        return []
    # A delayed sample does not count. The look-back of a query does not depend on the delay.
    points = call.samples.newest(call.world, query.metric, min(when, call.now - aom.lag), when - window)
    if call.world.hidden:  # series without a job have no workspace
        gone = {job.job_id for job in call.world.jobs.values() if not call.world.shows(job)}
        points = [point for point in points if point[0]["service_id"] not in gone]
    wanted = [(_own(matcher.label, aom), matcher) for matcher in query.matchers]
    if not wanted:
        return points
    return [point for point in points if all(matcher.fits(point[0].get(own, "")) for own, matcher in wanted)]


def _own(label: str, aom: Aom) -> str:
    """Return the simulator's own name of a label. The old name of a renamed label is unknown."""
    for own, shown in aom.renamed.items():
        if shown == label:
            return own
    return "" if label in aom.renamed else label


def _shown(labels: Mapping[str, str], aom: Aom) -> dict[str, str]:
    if not aom.renamed:
        return dict(labels)
    return dict(sorted((aom.renamed.get(name, name), value) for name, value in labels.items()))


def _aggregated(points: list[Point], query: promql.Query, aom: Aom) -> list[Point]:
    by = sorted(query.by)
    own = [_own(label, aom) for label in by]
    groups: dict[tuple[str, ...], list[float]] = {}
    for labels, value in points:
        groups.setdefault(tuple(labels.get(name, "") for name in own), []).append(value)
    return [
        ({label: value for label, value in zip(by, key, strict=True) if value}, _FUNCTIONS[query.aggregation](values))
        for key, values in groups.items()
    ]


def _text(value: float) -> str:
    return f"{round(value, 6):.15g}"


def _read(text: str) -> promql.Query:
    try:
        return promql.read(text)
    except promql.Refused as error:
        raise _bad(f'invalid parameter "query": parse error: {error}') from None


def _bad(message: str) -> ApiError:
    return ApiError(400, "bad_data", message)
