"""HELP of each family on a page: the sources of every installed platform, and what is unproven."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import trainfleet_exporter
from tests.app.reload_rig import SmallConfig, World, config, limited
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.families import FAMILIES, described
from trainfleet_exporter.providers.alibaba_pai.provider import PLATFORM as PAI
from trainfleet_exporter.providers.alibaba_pai.usage import job_metrics
from trainfleet_exporter.providers.alibaba_pai.usage import metrics as cloudmonitor
from trainfleet_exporter.providers.huawei_modelarts.provider import PLATFORM as MODELARTS
from trainfleet_exporter.providers.huawei_modelarts.usage import metrics as aom
from trainfleet_exporter.providers.huawei_modelarts.usage import pool_monitor, task_metrics
from trainfleet_exporter.providers.registry import Platform

HELP = {family.name: family.help for family in described([PAI, MODELARTS])}
MEANING = {family.name: family.help for family in FAMILIES}
SOURCES = Path(trainfleet_exporter.__file__).parent

# Marked E in the contract, or measured in a unit that it lists as taken for want of a stated one.
EXPERIMENTAL = re.compile(
    r"trainfleet_(job_holds_resources|job_requested_memory_bytes|(job|pod)_(network|disk)_\w+_bytes_per_second"
    r"|(job|pod|pool)_(cpu_usage_cores|(accelerator_)?memory_usage_bytes|accelerator_memory_capacity_bytes)"
    r"|(job|pod|pool)_accelerator_power_watts|device_power_watts|pool_queued_accelerators|pool_user_accelerators"
    r"|device_(healthy|temperature_celsius)"
    r"|(job|pod|pool|device)_(sm_utilization|(tensor|dram)_active)_ratio"
    r"|(job|pod|device)_(tensor_flops|(nvlink|pcie)_(receive|transmit)_bytes)_per_second"
    r"|(job|node)_faults_total|job_recoveries_total)"
)


@dataclass(frozen=True)
class Cloud:
    """As much of a platform as has to do with HELP."""

    name: str
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    experimental: Mapping[str, str] = field(default_factory=dict)


def priority(*clouds: Cloud) -> str:
    """HELP of one family, without its meaning."""
    name = "trainfleet_job_priority"
    (found,) = (family.help for family in described(clouds) if family.name == name)
    return found.removeprefix(MEANING[name])


def test_only_help_differs_from_the_table() -> None:
    rest = [(family.name, family.kind, family.of, family.labels, family.read) for family in FAMILIES]
    assert [(family.name, family.kind, family.of, family.labels, family.read) for family in described([PAI])] == rest
    assert described([]) == FAMILIES


def test_sources_are_in_the_order_of_platform_names() -> None:
    a = Cloud("a", {"trainfleet_job_priority": ["A list, rank", "A detail, rank"]})
    b = Cloud("b", {"trainfleet_job_priority": ["B jobs, priority"]})
    wanted = " Source: A list, rank; or A detail, rank; or B jobs, priority; cached between polls."
    assert priority(a, b) == priority(b, a) == wanted


def test_a_shared_source_is_named_once() -> None:
    both = [Cloud(name, {"trainfleet_job_priority": ["the config file"]}) for name in "ab"]
    assert priority(*both) == " Source: the config file; cached between polls."


def test_a_family_without_a_source_has_its_meaning_alone() -> None:
    assert priority(Cloud("a", {"trainfleet_job_status": ["A list, state"]})) == ""


def test_help_says_on_which_platforms_a_family_is_experimental() -> None:
    name = "trainfleet_job_priority"
    a = Cloud("a", {name: ["A"]}, {name: "its scale is unproven"})
    b = Cloud("b", {name: ["B"]})
    c = Cloud("c", {name: ["C"]}, {name: "its scale is unproven"})
    d = Cloud("d", {name: ["D"]}, {name: "its name is unproven"})
    text = priority(a, b, c, d)
    assert text.startswith(" Experimental: its scale is unproven (a, c); its name is unproven (d). Source: A; or B; ")
    assert "Experimental" not in priority(b)


@pytest.mark.parametrize("platform", [PAI, MODELARTS], ids=lambda platform: platform.name)
def test_a_cloud_names_families_of_the_table_and_itself(platform: Platform) -> None:
    assert platform.sources.keys() <= MEANING.keys()
    assert platform.experimental.keys() <= platform.sources.keys()
    word = "PAI" if platform is PAI else "ModelArts"
    for name, sources in platform.sources.items():
        assert sources, name
        for source in sources:
            assert source == "the config file" or re.match(rf"{word}\b", source), name


@pytest.mark.parametrize("name", MEANING)
def test_help_has_source_and_cache_in_one_line(name: str) -> None:
    assert re.search(r" Source: .+; cached between polls\.$", HELP[name])
    assert "\n" not in HELP[name]
    assert ("Experimental" in HELP[name]) == bool(EXPERIMENTAL.fullmatch(name))


@pytest.mark.parametrize("suffix", [suffix for suffix, family in cloudmonitor.FAMILIES.items() if family.names])
def test_cloudmonitor_s_first_candidate(suffix: str) -> None:
    assert cloudmonitor.FAMILIES[suffix].names[0] in HELP[f"trainfleet_{suffix}"]


@pytest.mark.parametrize("suffix", [suffix for suffix, family in cloudmonitor.FAMILIES.items() if not family.names])
def test_a_family_that_only_the_config_feeds_says_so(suffix: str) -> None:
    assert "only if usage.metrics of the config names a metric" in HELP[f"trainfleet_{suffix}"]


@pytest.mark.parametrize("reading", aom.READINGS, ids=lambda reading: reading.suffix)
def test_aom_s_first_candidates(reading: aom.Reading) -> None:
    for source in reading.sources:
        for family in reading.families():
            assert source.names[0][0] in HELP[f"trainfleet_{family.suffix}"]


def test_each_metric_name_is_written_once_for_each_api() -> None:
    """HELP comes from the tables that the code reads, so it cannot name another metric."""
    names = [name for family in cloudmonitor.FAMILIES.values() for name in family.names]
    names += [name for reading in aom.READINGS for source in reading.sources for name, _ in source.names]
    tables = (job_metrics.METRIC_TYPES, task_metrics.RATIO_METRICS, task_metrics.RATE_METRICS, pool_monitor.MONITORED)
    apis = Counter(dict.fromkeys(names, 1))
    apis.update(each if isinstance(each, str) else each.name for table in tables for each in table)
    sources = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    written = Counter(re.findall(r"[A-Za-z_]\w*", sources))
    assert {name: written[name] for name in apis if written[name] != apis[name]} == {}


def test_a_page_has_the_sources_of_every_platform_given(tmp_path: Path) -> None:
    """Whether the config names the platform or not: HELP of a series never changes with a reload."""
    path, name = tmp_path / "config.yaml", "trainfleet_provider_info"
    path.write_text(config(limited("a")), encoding="utf-8")
    small = replace(World().platform, sources={name: ["Small API, id"]})
    other = replace(small, name="other", sources={name: ["Other API, id"]})

    async def page() -> bytes:
        loaded = load_config(path, environ={}, platforms={"small": SmallConfig})
        async with aclosing(Exporter(loaded, {"small": small, "other": other})) as exporter:
            return await exporter.text()

    wanted = f"# HELP {name} {MEANING[name]} Source: Other API, id; or Small API, id; cached between polls."
    assert wanted in asyncio.run(page()).decode().splitlines()


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
