"""Samples that the collector on the nodes of dedicated pools reports to AOM: one a minute for each container and card.

Readings that v2 task metrics also have are the same here, so that tests can compare them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import NAMESPACE_DNS, uuid5

from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.job_rows import has, tasks_of
from trainfleet_simulator.modelarts.task_series import minute_reading
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Pod, Role

TRAINING = "modelarts-training"
_KEPT = 3 * 20
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
    "ma_container_memory_util": _Metric("MemoryUsage", _same),
    "ma_container_memory_used_megabytes": _Metric("MemoryUsage", lambda reading, role, _: reading / 100 * role.memory),
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
        self._points: OrderedDict[tuple[int, int, str], list[Point]] = OrderedDict()
        self._labels: dict[tuple[str, int], dict[str, str]] = {}
        """By pod and card. All metrics share these labels, because there are many thousands of them."""

    def newest(self, world: World, metric: str, until: float, after: float) -> list[Point]:
        """Return every series' newest sample up to `until` that is younger than `after`; none for an unknown metric."""
        key = *_minutes(until, after), metric
        if key not in self._points:
            if self._points and next(reversed(self._points))[0] != key[0]:
                self._labels = {}
            self._points[key] = list(self._series(world, *key))
            while len(self._points) > _KEPT:
                self._points.popitem(last=False)
        return self._points[key]

    def _series(self, world: World, until: int, since: int, name: str) -> Iterator[Point]:
        metric = METRICS.get(name)
        if metric is None or since > until:
            return
        for job in _reporting(world, until, since):
            memory = _CARD_MEMORY[job.draft.pool_id]
            for place, task in enumerate(tasks_of(job)):
                role = job.pods[place].role
                if metric.device and not has(role, metric.device):
                    continue
                found = _newest_reading(job, place, metric.world, until, since)
                if found is None:
                    continue
                reading, pod = found
                if not metric.device:
                    yield self._labels_of(job, task, pod), metric.value(reading, role, memory)
                    continue
                for card, share in enumerate(_by_card(reading, role.cards)):
                    labels = self._labels_of(job, task, pod, card, _CARD_LABELS[metric.device])
                    yield labels, metric.value(share, role, memory)
        yield from _of_others(world, name)

    def _labels_of(self, job: Job, task: str, pod: Pod, card: int = -1, card_label: str = "") -> dict[str, str]:
        if (pod.uid, card) not in self._labels:
            self._labels[pod.uid, card] = {
                "container_name": TRAINING,
                "node_name": pod.node,
                **({card_label: str(card)} if card_label else {}),
                "pod_name": task,
                "pool_id": job.draft.pool_id,
                "service_id": job.job_id,
            }
        return self._labels[pod.uid, card]


def _minutes(until: float, after: float) -> tuple[int, int]:
    """Return the last and the first minute of a range, because samples are of whole minutes."""
    return int(until // 60) * 60, int(after // 60) * 60 + 60


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
        for kind, name in ((kind, name) for kind, name, status in others if status == "Running"):
            labels = {
                "container_name": f"modelarts-{kind}",
                "node_name": next(iter(world.pools[pool_id].nodes)),
                "pod_name": f"{name}-0",
                "pool_id": pool_id,
                "service_id": str(uuid5(NAMESPACE_DNS, f"{pool_id}/{name}")),
            }
            yield labels, value
