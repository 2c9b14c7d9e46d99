"""Usage, the same readings at three levels: what is given is shown, and HELP names the sources of that level."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.exposition.families import FAMILIES
from trainfleet_exporter.exposition.render import Renderer, RenderSettings
from trainfleet_exporter.model import JobUsage, PodUsage, PoolUsage, UsageSource, UsageValues

from .reading import joined, samples

HELP = {family.name: family.help for family in FAMILIES}

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
RATES = {"network_receive", "network_transmit", "disk_read", "disk_write"}
DISKS = ("disk_utilization", "disk_capacity_bytes", "disk_available_bytes")

numbers = st.floats(allow_nan=False, allow_infinity=False)
readings = st.dictionaries(st.sampled_from(sorted(SUFFIXES)), numbers)
kinds = st.sampled_from(["gpu", "npu"])


def shown(found: object) -> dict[str, tuple[dict[str, str], float]]:
    """Labels and value of each family that the object has on the page."""
    lines = samples(joined(Renderer(RenderSettings()).render("p", [found])))
    assert len({name for name, _, _ in lines}) == len(lines)
    return {name: (labels, value) for name, labels, value in lines}


def expected(
    level: str, keys: dict[str, str], read: dict[str, float], kind: str
) -> dict[str, tuple[dict[str, str], float]]:
    labels = {"provider": "p", **keys}
    return {
        f"trainfleet_{level}_{SUFFIXES[field]}": (
            {**labels, "accelerator": kind}
            if SUFFIXES[field].startswith("accelerator_") and "ratio" in SUFFIXES[field]
            else labels,
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


@given(st.dictionaries(st.sampled_from(DISKS), numbers))
def test_disks_of_a_pool(read: dict[str, float]) -> None:
    named = {field: f"trainfleet_pool_{field}" for field in DISKS} | {
        "disk_utilization": "trainfleet_pool_disk_utilization_ratio"
    }
    labels = {"provider": "p", "pool_id": "q"}
    found = PoolUsage(pool_id="q", values=UsageValues(), **read)
    assert shown(found) == {named[field]: (labels, value) for field, value in read.items()}


def test_an_undated_source_is_told_without_a_time() -> None:
    labels = {"provider": "p", "job_id": "j"}
    info = {"trainfleet_job_usage_info": ({**labels, "source": "aom"}, 1.0)}
    dated = {"trainfleet_job_usage_timestamp_seconds": (labels, 0.0)}
    assert shown(UsageSource("j", "aom", None)) == info
    assert shown(UsageSource("j", "aom", 0.0)) == info | dated


# Family -> what the monitoring services call it, misspellings included.
MONITORED = """
job_cpu_utilization_ratio                JOB_CPU_UTIL ma_container_cpu_util
job_memory_utilization_ratio             JOB_MEMORY_UTIL ma_container_memory_util
job_accelerator_utilization_ratio        JOB_GPU_ACCELERATOR_DUTTY_UTIL ma_container_gpu_util ma_container_npu_util
job_accelerator_memory_utilization_ratio JOB_GPU_ACCELERATOR_MEMORY_UTIL ma_container_gpu_mem_util \
                                         ma_container_npu_memory_util
job_network_receive_bytes_per_second     JOB_NETWORK_RECEVICE_RATE ma_container_network_receive_bytes
job_network_transmit_bytes_per_second    JOB_NETWORK_TRANSMIT_RATE ma_container_network_transmit_bytes
job_disk_read_bytes_per_second           JOB_DISK_READ_RATE ma_container_disk_read_kilobytes
job_disk_write_bytes_per_second          JOB_DISK_WRITE_RATE ma_container_disk_write_kilobytes
job_cpu_usage_cores                      POD_CPU_USED ma_container_cpu_used_core
job_memory_usage_bytes                   POD_MEMORY_USED ma_container_memory_used_megabytes
job_accelerator_memory_usage_bytes       POD_GPU_MEMORY_USED ma_container_gpu_mem_used_megabytes \
                                         ma_container_npu_memory_used_megabytes
