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
}
AVERAGES = ("Average", "Minimum", "Maximum")
IDLE_WATTS, WATTS_PER_PERCENT = 62.0, 3.4
PEAK_TFLOPS = {"GU8T": 148, "V100": 125, "NVIDIA V100": 125, "NVIDIA A10": 125}
"""TFLOP/s of one card, dense, in 16 bits."""
SM_SHARE, TENSOR_SHARE, DRAM_SHARE = 0.82, 0.44, 0.55
"""A busy card keeps its multiprocessors busy most of the time, and its tensor cores about half of that time."""
_POOLED_CARD_MEMORY = {spec.node_type.card_type: spec.node_type.card_memory for spec in catalog.QUOTAS}
_MB, _MIB = 10**6, 2**20

Kind = tuple[str, bool]
"""The level of a metric, and whether it has only subjects with cards."""
Value = Callable[[float, Pod], float]
"""Calculates a pod's value from the world's reading. For a metric of cards, it is the mean over the pod's cards."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a job, its pods, their cards, or a quota. That of a job is the mean over its pods, or their sum.

    `reading` is the world's name of the reading that it is calculated from.
    """

    name: str
    unit: str
    level: str
    reading: str
    value: Value = lambda reading, _: reading
    summed: bool = False

    @property
    def kind(self) -> Kind:
        """Return the kind of its subjects. Pods without cards have no metric of cards."""
        return self.level, self.reading.startswith("Gpu")

    @property
    def statistics(self) -> tuple[str, ...]:
        return ("Value",) if self.level == "card" else AVERAGES

    def read(self, job: Job, pod: Pod, at: int) -> float | None:
        """Return a pod's value at a Unix time; None if it has none."""
        found = reading(self.reading, job, pod, at)
        return None if found is None else self.value(found, pod)


def _cards_mib(pod: Pod) -> float:
    """Return the memory of a pod's cards, in MiB."""
    role = pod.role
    memory = ECS_SPECS[role.machine].card_memory if role.machine else _POOLED_CARD_MEMORY.get(role.card_type, 0)
    return role.cards * memory * GIB


def _tensor_tflops(busy: float, pod: Pod) -> float:
    """Return the card's peak times the share of its tensor cores that is active."""
    role = pod.role
    model = ECS_SPECS[role.machine].card_type if role.machine else role.card_type
    return busy / 100 * TENSOR_SHARE * PEAK_TFLOPS.get(model, 0)


def _times(factor: float, plus: float = 0.0) -> Value:
    return lambda reading, _: reading * factor + plus


def _links(busy: float, pod: Pod) -> float:
    """Return MiB/s over the links between the cards of one pod. A single card has none."""
    return busy * 310 * (pod.role.cards > 1)


_CPU, _MEMORY, _CARDS, _CARD_MEMORY = "CpuCoreUsage", "MemoryUsage", "GpuCoreUsage", "GpuMemoryUsage"
_IN, _OUT, _READ, _WRITE = "NetworkInputRate", "NetworkOutputRate", "DiskReadRate", "DiskWriteRate"
_DLC = (
    Metric("JOB_CPU_UTIL", "%", "job", _CPU),
    Metric("JOB_MEMORY_UTIL", "%", "job", _MEMORY),
    Metric("JOB_GPU_ACCELERATOR_DUTTY_UTIL", "%", "job", _CARDS),
    Metric("JOB_GPU_ACCELERATOR_MEMORY_UTIL", "%", "job", _CARD_MEMORY),
    Metric("JOB_NETWORK_RECEVICE_RATE", "MB/s", "job", _IN, summed=True),
    Metric("JOB_NETWORK_TRANSMIT_RATE", "MB/s", "job", _OUT, summed=True),
    Metric("JOB_DISK_READ_RATE", "Bytes/s", "job", _READ, _times(_MB), summed=True),
    Metric("JOB_DISK_WRITE_RATE", "Bytes/s", "job", _WRITE, _times(_MB), summed=True),
    Metric("POD_CPU_UTIL", "%", "pod", _CPU),
    Metric("POD_MEMORY_UTIL", "%", "pod", _MEMORY),
    Metric("POD_CPU_USED", "Core", "pod", _CPU, lambda used, pod: pod.role.cpu * used / 100),
    Metric("POD_MEMORY_USED", "MiB", "pod", _MEMORY, lambda used, pod: pod.role.memory * used / 100),
    Metric("POD_GPU_ACCELERATOR_DUTTY_UTIL", "%", "pod", _CARDS),
    Metric("POD_GPU_MEMORY_USED", "MiB", "pod", _CARD_MEMORY, lambda used, pod: _cards_mib(pod) * used / 100),
    Metric("POD_GPU_MEMORY_TOTAL", "MiB", "pod", _CARD_MEMORY, lambda _, pod: _cards_mib(pod)),
    Metric("POD_NETWORK_RECEVICE_RATE", "MB/s", "pod", _IN),
    Metric("POD_NETWORK_TRANSMIT_RATE", "MB/s", "pod", _OUT),
    Metric("POD_DISK_READ_RATE", "Bytes/s", "pod", _READ, _times(_MB)),
    Metric("POD_DISK_WRITE_RATE", "Bytes/s", "pod", _WRITE, _times(_MB)),
    Metric("CARD_GPU_DUTY_CYCLE", "%", "card", _CARDS),
    Metric("CARD_GPU_MEMORY_UTIL", "%", "card", _CARD_MEMORY),
    Metric("CARD_GPU_POWER_USAGE", "W", "card", _CARDS, _times(WATTS_PER_PERCENT, IDLE_WATTS)),
    Metric(HEALTH, "", "card", _CARDS, lambda *_: 1.0),  # `monitor` has the exceptions
    Metric("CARD_GPU_SM_UTIL", "%", "card", _CARDS, _times(SM_SHARE)),
    Metric("CARD_GPU_PIP_TENSOR_ACTIVE", "%", "card", _CARDS, _times(TENSOR_SHARE)),
    Metric("CARD_GPU_DRAM_ACTIVE_UTIL", "%", "card", _CARDS, _times(DRAM_SHARE)),
    Metric("CARD_GPU_TENSORTFLOPS_USED", "TFLOPS", "card", _CARDS, _tensor_tflops),
    Metric("CARD_GPU_NVLINK_RECEIVE", "MiB/s", "card", _CARDS, _links),
    Metric("CARD_GPU_NVLINK_TRANSMIT", "MiB/s", "card", _CARDS, _links),
    Metric("CARD_GPU_PCIE_RECEIVE", "MiB/s", "card", _CARDS, _times(24.0)),
    Metric("CARD_GPU_PCIE_TRANSMIT", "MiB/s", "card", _CARDS, _times(9.0)),
)
_QUOTA = (
    Metric("QUOTA_CPU_UTIL", "%", "quota", _CPU),
    Metric("QUOTA_MEMORY_UTIL", "%", "quota", _MEMORY),
    Metric("QUOTA_GPU_ACCELERATOR_DUTTY_UTIL", "%", "quota", _CARDS),
    Metric("QUOTA_GPU_ACCELERATOR_MEMORY_UTIL", "%", "quota", _CARD_MEMORY),
    Metric("QUOTA_GPU_POWER_USAGE", "W", "quota", _CARDS),
)
NAMESPACES: dict[str, tuple[Metric, ...]] = {DLC: _DLC, QUOTA: _QUOTA}
