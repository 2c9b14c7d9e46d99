"""The catalogue of the simulated CloudMonitor: the metrics of PAI, with units and subjects.

The names' misspellings (DUTTY, RECEVICE) are those of the real service. The values of a job are from the same readings
as those of GetJobMetrics, so that tests can compare them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.catalog import ECS_SPECS
from trainfleet_simulator.world.jobs import Job, Pod
from trainfleet_simulator.world.nouns import GIB
from trainfleet_simulator.world.usage import reading

DLC, QUOTA = "acs_pai_dlc", "acs_pai_quota"
HEALTH = "CARD_GPU_HEALTH"
PERIODS = (60, 300, 900)
DIMENSIONS = {
    "job": ("userId", "regionId", "workspaceId", "jobId"),
    "pod": ("userId", "regionId", "workspaceId", "jobId", "pod"),
    "card": ("userId", "regionId", "workspaceId", "jobId", "pod", "gpuId"),
    "quota": ("userId", "regionId", "quotaId"),
    "node": ("userId", "regionId", "quotaId", "nodeId"),
}
IDLE_WATTS, WATTS_PER_PERCENT = 62.0, 3.4
PEAK_TFLOPS = {"GU8T": 148, "V100": 125, "NVIDIA V100": 125, "NVIDIA A10": 125}
"""TFLOP/s of one card, dense, in 16 bits."""
SM_SHARE, TENSOR_SHARE, DRAM_SHARE = 0.82, 0.44, 0.55
"""A busy card keeps its multiprocessors busy most of the time, and its tensor cores about half of that time."""
_POOLED_CARD_MEMORY = {spec.card_type: spec.node_type.card_memory for spec in catalog.QUOTAS}
_MB, _MIB = 10**6, 2**20

Read = Callable[[Job, Pod, int], float | None]
"""A pod's value at a Unix time; None if it has none. For a metric of cards, the mean over the pod's cards."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a job, its pods or their cards. That of a job is the mean over its pods, or their sum."""

    name: str
    unit: str
    level: str
    read: Read
    summed: bool = False
    of_cards: bool = False
    """Pods without cards have none, and jobs of such pods have none."""

    @property
    def statistics(self) -> tuple[str, ...]:
        return ("Value",) if self.level == "card" else ("Average", "Minimum", "Maximum")


@dataclass(frozen=True, slots=True)
class PoolMetric:
    """One metric of a quota or of its nodes; `pool_points` computes it."""

    name: str
    unit: str
    level: str
    what: str

    @property
    def statistics(self) -> tuple[str, ...]:
        return ("Average", "Minimum", "Maximum")


def card_memory(pod: Pod) -> int:
    """Return the memory of one of a pod's cards, in GiB."""
    role = pod.role
    return ECS_SPECS[role.machine].card_memory if role.machine else _POOLED_CARD_MEMORY.get(role.card_type, 0)


def card_type(pod: Pod) -> str:
    """Return the model of a pod's cards."""
    role = pod.role
    return ECS_SPECS[role.machine].card_type if role.machine else role.card_type


def _as_it_is(metric_type: str, factor: float = 1.0, plus: float = 0.0) -> Read:
    def read(job: Job, pod: Pod, at: int) -> float | None:
        value = reading(metric_type, job, pod, at)
        return None if value is None else value * factor + plus

    return read


def _part_of(metric_type: str, whole: Callable[[Pod], float], *, free: bool = False) -> Read:
    """Return a percentage of a resource of the pod: its used or its free share."""

    def read(job: Job, pod: Pod, at: int) -> float | None:
        value = reading(metric_type, job, pod, at)
        return None if value is None else whole(pod) * (100 - value if free else value) / 100

    return read


def _cards_mib(pod: Pod) -> float:
    return pod.role.cards * card_memory(pod) * GIB


def _all_of_it(job: Job, pod: Pod, at: int) -> float | None:
    return None if reading("GpuMemoryUsage", job, pod, at) is None else _cards_mib(pod)


def _link_rate(per_percent: float) -> Read:
    """Return MiB/s over the links between the cards of one pod. A single card has none."""

    def read(job: Job, pod: Pod, at: int) -> float | None:
        value = reading("GpuCoreUsage", job, pod, at)
        return None if value is None else value * per_percent * (pod.role.cards > 1)

    return read


def _health(job: Job, pod: Pod, at: int) -> float | None:
    """Return 1. `monitor_points` has the exceptions, which are single cards."""
    return None if reading("GpuCoreUsage", job, pod, at) is None else 1.0


def _tensor_tflops(job: Job, pod: Pod, at: int) -> float | None:
    """Return the card's peak times the share of its tensor cores that is active."""
    value = reading("GpuCoreUsage", job, pod, at)
    return None if value is None else value / 100 * TENSOR_SHARE * PEAK_TFLOPS.get(card_type(pod), 0)


