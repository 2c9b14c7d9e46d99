"""What profilers measure on cards: off by default, on by name, one call a metric and poll."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.providers.alibaba_pai.cloud import Cloud, FleetOf, job, metric, point
from tests.providers.alibaba_pai.worlds import MONITORED, asked, monitored_world, refresh, usage
from tests.support.fleet import Fleet
from tests.support.logs import lines_of
from trainfleet_exporter.families.usage import PROFILES

CARDS = {
    "CARD_GPU_SM_UTIL": ("%", 80.0, 60.0),
    "CARD_GPU_PIP_TENSOR_ACTIVE": ("%", 40.0, 20.0),
    "CARD_GPU_DRAM_ACTIVE_UTIL": ("%", 50.0, 30.0),
    "CARD_GPU_TENSORTFLOPS_USED": ("TFLOPS", 59.0, 29.5),
    "CARD_GPU_NVLINK_RECEIVE": ("MiB/s", 3.0, 5.0),
    "CARD_GPU_NVLINK_TRANSMIT": ("MB/s", 2.0, 4.0),
    "CARD_GPU_PCIE_RECEIVE": ("Bytes/s", 10.0, 20.0),
    "CARD_GPU_PCIE_TRANSMIT": ("GB/s", 1.0, 2.0),
    "CARD_GPU_HEALTH": ("", 2.0, 2.0),
}
"""By metric: its unit, and the values of the two cards of a pod."""
OF = {
    "sm": ["CARD_GPU_SM_UTIL"],
    "tensor": ["CARD_GPU_PIP_TENSOR_ACTIVE"],
    "dram": ["CARD_GPU_DRAM_ACTIVE_UTIL"],
    "flops": ["CARD_GPU_TENSORTFLOPS_USED"],
    "nvlink": ["CARD_GPU_NVLINK_RECEIVE", "CARD_GPU_NVLINK_TRANSMIT"],
    "pcie": ["CARD_GPU_PCIE_RECEIVE", "CARD_GPU_PCIE_TRANSMIT"],
    "health": ["CARD_GPU_HEALTH"],
}
FAMILIES = ("sm_", "tensor_", "dram_", "nvlink_", "pcie_", "healthy", "temperature_")


@pytest.fixture
def config() -> str:
    """The config of the fleet."""
    return MONITORED


def profiled_world() -> Cloud:
    """One job of two pods, each of two cards; the second pod's cards are twice as fast as the first one's."""
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.quotas = [{"QuotaId": "quota1", "QuotaName": "pool-a"}]
    for name, (unit, *values) in CARDS.items():
        cloud.catalogue.append(metric(name, unit))
        cloud.points[name] = [
            point("a", None, pod=f"a-worker-{pod}", gpuId=str(card), Value=value / (2 - pod))
            for pod in (0, 1)
            for card, value in enumerate(values)
        ]
    refresh(cloud)
    return cloud


async def shown(fleet: Fleet) -> list[str]:
    """The names of what profilers measure, without their levels."""
    lines = await fleet.lines("")
    names = {line.removeprefix("trainfleet_").split("{")[0].partition("_")[2] for line in lines}
    return sorted(name for name in names if name.startswith(FAMILIES))


async def test_profiling_is_off_by_default(fleet_of: FleetOf) -> None:
    cloud = profiled_world()
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert await shown(fleet) == []
        assert asked(cloud) == {}


@pytest.mark.parametrize("profile", PROFILES)
async def test_one_call_a_named_metric_and_poll(fleet_of: FleetOf, profile: str) -> None:
    assert set(OF) == set(PROFILES)
    cloud = monitored_world()
    known = {row["MetricName"] for row in cloud.catalogue}
    for row in profiled_world().catalogue:
        if row["MetricName"] not in known:
            cloud.catalogue.append(row)
    usual: Counter[str] = Counter()
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        usual.update(asked(cloud))
        cloud.calls.clear()
    async with fleet_of(cloud, usage(profiling=f"[{profile}]")) as fleet:
        await fleet.exporter.poll_once()
        assert asked(cloud) - usual == Counter(OF[profile])
        assert not usual - asked(cloud)
        await asyncio.sleep(120)
        await fleet.runner("usage").tick()
        assert asked(cloud) - usual - usual == Counter(OF[profile] * 2)


async def test_wholes_have_the_mean_of_ratios_and_the_sum_of_rates(fleet_of: FleetOf) -> None:
    cloud = profiled_world()
    expected = {
        "sm_utilization_ratio": (0.4, 0.35, 0.525),
        "tensor_active_ratio": (0.2, 0.15, 0.225),
        "dram_active_ratio": (0.25, 0.2, 0.3),
        "tensor_flops_per_second": (29.5e12, 44.25e12, 132.75e12),
        "nvlink_receive_bytes_per_second": (1.5 * 2**20, 4 * 2**20, 12 * 2**20),
        "nvlink_transmit_bytes_per_second": (1e6, 3e6, 9e6),
        "pcie_receive_bytes_per_second": (5, 15, 45),
        "pcie_transmit_bytes_per_second": (5e8, 1.5e9, 4.5e9),
    }
    async with fleet_of(cloud, usage(profiling="[sm, tensor, dram, flops, nvlink, pcie]")) as fleet:
        assert await fleet.exporter.poll_once()
        assert await shown(fleet) == sorted(expected)
        for suffix, (card, pod, whole) in expected.items():
            of_pod = 'job_id="a",pod_id="a-worker-0"'
            of_card = f'{of_pod},device="0",accelerator="gpu"'
            assert await fleet.value(f"device_{suffix}{{{of_card}}}") == pytest.approx(card)
            assert await fleet.value(f'pod_{suffix}{{{of_pod},accelerator="gpu"}}') == pytest.approx(pod)
            assert await fleet.value(f'job_{suffix}{{job_id="a",accelerator="gpu"}}') == pytest.approx(whole)


async def test_only_devices_have_health(fleet_of: FleetOf) -> None:
    cloud = profiled_world()
    for place, value in enumerate((1, 0, 0.5, 2)):
        cloud.points["CARD_GPU_HEALTH"][place]["Value"] = value
    cloud.catalogue.append(metric("CARD_HEAT", "Celsius"))
    cloud.points["CARD_HEAT"] = [
        point("a", None, pod="a-worker-0", gpuId=str(card), Value=value) for card, value in enumerate((61.5, -300))
    ]
    refresh(cloud)
    labels = 'job_id="a",pod_id="a-worker-0",device="{}",accelerator="gpu"'
    async with fleet_of(
        cloud, usage(profiling="[health]", metrics="{device_temperature_celsius: {name: CARD_HEAT}}")
    ) as fleet:
        assert await fleet.exporter.poll_once()
        assert await shown(fleet) == ["healthy", "temperature_celsius"]
        assert await fleet.value(f"device_healthy{{{labels.format(0)}}}") == 1
        assert await fleet.value(f"device_healthy{{{labels.format(1)}}}") == 0
        assert await fleet.value(f"device_temperature_celsius{{{labels.format(0)}}}") == 61.5
        assert fleet.own("dropped_readings_total", collector="usage", reason="out_of_range") == 3


async def test_a_sum_that_lacks_a_card_is_absent(fleet_of: FleetOf) -> None:
    cloud = profiled_world()
    for name in ("CARD_GPU_TENSORTFLOPS_USED", "CARD_GPU_SM_UTIL"):
        cloud.points[name][0]["Value"] = -1
    async with fleet_of(cloud, usage(profiling="[sm, flops]")) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.lines("job_tensor_flops_per_second") == []
        assert len(await fleet.lines("pod_tensor_flops_per_second")) == 1
        assert len(await fleet.lines("device_tensor_flops_per_second")) == 3
        assert await fleet.value('job_sm_utilization_ratio{job_id="a",accelerator="gpu"}') == pytest.approx(
            (0.3 + 0.8 + 0.6) / 3
        )


async def test_what_an_account_lacks_is_left_out(fleet_of: FleetOf) -> None:
    cloud = profiled_world()
    cloud.catalogue = [row for row in cloud.catalogue if row["MetricName"] != "CARD_GPU_NVLINK_TRANSMIT"]
    async with fleet_of(cloud, usage(profiling="[nvlink]")) as fleet:
        assert await fleet.exporter.poll_once()
        assert await shown(fleet) == ["nvlink_receive_bytes_per_second"]
        assert fleet.own("collector_success", collector="usage") == 1
        assert asked(cloud) == Counter(["CARD_GPU_NVLINK_RECEIVE"])


async def test_an_unknown_unit_shows_nothing_unless_the_config_has_it(
    fleet_of: FleetOf, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = profiled_world()
    for row in cloud.catalogue:
        row["Unit"] = ""
    async with fleet_of(cloud, usage(profiling="[flops]")) as fleet:
        assert await fleet.exporter.poll_once()
        assert await shown(fleet) == []
        assert asked(cloud) == {}
        facts = "reading=job_tensor_flops_per_second source=CloudMonitor source_metric=CARD_GPU_TENSORTFLOPS_USED"
        assert any(facts in line for line in lines_of(caplog.records))
    async with fleet_of(
        cloud, usage(profiling="[flops]", metrics="{job_tensor_flops_per_second: {unit: GFLOPS}}")
    ) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.lines("pod_tensor_flops_per_second") == []
        job_line = 'job_tensor_flops_per_second{job_id="a",accelerator="gpu"}'
        assert await fleet.value(job_line) == pytest.approx(132.75e9)


async def test_a_pool_has_what_the_config_names(fleet_of: FleetOf) -> None:
    cloud = profiled_world()
    cloud.catalogue.append(metric("QUOTA_GPU_SM_UTIL", "%"))
    cloud.points["QUOTA_GPU_SM_UTIL"] = [point("", 42.0, quotaId="quota1")]
    async with fleet_of(
        cloud, usage(profiling="[sm]", metrics="{pool_sm_utilization_ratio: {name: QUOTA_GPU_SM_UTIL}}")
    ) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.value('pool_sm_utilization_ratio{pool_id="quota1",accelerator="gpu"}') == 0.42
