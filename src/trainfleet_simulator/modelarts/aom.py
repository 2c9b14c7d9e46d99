"""The simulated AOM: samples from nodes of dedicated pools, and the query API of Prometheus for them.

The collector on the nodes reports one sample a minute for each container and card. Readings that v2 task metrics also
have are the same here, so that tests can compare them. A query is an average by labels over the newest sample within a
window: `avg by (label, …) (last_over_time(name{label="value",other=~"expression"}[10m]))`. All others are rejected.
https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html and related pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from statistics import fmean
from typing import Any, NamedTuple
from uuid import NAMESPACE_DNS, uuid5

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.job_rows import has, tasks_of
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Pod, Role
from trainfleet_simulator.world.usage import minute_reading

_MATCHER = r'(\w+)(=~?)("(?:[^"\\]|\\.)*")'
_UNNAMED = _MATCHER.replace("(\\w", "(?:\\w").replace("(=", "(?:=").replace('("', '(?:"')
_QUERY = re.compile(
    r"avg by \((?P<by>[\w, ]*)\) \(last_over_time\((?P<metric>[A-Za-z_:][\w:]*)"
    rf"\{{(?P<matchers>(?:{_UNNAMED},?)*)\}}\[(?P<window>[1-9]\d{{0,4}})(?P<unit>[sm])\]\)\)",
    re.ASCII,
)
_UNITS = {"s": 1, "m": 60}
_REMEMBERED = 600  # seconds for which names of metrics can be found
_MOST_STEPS = 11_000  # of one range, as in Prometheus
_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_CARD_LABELS = {"gpu": "gpu_index", "npu": "npu_id"}
_CARD_MEMORY = {spec.pool_id: spec.node_type.card_memory * 1024 for spec in catalog.POOLS}  # MiB
_OTHER_METRICS = {"ma_container_cpu_util": 2.5, "ma_container_memory_util": 11.0}
"""Constant readings of containers that do not train."""


Value = Callable[[float, Role, int], float]
"""Calculates a value from the world's reading, the pod's role, and the memory of one card (MiB)."""


def _times(factor: float, plus: float = 0.0) -> Value:
    return lambda reading, _, __: reading * factor + plus


_CPU, _MEMORY, _CARDS, _CARD_MEMORY_USE = "CpuCoreUsage", "MemoryUsage", "GpuCoreUsage", "GpuMemoryUsage"
METRICS: Mapping[str, tuple[str, Value]] = {
    "ma_container_cpu_util": (_CPU, _times(1)),
    "ma_container_cpu_used_core": (_CPU, lambda reading, role, _: reading / 100 * role.cpu),
    "ma_container_memory_util": (_MEMORY, _times(1)),
    "ma_container_memory_used_megabytes": (_MEMORY, lambda reading, role, _: reading / 100 * role.memory),
    "ma_container_disk_read_kilobytes": ("DiskReadRate", _times(1024)),
    "ma_container_disk_write_kilobytes": ("DiskWriteRate", _times(1024)),
    "ma_container_network_receive_bytes": ("NetworkInputRate", _times(1e6)),
    "ma_container_network_transmit_bytes": ("NetworkOutputRate", _times(1e6)),
    "ma_container_gpu_util": (_CARDS, _times(1)),
    "ma_container_gpu_mem_util": (_CARD_MEMORY_USE, _times(1)),
    "ma_container_gpu_mem_total_megabytes": (_CARD_MEMORY_USE, lambda _, __, memory: memory),
    "ma_container_gpu_mem_used_megabytes": (_CARD_MEMORY_USE, lambda reading, _, memory: reading / 100 * memory),
    "ma_container_npu_util": (_CARDS, _times(1)),
    "ma_container_npu_memory_util": (_CARD_MEMORY_USE, _times(1)),
    "ma_container_npu_memory_used_megabytes": (_CARD_MEMORY_USE, lambda reading, _, memory: reading / 100 * memory),
    "ma_container_npu_memory_total_megabytes": (_CARD_MEMORY_USE, lambda _, __, memory: memory),
    "ma_container_npu_power_usage_watts": (_CARDS, _times(2.6, 95)),
    "ma_container_npu_ai_core_health_status": (_CARDS, _times(0, 1)),
    "ma_container_npu_ai_core_temperature_celsius": (_CARDS, _times(0.3, 38)),
}
"""Every reported metric, with the world's name of its reading. Megabytes and kilobytes are of 1024. Rates are per
second, also if the name says otherwise."""

Point = tuple[dict[str, str], float]
"""The labels of a series and its newest sample."""


def _reporting(world: World, until: int, since: int) -> Iterator[Job]:
    """Yield jobs of dedicated pools with a sample in the range. Jobs on public machines report nothing."""
    for job in world.jobs.values():
        if job.draft.pool_id and job.running is not None and job.running + 60 <= until:
            ended = job.work_ended
            if ended is None or ended >= since:
                yield job


def _newest_reading(job: Job, place: int, metric: str, until: int, since: int) -> tuple[float, Pod] | None:
    assert job.running is not None
    ended = job.work_ended
    minute = until if ended is None else min(until, ended // 60 * 60)
    while minute >= max(since, job.running + 60):
        found = minute_reading(job, place, metric, (minute - job.running) // 60 - 1)
        if found is not None:
            return found
        minute -= 60
    return None


def _by_card(reading: float, cards: int) -> list[float]:
    """Return slightly different readings of cards. None is above 100 percent, and their mean is the task's reading."""
    room = min(0.05 * reading, 100 - reading)
    return [reading + room * (2 * card - cards + 1) / cards for card in range(cards)]