_DLC = (
    Metric("JOB_CPU_UTIL", "%", "job", _as_it_is("CpuCoreUsage")),
    Metric("JOB_MEMORY_UTIL", "%", "job", _as_it_is("MemoryUsage")),
    Metric("JOB_GPU_ACCELERATOR_DUTTY_UTIL", "%", "job", _as_it_is("GpuCoreUsage"), of_cards=True),
    Metric("JOB_GPU_ACCELERATOR_MEMORY_UTIL", "%", "job", _as_it_is("GpuMemoryUsage"), of_cards=True),
    Metric("JOB_NETWORK_RECEVICE_RATE", "MB/s", "job", _as_it_is("NetworkInputRate"), summed=True),
    Metric("JOB_NETWORK_TRANSMIT_RATE", "MB/s", "job", _as_it_is("NetworkOutputRate"), summed=True),
    Metric("JOB_DISK_READ_RATE", "Bytes/s", "job", _as_it_is("DiskReadRate", _MB), summed=True),
    Metric("JOB_DISK_WRITE_RATE", "Bytes/s", "job", _as_it_is("DiskWriteRate", _MB), summed=True),
    Metric(
        "JOB_MEMORY_FREE",
        "Bytes",
        "job",
        _part_of("MemoryUsage", lambda pod: pod.role.memory * _MIB, free=True),
        summed=True,
    ),
    Metric("POD_CPU_UTIL", "%", "pod", _as_it_is("CpuCoreUsage")),
    Metric("POD_MEMORY_UTIL", "%", "pod", _as_it_is("MemoryUsage")),
    Metric("POD_CPU_USED", "Core", "pod", _part_of("CpuCoreUsage", lambda pod: pod.role.cpu)),
    Metric("POD_MEMORY_USED", "MiB", "pod", _part_of("MemoryUsage", lambda pod: pod.role.memory)),
    Metric("POD_GPU_ACCELERATOR_DUTTY_UTIL", "%", "pod", _as_it_is("GpuCoreUsage"), of_cards=True),
    Metric("POD_GPU_MEMORY_USED", "MiB", "pod", _part_of("GpuMemoryUsage", _cards_mib), of_cards=True),
    Metric("POD_GPU_MEMORY_TOTAL", "MiB", "pod", _all_of_it, of_cards=True),
    Metric("POD_NETWORK_RECEVICE_RATE", "MB/s", "pod", _as_it_is("NetworkInputRate")),
    Metric("POD_NETWORK_TRANSMIT_RATE", "MB/s", "pod", _as_it_is("NetworkOutputRate")),
    Metric("POD_DISK_READ_RATE", "Bytes/s", "pod", _as_it_is("DiskReadRate", _MB)),
    Metric("POD_DISK_WRITE_RATE", "Bytes/s", "pod", _as_it_is("DiskWriteRate", _MB)),
    Metric("CARD_GPU_DUTY_CYCLE", "%", "card", _as_it_is("GpuCoreUsage"), of_cards=True),
    Metric("CARD_GPU_MEMORY_UTIL", "%", "card", _as_it_is("GpuMemoryUsage"), of_cards=True),
    Metric(
        "CARD_GPU_POWER_USAGE", "W", "card", _as_it_is("GpuCoreUsage", WATTS_PER_PERCENT, IDLE_WATTS), of_cards=True
    ),
    Metric(HEALTH, "", "card", _health, of_cards=True),
    Metric("CARD_GPU_SM_UTIL", "%", "card", _as_it_is("GpuCoreUsage", SM_SHARE), of_cards=True),
    Metric("CARD_GPU_PIP_TENSOR_ACTIVE", "%", "card", _as_it_is("GpuCoreUsage", TENSOR_SHARE), of_cards=True),
    Metric("CARD_GPU_DRAM_ACTIVE_UTIL", "%", "card", _as_it_is("GpuCoreUsage", DRAM_SHARE), of_cards=True),
    Metric("CARD_GPU_TENSORTFLOPS_USED", "TFLOPS", "card", _tensor_tflops, of_cards=True),
    Metric("CARD_GPU_NVLINK_RECEIVE", "MiB/s", "card", _link_rate(310), of_cards=True),
    Metric("CARD_GPU_NVLINK_TRANSMIT", "MiB/s", "card", _link_rate(310), of_cards=True),
    Metric("CARD_GPU_PCIE_RECEIVE", "MiB/s", "card", _as_it_is("GpuCoreUsage", 24.0), of_cards=True),
    Metric("CARD_GPU_PCIE_TRANSMIT", "MiB/s", "card", _as_it_is("GpuCoreUsage", 9.0), of_cards=True),
)
_QUOTA = (
    PoolMetric("QUOTA_CPU_UTIL", "%", "quota", "cpu_util"),
    PoolMetric("QUOTA_MEMORY_UTIL", "%", "quota", "memory_util"),
    PoolMetric("QUOTA_GPU_ACCELERATOR_DUTTY_UTIL", "%", "quota", "cards_util"),
    PoolMetric("QUOTA_GPU_ACCELERATOR_MEMORY_UTIL", "%", "quota", "card_memory_util"),
    PoolMetric("QUOTA_GPU_POWER_USAGE", "W", "quota", "power"),
    PoolMetric("QUOTA_CPU_REQUEST", "Core", "quota", "cpu_request"),
    PoolMetric("QUOTA_CPU_TOTAL", "Core", "quota", "cpu_total"),
    PoolMetric("QUOTA_GPU_ACCELERATOR_REQUEST", "Count", "quota", "cards_request"),
    PoolMetric("QUOTA_GPU_ACCELERATOR_TOTAL", "Count", "quota", "cards_total"),
    PoolMetric("NODE_CPU_UTIL", "%", "node", "cpu_util"),
    PoolMetric("NODE_MEMORY_UTIL", "%", "node", "memory_util"),
    PoolMetric("NODE_GPU_ACCELERATOR_DUTTY_UTIL", "%", "node", "cards_util"),
    PoolMetric("NODE_GPU_ACCELERATOR_REQUEST", "Count", "node", "cards_request"),
    PoolMetric("NODE_GPU_ACCELERATOR_TOTAL", "Count", "node", "cards_total"),
)
JOB_METRICS = {metric.name: metric for metric in _DLC}
NAMESPACES: dict[str, tuple[Metric | PoolMetric, ...]] = {DLC: _DLC, QUOTA: _QUOTA}
