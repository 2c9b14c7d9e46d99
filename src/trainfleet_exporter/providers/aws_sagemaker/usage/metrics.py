"""The metrics of CloudWatch, the families that they feed, and the parts of an instance that they sum up.

Each metric is of one host, in percent. Those of CPUs and GPUs are sums over all vCPUs and GPUs of the instance: four
busy ones have 400. No family exists for the use of disks (DiskUtilization).

https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (job metrics)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainfleet_exporter.providers.aws_sagemaker.instances import accelerators, cpu_cores
from trainfleet_exporter.providers.usage.columns import Target
from trainfleet_exporter.providers.usage.table import MEASURES, Family, Level, exposed

NAMESPACE = "/aws/sagemaker/TrainingJobs"
DIMENSION = "Host"
_PERCENT = 0.01
_LEVELS: tuple[Level, ...] = ("pod", "job")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, the measure that it feeds, and how many things of an instance type it sums up."""

    name: str
    suffix: str
    parts: Callable[[str], float | None]
    """None if the type has none, or if their number is unknown."""

    @property
    def families(self) -> list[Family]:
        """Return the families of instances and jobs."""
        return [family for level in _LEVELS if (family := MEASURES[self.suffix].at(level)) is not None]

    def targets(self, deny: Sequence[str]) -> list[Target]:
        """Return the exposed families that the metric feeds."""
        return [Target(family, _PERCENT) for family in exposed(self.families, deny)]


def _gpus(instance_type: str) -> float | None:
    found = accelerators(instance_type)
    return found.count if found is not None and found.kind == "gpu" and found.count else None


METRICS = (
    Metric("CPUUtilization", "cpu_utilization_ratio", cpu_cores),
    Metric("MemoryUtilization", "memory_utilization_ratio", lambda instance_type: 1.0),
    Metric("GPUUtilization", "accelerator_utilization_ratio", _gpus),
    Metric("GPUMemoryUtilization", "accelerator_memory_utilization_ratio", _gpus),
)