job_accelerator_memory_capacity_bytes    POD_GPU_MEMORY_TOTAL ma_container_gpu_mem_total_megabytes \
                                         ma_container_npu_memory_total_megabytes
job_accelerator_power_watts              ma_container_gpu_power_usage_watts ma_container_npu_power_usage_watts
pod_cpu_utilization_ratio                POD_CPU_UTIL ma_container_cpu_util
pod_memory_utilization_ratio             POD_MEMORY_UTIL ma_container_memory_util
pod_accelerator_utilization_ratio        POD_GPU_ACCELERATOR_DUTTY_UTIL ma_container_gpu_util ma_container_npu_util
pod_accelerator_memory_utilization_ratio POD_GPU_ACCELERATOR_MEMORY_UTIL ma_container_gpu_mem_util \
                                         ma_container_npu_memory_util
pod_network_receive_bytes_per_second     POD_NETWORK_RECEVICE_RATE ma_container_network_receive_bytes
pod_network_transmit_bytes_per_second    POD_NETWORK_TRANSMIT_RATE ma_container_network_transmit_bytes
pod_disk_read_bytes_per_second           POD_DISK_READ_RATE ma_container_disk_read_kilobytes
pod_disk_write_bytes_per_second          POD_DISK_WRITE_RATE ma_container_disk_write_kilobytes
pod_cpu_usage_cores                      POD_CPU_USED ma_container_cpu_used_core
pod_memory_usage_bytes                   POD_MEMORY_USED ma_container_memory_used_megabytes
pod_accelerator_memory_usage_bytes       POD_GPU_MEMORY_USED ma_container_gpu_mem_used_megabytes \
                                         ma_container_npu_memory_used_megabytes
pod_accelerator_memory_capacity_bytes    POD_GPU_MEMORY_TOTAL ma_container_gpu_mem_total_megabytes \
                                         ma_container_npu_memory_total_megabytes
pod_accelerator_power_watts              ma_container_gpu_power_usage_watts ma_container_npu_power_usage_watts
pool_cpu_utilization_ratio               QUOTA_CPU_UTIL cpuUsage
pool_memory_utilization_ratio            QUOTA_MEMORY_UTIL memUsedRate
pool_accelerator_utilization_ratio       QUOTA_GPU_ACCELERATOR_DUTTY_UTIL gpuUtil npuUtil
pool_accelerator_memory_utilization_ratio QUOTA_GPU_ACCELERATOR_MEMORY_UTIL gpuMemUsage npuMemUsage
pool_accelerator_power_watts             QUOTA_GPU_POWER_USAGE
pool_disk_utilization_ratio              diskUsedRate
pool_disk_capacity_bytes                 diskCapacity
pool_disk_available_bytes                diskAvailableCapacity
device_utilization_ratio                 CARD_GPU_DUTY_CYCLE ma_container_gpu_util ma_container_npu_util
device_memory_utilization_ratio          CARD_GPU_MEMORY_UTIL ma_container_gpu_mem_util ma_container_npu_memory_util
device_power_watts                       CARD_GPU_POWER_USAGE ma_container_gpu_power_usage_watts \
                                         ma_container_npu_power_usage_watts
"""


@pytest.mark.parametrize("row", MONITORED.strip().splitlines(), ids=lambda row: row.split()[0])
def test_help_names_what_the_monitoring_services_call_it(row: str) -> None:
    family, *names = row.split()
    words = HELP[f"trainfleet_{family}"].replace(",", " ").replace(";", " ").split()
    assert [word for word in words if word.startswith(("JOB_", "POD_", "QUOTA_", "CARD_", "ma_container_"))] == [
        name for name in names if name[0].isupper() or name.startswith("ma_")
    ]
    assert set(names) <= set(words)


@pytest.mark.parametrize("name", [name for name in HELP if "_pool_" in name])
def test_help_of_a_pool_names_no_source_of_jobs(name: str) -> None:
    assert "acs_pai_dlc" not in HELP[name]
    assert "PAI-DLC" not in HELP[name]
    assert "AOM" not in HELP[name]