def _of_others(world: World, metric: str) -> Iterator[Point]:
    """Yield readings of the containers of notebooks and inference services in the pools."""
    if metric not in _OTHER_METRICS:
        return
    for pool_id, others in catalog.OTHER_WORKLOADS.items():
        for kind, name in ((kind, name) for kind, name, status in others if status == "Running"):
            labels = {
                "container_name": f"modelarts-{kind}",
                "node_name": next(iter(world.pools[pool_id].nodes)),
                "pod_name": f"{name}-0",
                "pool_id": pool_id,
                "service_id": str(uuid5(NAMESPACE_DNS, f"{pool_id}/{name}")),
            }
            yield labels, _OTHER_METRICS[metric]


class Query(NamedTuple):
    """A parsed query. `window` is in seconds."""

    metric: str
    matchers: tuple[tuple[str, re.Pattern[str]], ...]
    window: int
    by: tuple[str, ...]


def read_query(text: str) -> Query:
    """Parse a whole query. Raises ValueError if it is not supported."""
    found = _QUERY.fullmatch(text)
    if found is None:
        raise ValueError("an average by labels is wanted")
    matchers = tuple(
        (label, re.compile(json.loads(value) if comparison == "=~" else re.escape(json.loads(value)), re.ASCII))
        for label, comparison, value in re.findall(_MATCHER, found["matchers"])
    )
    by = tuple(sorted(set(re.findall(r"\w+", found["by"]))))
    return Query(found["metric"], matchers, int(found["window"]) * _UNITS[found["unit"]], by)


def _read(call: Call) -> Query:
    try:
        return read_query(call.text("query"))
    except (ValueError, re.error) as error:
        raise ApiError(400, "bad_data", f'invalid parameter "query": parse error: {error}') from None


def metric_of(text: str) -> str:
    """Return the metric of a query; empty if it cannot be read."""
    found = _QUERY.fullmatch(text)
    return found["metric"] if found else ""


class Aom:
    """The operations. They compute the newest sample of every series once for each metric and minute."""

    def __init__(self, world: World) -> None:
        self.lag = 60.0
        """Seconds until a sample can be queried. Tests change it."""
        self._world = world
        self._series = lru_cache(3 * 20)(lambda until, since, name: list(self._points(until, since, name)))
        # All metrics share the labels of a container or card, because there are many thousands of them.
        self._labels = lru_cache(100_000)(_labels)

    def query(self, call: Call) -> Answer:
        """POST or GET …/aom/api/v1/query: the newest sample of each group. Parameters are in the URL."""
        query = _read(call)
        found = self._result(call, query, call.now)
        rows = [{"metric": labels, "value": [_stamp(call.now), _text(value)]} for labels, value in found]
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
        until, after = call.now - self.lag, call.now - _REMEMBERED
        data = sorted(metric for metric in METRICS if self._newest(metric, until, after))
        return Answer({"status": "success", "data": data})

    def _result(self, call: Call, query: Query, when: float) -> list[Point]:
        """Return labels and values at one time."""
        # A delayed sample does not count. The look-back of a query does not depend on the delay.
        until = min(when, call.now - self.lag)
        points = self._newest(query.metric, until, when - query.window)
        if call.world.hidden:  # series without a job have no workspace
            gone = {job.job_id for job in call.world.jobs.values() if not call.world.shows(job)}
            points = [point for point in points if point[0]["service_id"] not in gone]
        points = [
            point
            for point in points
            if all(wanted.fullmatch(point[0].get(label, "")) for label, wanted in query.matchers)
        ]
        groups: dict[tuple[tuple[str, str], ...], list[float]] = {}
        for labels, value in points:
            key = tuple((label, labels[label]) for label in query.by if labels.get(label))
            groups.setdefault(key, []).append(value)
        return [(dict(key), fmean(values)) for key, values in groups.items()]

    def _newest(self, metric: str, until: float, after: float) -> list[Point]:
        """Return every series' newest sample up to `until` that is younger than `after`; none for an unknown metric."""
        # Samples are of whole minutes.
        return self._series(int(until // 60) * 60, int(after // 60) * 60 + 60, metric)

    def _points(self, until: int, since: int, name: str) -> Iterator[Point]:
        if name not in METRICS or since > until:
            return
        (metric, value), device = METRICS[name], name.split("_")[2]
        for job in _reporting(self._world, until, since):
            memory = _CARD_MEMORY[job.draft.pool_id]
            for place, task in enumerate(tasks_of(job)):
                role = job.pods[place].role
                found = _newest_reading(job, place, metric, until, since) if has(role, device) else None
                if found is None:
                    continue
                reading, pod = found
                where = job.job_id, job.draft.pool_id, task, pod.node
                if device not in _CARD_LABELS:
                    yield self._labels(*where, None), value(reading, role, memory)
                    continue
                for card, share in enumerate(_by_card(reading, role.cards)):
                    yield self._labels(*where, (_CARD_LABELS[device], card)), value(share, role, memory)
        yield from _of_others(self._world, name)


def _labels(job_id: str, pool_id: str, task: str, node: str, card: tuple[str, int] | None) -> dict[str, str]:
    labels = {"container_name": "modelarts-training", "node_name": node}
    if card:
        labels[card[0]] = str(card[1])
    return labels | {"pod_name": task, "pool_id": pool_id, "service_id": job_id}


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
