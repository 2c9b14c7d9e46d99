"""Vectors of AOM in, the page out: levels, wholes and their parts, and anything that an answer may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, Cloud, Row, new_answer
from tests.providers.huawei_modelarts.usage.usage_rig import CPU, MEMORY, NPU, USED, FleetOf, new_job
from tests.support.fleet import Fleet
from tests.support.golden import check_golden
from trainfleet_exporter.providers.huawei_modelarts.metrics import READINGS

GOLDEN = Path(__file__).parent / "golden"
WATTS, HELD = "ma_container_npu_power_usage_watts", "ma_container_npu_memory_used_megabytes"
GPU, GPU_HELD = "ma_container_gpu_util", "ma_container_gpu_mem_used_megabytes"
MIB = 2**20
NO_SAMPLES: tuple[Any, ...] = ([], None, "x", {"metric": "a"}, {"metric": {"service_id": "a"}, "value": [1]})


def alone(more: str = "") -> str:
    """The config with AOM as the only source."""
    return f"{CONFIG}    collectors: {{usage: {{source: aom{more}}}}}\n"


def running(job_id: str, *tasks: str, cards: float = 0, kind: str = "ascend-snt9b", **resource: Any) -> Row:
    """A job with so many cards in all, on one node for each task."""
    count = resource.get("node_count", len(tasks) or 1)
    asked = {"accelerator_num": cards / count, "accelerator_type": kind} if cards else {"accelerator_num": 0}
    given = {"node_count": count, "main_container_allocated_resources": asked, **resource}
    return new_job(job_id, 3600, tasks=list(tasks), resource=given)


def of(job_id: str, value: object, **labels: str) -> tuple[Row, object]:
    return {"service_id": job_id, **labels}, value


def card(job_id: str, pod: str, number: int, value: object, label: str = "npu_id") -> tuple[Row, object]:
    return of(job_id, value, pod_name=pod, **{label: str(number)})


async def shown(cloud: Cloud, fleet: Fleet, *families: str) -> dict[str, float]:
    """The values of families by the ids of their subjects: `a`, `a/worker-0`, `a/worker-0/3`."""
    for collector in ("workspaces", "jobs", "usage"):
        await fleet.runner(collector).tick()
    found = {}
    for line in await fleet.lines(*families):
        labels = dict(pair.split("=") for pair in line.partition("{")[2].partition("}")[0].split(","))
        ids = [labels[name].strip('"') for name in ("job_id", "pod_id", "device") if name in labels]
        key = "/".join(ids)
        found[key if key not in found else f"{key} {labels['accelerator'][1:-1]}"] = float(line.rpartition(" ")[2])
    return found


async def test_a_sum_is_of_the_whole_or_absent(fleet_of: FleetOf) -> None:
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running("a", "worker-0", "worker-1"), running("b", "worker-0", "worker-1")]
        used = [("a", "worker-0", 100), ("a", "worker-1", 28), ("b", "worker-0", 64)]
        cloud.aom = {"ma_container_memory_used_megabytes": [of(job, value, pod_name=pod) for job, pod, value in used]}
        cloud.aom[CPU] = [of(job, value, pod_name=pod) for job, pod, value in used if value <= 100]
        assert await shown(cloud, fleet, "job_memory_usage", "pod_memory_usage") == {
            "a": 128 * MIB,
            "a/worker-0": 100 * MIB,
            "a/worker-1": 28 * MIB,
            "b/worker-0": 64 * MIB,
        }
        assert await shown(cloud, fleet, "job_cpu_u") == {"a": 0.64, "b": 0.64}  # a mean is of what there is
        cloud.aom = {CPU: [of("a", -5, pod_name="worker-0")]}
        assert await shown(cloud, fleet, "job_usage_info") == {}  # out of range


async def test_missing_cards_spoil_sums_and_no_means(fleet_of: FleetOf) -> None:
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running("a", "worker-0", "worker-1", cards=4)]
        cells = [("worker-0", 0, 40), ("worker-0", 1, 60), ("worker-1", 0, 80)]
        cloud.aom = {metric: [card("a", *cell) for cell in cells] for metric in (NPU, HELD)}
        assert await shown(cloud, fleet, "job_accelerator_memory_usage", "pod_accelerator_memory_usage") == {
            "a/worker-0": 100 * MIB
        }
        ratios = ("job_accelerator_u", "pod_accelerator_u", "device_utilization")
        assert await shown(cloud, fleet, *ratios) == {
            "a": 0.6,
            "a/worker-0": 0.5,
            "a/worker-1": 0.8,
            "a/worker-0/0": 0.4,
            "a/worker-0/1": 0.6,
            "a/worker-1/0": 0.8,
        }


async def test_roles_with_different_cards_have_sums_together(fleet_of: FleetOf) -> None:
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running("a", "server-0", "worker-0", cards=12)]
        four = [card("a", "server-0", number, 1) for number in range(4)]
        eight = [card("a", "worker-0", number, 1) for number in range(8)]
        cloud.aom = {WATTS: four + eight}
        power = ("job_accelerator_power", "pod_accelerator_power")
        assert await shown(cloud, fleet, *power) == {"a": 12, "a/server-0": 4, "a/worker-0": 8}
        cloud.aom[WATTS] = four + eight[:6]  # six are half of twelve, and not all of the eight
        assert await shown(cloud, fleet, *power) == {}


async def test_cards_of_both_kinds_are_one_sum_and_two_ratios(fleet_of: FleetOf) -> None:
    async with fleet_of(alone()) as (cloud, fleet):
        gpu, npu = ({"flavor_info": {kind: {"unit_num": 1, "product_name": kind}}} for kind in ("gpu", "npu"))
        cloud.jobs = [running("a", "worker-0", "server-0")]
        roles = ("worker", gpu), ("server", npu)
        cloud.jobs[0]["tasks"] = [{"role": role, "task_resource": resource} for role, resource in roles]
        mine, other = card("a", "worker-0", 0, 10, "gpu_index"), card("a", "server-0", 0, 30)
        cloud.aom = {GPU_HELD: [mine], HELD: [other], GPU: [mine], NPU: [other]}
        assert await shown(cloud, fleet, "job_accelerator_memory_usage") == {"a": 40 * MIB}
        assert await shown(cloud, fleet, "job_accelerator_u") == {"a": 0.1, "a npu": 0.3}


async def test_a_pod_is_known_by_the_task_its_label_ends_with(fleet_of: FleetOf) -> None:
    tasks = ("worker-0", "worker-1", "server-worker-0")
    labels = {
        "a": ({"pod_name": "worker-0"}, "worker-0"),
        "d": ({"pod_name": "modelarts-job-5f1c-worker-1"}, "worker-1"),
        "e": ({"pod_name": "modelarts-job-5f1c-server-worker-0"}, "server-worker-0"),  # the longest name that fits
        "f": ({"pod_name": "something-else"}, "something-else"),
    }
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running(job_id, *tasks) for job_id in labels]
        cloud.aom = {CPU: [of(job_id, 50, **given) for job_id, (given, _) in labels.items()]}
        assert await shown(cloud, fleet, "pod_cpu_u") == {f"{key}/{pod}": 0.5 for key, (_, pod) in labels.items()}


async def test_without_labels_of_pods_only_jobs_have_values(fleet_of: FleetOf) -> None:
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running("a", "worker-0", "worker-1", cards=4), running("one", "worker-0", cards=1)]
        rows = [of("a", 50), of("one", 30)]
        cards = [of("a", 50, npu_id="0"), of("a", 70, npu_id="1")]
        fine = [*rows, of("one", 40, pod_name="worker-0")]  # what names no pod is not shown next to that
        cloud.aom = {CPU: fine, USED: rows, NPU: [*cards, card("one", "worker-0", 0, 30)], WATTS: cards}
        assert await shown(cloud, fleet, "job_cpu_ut", "pod_cpu_ut") == {"a": 0.5, "one": 0.4, "one/worker-0": 0.4}
        assert fleet.own("dropped_readings_total", collector="usage", reason="malformed") == 1
        # A mean over pods is no sum, and a mean over the first cards of all pods is no card.
        assert await shown(cloud, fleet, "job_cpu_us", "pod_cpu_us") == {}
        ratios = {"a": 0.6, "one": 0.3, "one/worker-0/0": 0.3}  # labels of one job do not change those of another
        assert await shown(cloud, fleet, "job_accelerator_u", "device_") == ratios
        assert await shown(cloud, fleet, "job_accelerator_p", "pod_accelerator_p") == {}


async def test_a_replaced_pod_leaves_no_sum(fleet_of: FleetOf) -> None:
    """It is still reported under its old name for a while: a sum that includes it would be wrong."""
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running("a", cards=4, node_count=2)]
        pods = [of("a", 10 * number, pod_name=f"pod-{number}") for number in (1, 2, 3)]
        cells = [("old", 0), ("old", 1), ("here", 0), ("new", 0), ("new", 1)]  # of `here` a card is missing
        cards = [card("a", pod, number, 1) for pod, number in cells]
        cloud.aom = {CPU: pods, USED: pods, WATTS: cards}
        each = {"a": 0.2, "a/pod-1": 0.1, "a/pod-2": 0.2, "a/pod-3": 0.3}
        assert await shown(cloud, fleet, "job_cpu_ut", "pod_cpu_ut") == each
        assert await shown(cloud, fleet, "job_cpu_us") == {}
        assert await shown(cloud, fleet, "job_accelerator_p", "pod_accelerator_p") == {}
        cloud.aom = {CPU: pods[:2], USED: pods[:2], WATTS: cards[:2] + cards[3:]}
        assert await shown(cloud, fleet, "job_cpu_ut") == {"a": 0.15}
        assert await shown(cloud, fleet, "job_cpu_us") == {"a": 30}
        assert await shown(cloud, fleet, "job_accelerator_p") == {"a": 4}
        cloud.jobs = [running("b", "worker-0", cards=2, node_count=1)]
        cloud.aom = {WATTS: [card("b", "worker-0", number, 1) for number in range(4)]}  # it moved to another node
        assert await shown(cloud, fleet, "job_accelerator_p", "pod_accelerator_p") == {}


async def test_health_is_of_cards_only(fleet_of: FleetOf) -> None:
    async with fleet_of(alone(", profiling: [health]")) as (cloud, fleet):
        cloud.jobs = [running("a", "worker-0", cards=4)]
        health = [card("a", "worker-0", number, value) for number, value in enumerate((1, 0, 0.5, 7))]
        heat = [card("a", "worker-0", 0, 61.5), card("a", "worker-0", 1, 201)]
        name = "ma_container_npu_ai_core"
        cloud.aom = {f"{name}_health_status": health, f"{name}_temperature_celsius": heat}
        assert await shown(cloud, fleet, "device_healthy") == {"a/worker-0/0": 1, "a/worker-0/1": 0}
        assert await shown(cloud, fleet, "device_temperature", "job_temp", "pod_temp") == {"a/worker-0/0": 61.5}
        assert fleet.own("dropped_readings_total", collector="usage", reason="out_of_range") == 6


async def test_a_query_of_the_config_serves_its_level_and_those_above(fleet_of: FleetOf) -> None:
    chosen = {
        "pod_network_receive_bytes_per_second": {"promql": "network", "unit": "KiB/s"},
        "job_cpu_usage_cores": {"promql": "cores", "unit": "mCore"},
        "device_power_watts": {"promql": "power", "unit": "kW"},
    }
    async with fleet_of(alone(f", metrics: {json.dumps(chosen)}")) as (cloud, fleet):
        cloud.jobs = [running("a", "worker-0", "worker-1"), running("b", "worker-0", cards=1)]
        received = [of("a", 9, pod_name=f"worker-{number}") for number in range(2)]
        cloud.aom = {USED: [of("a", 4, pod_name="worker-0")], "ma_container_network_receive_bytes": received}
        cloud.promql = {
            "network": new_answer(*(of("a", "1", pod_name=f"worker-{number}") for number in range(2))),
            "cores": new_answer(of("a", "1500")),
            "power": new_answer(of("b", "0.3", pod_name="worker-0", npu_id="7")),
        }
        assert await shown(cloud, fleet, "job_network_r", "pod_network_r") == {
            "a": 2048,
            "a/worker-0": 1024,
            "a/worker-1": 1024,
        }
        assert await shown(cloud, fleet, "job_cpu_us", "pod_cpu_us") == {"a": 1.5, "a/worker-0": 4}
        assert await fleet.value('device_power_watts{job_id="b",pod_id="worker-0",device="7",accelerator="npu"}') == 300


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        *((of("a", value, pod_name="x"), "no_data") for value in ("NaN", -1, "-1")),
        *((of("a", value, pod_name="x"), "out_of_range") for value in ("-2", "+Inf", "103")),
        *((of("a", value, pod_name="x"), "malformed") for value in ("x", None, True, "", "9" * 400)),
        (({}, "1"), "malformed"),
        (of("elsewhere", "1"), "unlisted"),
        (({"service_id": ["a"]}, "1"), "malformed"),
        *((raw, "malformed") for raw in NO_SAMPLES),
    ],
)
async def test_an_odd_row_loses_only_itself(fleet_of: FleetOf, odd: Any, reason: str) -> None:
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running("a", "worker-0")]
        (good,) = new_answer(of("a", "50", pod_name="worker-0"))
        rows = [good, *(new_answer(odd) if isinstance(odd, tuple) else [odd]), {**good, "extra": 1}]
        cloud.aom = {MEMORY: []}
        vector = {"status": "success", "data": {"resultType": "vector", "result": rows, "stats": {"n": [1]}}}
        body = json.dumps(vector).encode()
        cloud.answer = lambda path, request: httpx.Response(200, content=body) if path.endswith("/query") else None
        assert await shown(cloud, fleet, "job_memory_ut", "pod_memory_ut") == {"a": 0.5, "a/worker-0": 0.5}
        dropped = {reason: 1}
        for name in ("no_data", "out_of_range", "malformed", "unlisted", "duplicate"):
            assert fleet.own("dropped_readings_total", collector="usage", reason=name) == dropped.get(name, 0)


@pytest.mark.parametrize(
    ("pod", "value", "is_read"),
    [("x\\ud83d", '[NaN,"70"]', True), ("x", f'[{"1" * 5000},"70"]', False), ("x", "[1,NaN]", False)],
)
async def test_an_answer_that_is_not_quite_json_is_read(fleet_of: FleetOf, pod: str, value: str, is_read: bool) -> None:
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running("a", "worker-0"), running("b", "worker-0")]
        (good,) = new_answer(of("a", "50", pod_name="worker-0"))
        rows = f'{{"metric":{{"service_id":"b","pod_name":"{pod}"}},"value":{value}}},{json.dumps(good)}'
        body = f'{{"status":"success","data":{{"resultType":"vector","result":[{rows}]}}}}'.encode()
        cloud.aom = {CPU: []}
        cloud.answer = lambda path, request: httpx.Response(200, content=body) if path.endswith("/query") else None
        assert await shown(cloud, fleet, "job_cpu_ut") == {"a": 0.5} | ({"b": 0.7} if is_read else {})


async def test_golden_page_of_all_metrics(fleet_of: FleetOf) -> None:
    async with fleet_of(alone()) as (cloud, fleet):
        cloud.jobs = [running("npu", "worker-0", "worker-1", cards=4), running("cpu", "worker-0")]
        cloud.aom = {}
        for place, reading in enumerate(READINGS):
            for kind, name in reading.sources.items():
                if kind is None:
                    pods = [of(job_id, place, pod_name="worker-0") for job_id in ("npu", "cpu")]
                    cloud.aom[name] = [*pods, of("npu", 90, pod_name="worker-1")]
                elif kind == "npu":
                    cells = [(pod, number) for pod in range(2) for number in range(2)]
                    cloud.aom[name] = [card("npu", f"worker-{pod}", n, 7 * place + n) for pod, n in cells]
        await shown(cloud, fleet)
        of_usage = [line for line in await fleet.lines("job_", "pod_", "device_") if _is_usage(line)]
        check_golden(GOLDEN / "aom_usage.txt", "\n".join(of_usage) + "\n")


def _is_usage(line: str) -> bool:
    return any(word in line for word in ("_ratio{", "_per_second{", "_usage_", "_capacity_bytes{", "_watts{"))
