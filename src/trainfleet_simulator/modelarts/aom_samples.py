"""Samples that the collector on the nodes of dedicated pools reports to AOM: one a minute for each container and card.

Readings that v2 task metrics also have are the same here, so that tests can compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import NAMESPACE_DNS, uuid5

from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.job_rows import has, tasks_of
from trainfleet_simulator.modelarts.task_series import minute_reading
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Pod, Role

TRAINING = "modelarts-training"
_SPANS_KEPT = 3
_CARD_LABELS = {"gpu": "gpu_id", "npu": "npu_id"}
_CARD_MEMORY = {spec.pool_id: spec.node_type.card_memory * 1024 for spec in catalog.POOLS}  # MiB
_OTHER_METRICS = {"ma_container_cpu_util": 2.5, "ma_container_memory_util": 11.0}
"""Constant readings of containers that do not train."""


@dataclass(slots=True)
class Aom:
    """AOM, as tests set it: rejections, hidden series, its delay in seconds, and its names of labels.

    `renamed` maps the simulator's names of labels to the shown names.
    """

    refused: bool = False
    hidden: set[str] = field(default_factory=set)
    lag: float = 60.0
    renamed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Metric:
    """How to compute a metric from the world's reading: its name there, the pod's role, and the memory of one card
    (MiB)."""

    world: str
    value: Callable[[float, Role, int], float]
    device: str = ""


def _same(reading: float, _: Role, __: int) -> float:
    return reading


def _card(word: str, reading: str, value: Callable[[float, Role, int], float]) -> tuple[str, _Metric]:
    return f"ma_container_{word}", _Metric(reading, value, word[:3])


METRICS: dict[str, _Metric] = {
    "ma_container_cpu_util": _Metric("CpuCoreUsage", _same),
    "ma_container_cpu_used_core": _Metric("CpuCoreUsage", lambda reading, role, _: reading / 100 * role.cpu),
    "ma_container_cpu_limit_core": _Metric("CpuCoreUsage", lambda _, role, __: role.cpu),
    "ma_container_memory_util": _Metric("MemoryUsage", _same),
    "ma_container_memory_used_megabytes": _Metric("MemoryUsage", lambda reading, role, _: reading / 100 * role.memory),
    "ma_container_memory_capacity_megabytes": _Metric("MemoryUsage", lambda _, role, __: role.memory),
    "ma_container_disk_read_kilobytes": _Metric("DiskReadRate", lambda reading, _, __: reading * 1024),
    "ma_container_disk_write_kilobytes": _Metric("DiskWriteRate", lambda reading, _, __: reading * 1024),
    "ma_container_network_receive_bytes": _Metric("NetworkInputRate", lambda reading, _, __: reading * 1e6),
    "ma_container_network_transmit_bytes": _Metric("NetworkOutputRate", lambda reading, _, __: reading * 1e6),
    **dict(
        (
            _card("gpu_util", "GpuCoreUsage", _same),
            _card("gpu_mem_util", "GpuMemoryUsage", _same),
            _card("gpu_mem_total_megabytes", "GpuMemoryUsage", lambda _, __, memory: memory),
            _card("gpu_mem_used_megabytes", "GpuMemoryUsage", lambda reading, _, memory: reading / 100 * memory),
            _card("npu_util", "GpuCoreUsage", _same),
            _card("npu_memory_util", "GpuMemoryUsage", _same),
            _card("npu_memory_used_megabytes", "GpuMemoryUsage", lambda reading, _, memory: reading / 100 * memory),
            _card("npu_memory_total_megabytes", "GpuMemoryUsage", lambda _, __, memory: memory),
            _card("npu_power_usage_watts", "GpuCoreUsage", lambda reading, _, __: 95 + 2.6 * reading),
            _card("npu_ai_core_health_status", "GpuCoreUsage", lambda *_: 1.0),
            _card("npu_ai_core_temperature_celsius", "GpuCoreUsage", lambda reading, _, __: 38 + 0.3 * reading),
        )
    ),
}
"""Every reported metric. Megabytes and kilobytes are of 1024. Rates are per second, also if the name says otherwise."""

Point = tuple[dict[str, str], float]
"""The labels of a series and its newest sample."""


class Samples:
    """Computes the newest sample of every series, once for each metric and minute."""

    def __init__(self) -> None:
        self._spans: dict[tuple[int, int], _Span] = {}

    def newest(self, world: World, metric: str, until: float, after: float) -> list[Point]:
        """Yield every series' newest sample up to `until` that is younger than `after`; none for an unknown metric."""
        span = self._span(world, until, after)
        points = span.points.get(metric)
        if points is None:
            points = span.points[metric] = list(span.series(world, metric))
        return points

    def exists(self, world: World, metric: str, until: float, after: float) -> bool:
        """Return whether there is such a sample."""
        return next(self._span(world, until, after).series(world, metric), None) is not None

    def _span(self, world: World, until: float, after: float) -> _Span:
        # Samples are of whole minutes.
        key = int(until // 60) * 60, int(after // 60) * 60 + 60
        span = self._spans.get(key)
        if span is None:
            while len(self._spans) >= _SPANS_KEPT:
                del self._spans[next(iter(self._spans))]
            span = self._spans[key] = _Span(world, *key)
        return span


class _Span:
    """The samples of a range of minutes, including both ends."""

    def __init__(self, world: World, until: int, since: int) -> None:
        self.points: dict[str, list[Point]] = {}
        self._until, self._since = until, since
        self._labels: dict[tuple[str, int], dict[str, str]] = {}
        self._tasks = [(job, tasks_of(job)) for job in _reporting(world, until, since)]

    def series(self, world: World, metric: str) -> Iterator[Point]:
        """Yield the series one by one."""
        found = METRICS.get(metric)
        if found is not None and self._since <= self._until:
            yield from self._of_jobs(found)
            yield from _of_others(world, metric)

    def _of_jobs(self, metric: _Metric) -> Iterator[Point]:
        for job, tasks in self._tasks:
            memory = _CARD_MEMORY[job.draft.pool_id]
            for place, task in enumerate(tasks):
                role = job.pods[place].role
                if metric.device and not has(role, metric.device):
                    continue
                found = _newest_reading(job, place, metric.world, self._until, self._since)
                if found is None:
                    continue
                reading, pod = found
                if not metric.device:
                    yield self._labels_of(job, task, pod), metric.value(reading, role, memory)
                    continue
                for card, share in enumerate(_by_card(reading, role.cards)):
                    labels = self._labels_of(job, task, pod, card, _CARD_LABELS[metric.device])
                    yield labels, metric.value(share, role, memory)

    def _labels_of(self, job: Job, task: str, pod: Pod, card: int = -1, card_label: str = "") -> dict[str, str]:
        """All metrics share these labels, because there are many thousands of them."""
        labels = self._labels.get((pod.uid, card))
        if labels is None:
            labels = self._labels[pod.uid, card] = {
                "container_name": TRAINING,
                "node_name": pod.node,
                **({card_label: str(card)} if card_label else {}),
                "pod_name": task,
                "pool_id": job.draft.pool_id,
                "service_id": job.job_id,
            }
        return labels


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
    value = _OTHER_METRICS.get(metric)
    if value is None:
        return
    for pool_id, others in catalog.OTHER_WORKLOADS.items():
        for kind, name, status in others:
            if status == "Running":
                yield (
                    {
                        "container_name": f"modelarts-{kind}",
                        "node_name": next(iter(world.pools[pool_id].nodes)),
                        "pod_name": f"{name}-0",
                        "pool_id": pool_id,
                        "service_id": str(uuid5(NAMESPACE_DNS, f"{pool_id}/{name}")),
                    },
                    value,
                )
