"""Usage, the same readings at three levels: what is given is shown."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.page.reading import joined, samples
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, UsageSource, UsageValues
from trainfleet_exporter.page import Renderer, RenderSettings

# Field of UsageValues -> family after the level, by the contract.
SUFFIXES = {
    "cpu": "cpu_utilization_ratio",
    "memory": "memory_utilization_ratio",
    "accelerator_utilization": "accelerator_utilization_ratio",
    "accelerator_memory": "accelerator_memory_utilization_ratio",
    "network_receive": "network_receive_bytes_per_second",
    "network_transmit": "network_transmit_bytes_per_second",
    "disk_read": "disk_read_bytes_per_second",
    "disk_write": "disk_write_bytes_per_second",
    "cpu_cores": "cpu_usage_cores",
    "memory_bytes": "memory_usage_bytes",
    "accelerator_memory_bytes": "accelerator_memory_usage_bytes",
    "accelerator_memory_capacity_bytes": "accelerator_memory_capacity_bytes",
    "accelerator_power_watts": "accelerator_power_watts",
}
PROFILED = {
    "sm_utilization": "sm_utilization_ratio",
    "tensor_active": "tensor_active_ratio",
    "dram_active": "dram_active_ratio",
    "tensor_flops": "tensor_flops_per_second",
    "nvlink_receive": "nvlink_receive_bytes_per_second",
    "nvlink_transmit": "nvlink_transmit_bytes_per_second",
    "pcie_receive": "pcie_receive_bytes_per_second",
    "pcie_transmit": "pcie_transmit_bytes_per_second",
}
SUFFIXES |= PROFILED
BY_KIND = {"accelerator_utilization", "accelerator_memory", *PROFILED}
RATES = {field for field, suffix in SUFFIXES.items() if suffix.endswith("_per_second")}
DISKS = ("disk_utilization", "disk_capacity_bytes", "disk_available_bytes")

numbers = st.floats(allow_nan=False, allow_infinity=False)
readings = st.dictionaries(st.sampled_from(sorted(SUFFIXES)), numbers)
kinds = st.sampled_from(["gpu", "npu"])


def shown(found: object) -> dict[str, tuple[dict[str, str], float]]:
    """Labels and value of each family that the object has on the page."""
    lines = samples(joined(Renderer(RenderSettings()).render("p", [found]).lines))
    assert len({name for name, _, _ in lines}) == len(lines)
    return {name: (labels, value) for name, labels, value in lines}


def expected(
    level: str, keys: dict[str, str], read: dict[str, float], kind: str
) -> dict[str, tuple[dict[str, str], float]]:
    labels = {"provider": "p", **keys}
    return {
        f"trainfleet_{level}_{SUFFIXES[field]}": (
            {**labels, "accelerator": kind} if field in BY_KIND else labels,
            value,
        )
        for field, value in read.items()
        if level != "pool" or field not in RATES
    }


@given(readings, kinds)
def test_what_is_given_is_shown_and_nothing_else(read: dict[str, float], kind: Any) -> None:
    values = UsageValues(accelerator=kind, **read)
    assert shown(JobUsage("j", values)) == expected("job", {"job_id": "j"}, read, kind)
    assert shown(PodUsage("j", "w", values)) == expected("pod", {"job_id": "j", "pod_id": "w"}, read, kind)
    assert shown(PoolUsage(pool_id="q", values=values)) == expected("pool", {"pool_id": "q"}, read, kind)


@given(st.dictionaries(st.sampled_from(sorted(PROFILED)), numbers), kinds)
def test_a_device_has_what_profilers_measure(read: dict[str, float], kind: Any) -> None:
    labels = {"provider": "p", "job_id": "j", "pod_id": "w", "device": "0", "accelerator": kind}
    named = {f"trainfleet_device_{PROFILED[field]}": (labels, value) for field, value in read.items()}
    assert shown(DeviceUsage("j", "w", "0", kind, **read)) == named


@given(st.dictionaries(st.sampled_from(DISKS), numbers))
def test_disks_of_a_pool(read: dict[str, float]) -> None:
    named = {field: f"trainfleet_pool_{field}" for field in DISKS} | {
        "disk_utilization": "trainfleet_pool_disk_utilization_ratio"
    }
    labels = {"provider": "p", "pool_id": "q"}
    found = PoolUsage(pool_id="q", values=UsageValues(), **read)
    assert shown(found) == {named[field]: (labels, value) for field, value in read.items()}


def test_undated_source_is_shown_without_a_time() -> None:
    labels = {"provider": "p", "job_id": "j"}
    info = {"trainfleet_job_usage_info": ({**labels, "source": "aom"}, 1.0)}
    dated = {"trainfleet_job_usage_timestamp_seconds": (labels, 0.0)}
    assert shown(UsageSource("j", "aom", None)) == info
    assert shown(UsageSource("j", "aom", 0.0)) == info | dated
