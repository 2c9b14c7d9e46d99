"""The sources of each family in docs/metrics.md, and HELP, which has none."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from deploy.generator import metric_sources
from deploy.generator.metric_sources import EXPERIMENTAL
from deploy.generator.metric_sources import SOURCES as METRIC_SOURCES

import trainfleet_exporter
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.providers.alibaba_pai import metrics as cloudmonitor
from trainfleet_exporter.providers.alibaba_pai import usage as pai_usage
from trainfleet_exporter.providers.huawei_modelarts import metrics as aom
from trainfleet_exporter.providers.huawei_modelarts import pools, task_metrics
from trainfleet_exporter.providers.registry import installed_platforms

WORDS = {"alibaba_pai": "PAI", "aws_sagemaker": "SageMaker", "huawei_modelarts": "ModelArts"}
MEANING = {family.name: family.help for family in FAMILIES}
SOURCES_OF = {
    name: "; or ".join(text for platform in WORDS for text in METRIC_SOURCES[platform].get(name, ()))
    for name in MEANING
}
FOLDERS = (Path(trainfleet_exporter.__file__).parent, Path(metric_sources.__file__).parent)

# Marked E in the contract, or measured in a unit that it lists as taken for want of a stated one.
MARKED = re.compile(
    r"trainfleet_(job_holds_resources|job_requested_memory_bytes|(job|pod)_(network|disk)_\w+_bytes_per_second"
    r"|(job|pod|pool)_(cpu_usage_cores|(accelerator_)?memory_usage_bytes|accelerator_memory_capacity_bytes)"
    r"|(job|pod|pool)_accelerator_power_watts|device_power_watts|pool_queued_accelerators|pool_user_accelerators"
    r"|device_(healthy|temperature_celsius)"
    r"|(job|pod|pool|device)_(sm_utilization|(tensor|dram)_active)_ratio"
    r"|(job|pod|device)_(tensor_flops|(nvlink|pcie)_(receive|transmit)_bytes)_per_second"
    r"|(job|node)_faults_total|job_recoveries_total)"
)


def test_every_installed_platform_has_sources() -> None:
    assert METRIC_SOURCES.keys() == EXPERIMENTAL.keys() == installed_platforms().keys()


@pytest.mark.parametrize(("platform", "word"), WORDS.items())
def test_a_cloud_names_families_of_the_table_and_itself(platform: str, word: str) -> None:
    by_family = METRIC_SOURCES[platform]
    assert by_family.keys() <= MEANING.keys()
    assert EXPERIMENTAL[platform].keys() <= by_family.keys()
    for name, sources in by_family.items():
        assert sources, name
        for source in sources:
            assert re.match(rf"the config file$|a constant|{word}\b", source), name


@pytest.mark.parametrize("name", MEANING)
def test_every_family_has_a_source(name: str) -> None:
    assert SOURCES_OF[name]
    is_unproven = any(name in EXPERIMENTAL[platform] for platform in WORDS)
    assert is_unproven == bool(MARKED.fullmatch(name))


@pytest.mark.parametrize("name", MEANING)
def test_help_is_one_line_without_sources(name: str) -> None:
    """HELP says what is measured, the unit, and when it is absent."""
    assert "\n" not in MEANING[name]
    assert not re.search(r"Source:|Experimental|CloudMonitor|AOM|PAI|ModelArts|SageMaker", MEANING[name])


@pytest.mark.parametrize("suffix", [suffix for suffix, family in cloudmonitor.FAMILIES.items() if family.names])
def test_cloudmonitor_s_first_candidate(suffix: str) -> None:
    assert cloudmonitor.FAMILIES[suffix].names[0] in SOURCES_OF[f"trainfleet_{suffix}"]


@pytest.mark.parametrize("suffix", [suffix for suffix, family in cloudmonitor.FAMILIES.items() if not family.names])
def test_a_family_that_only_the_config_feeds_says_so(suffix: str) -> None:
    assert "that usage.metrics names" in SOURCES_OF[f"trainfleet_{suffix}"]


@pytest.mark.parametrize("reading", aom.READINGS, ids=lambda reading: reading.suffix)
def test_aom_s_first_candidates(reading: aom.Reading) -> None:
    for names in reading.sources.values():
        for family in reading.families:
            assert names[0] in SOURCES_OF[f"trainfleet_{family.suffix}"]


def test_no_metric_name_is_written_twice_for_an_api() -> None:
    """Sources come from the tables that the code reads, so they cannot name another metric."""
    names = [name for family in cloudmonitor.FAMILIES.values() for name in family.names]
    names += [name for reading in aom.READINGS for names in reading.sources.values() for name in names]
    tables = (pai_usage.METRIC_TYPES, task_metrics.RATIO_METRICS, task_metrics.RATE_METRICS, pools.MONITORED)
    apis = Counter(dict.fromkeys(names, 1))
    apis.update(each if isinstance(each, str) else each.name for table in tables for each in table)
    sources = "\n".join(path.read_text(encoding="utf-8") for folder in FOLDERS for path in folder.rglob("*.py"))
    written = Counter(re.findall(r"[A-Za-z_]\w*", sources))
    assert {name: written[name] for name in apis if written[name] > apis[name]} == {}


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
device_healthy                           CARD_GPU_HEALTH ma_container_npu_ai_core_health_status
device_temperature_celsius               ma_container_npu_ai_core_temperature_celsius
"""


@pytest.mark.parametrize("row", MONITORED.strip().splitlines(), ids=lambda row: row.split()[0])
def test_sources_have_the_names_of_monitoring_services(row: str) -> None:
    family, *names = row.split()
    words = SOURCES_OF[f"trainfleet_{family}"].replace(",", " ").replace(";", " ").split()
    assert [word for word in words if word.startswith(("JOB_", "POD_", "QUOTA_", "CARD_", "ma_container_"))] == [
        name for name in names if name[0].isupper() or name.startswith("ma_")
    ]
    assert set(names) <= set(words)


@pytest.mark.parametrize("name", [name for name in SOURCES_OF if "_pool_" in name])
def test_sources_of_a_pool_name_no_source_of_jobs(name: str) -> None:
    assert "acs_pai_dlc" not in SOURCES_OF[name]
    assert "PAI-DLC" not in SOURCES_OF[name]
    assert "AOM" not in SOURCES_OF[name]
