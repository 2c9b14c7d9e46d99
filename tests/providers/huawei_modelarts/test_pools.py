"""Answers about pools in, the page out: monitor, nodes and queue, and the project's quota."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, Cloud, Row, job, ms
from tests.providers.huawei_modelarts.usage.usage_rig import FleetOf
from tests.support.fleet import Fleet
from tests.support.golden import check_golden

GOLDEN = Path(__file__).parent / "golden"
NODES = CONFIG + "    collectors: {nodes: {enabled: true}}\n"
POOL: Row = {"metadata": {"name": "pool-1"}, "status": {"phase": "Running"}}
COUNTS: Row = {"statistics": {"items": [{"type": "train", "status": {"Queue": 3, "Running": 1}}]}}


@pytest.fixture
def fleet_of(fleet_of: FleetOf) -> FleetOf:
    """As everywhere, on a project with a pool."""

    @asynccontextmanager
    async def with_pool(config: str = CONFIG) -> AsyncIterator[tuple[Cloud, Fleet]]:
        async with fleet_of(config) as (cloud, fleet):
            cloud.pools = [POOL]
            yield cloud, fleet

    return with_pool


def metric(name: str, *points: tuple[float, object], unit: str = "Percent") -> Row:
    """A metric of the monitor: values at so many seconds after the start of stepped time."""
    rows = [
        {"timestamp": ms(at), "unit": unit, "statistics": [{"statistic": "average", "value": value}]}
        for at, value in points
    ]
    return {"metric": {"metricName": name, "namespace": "PAAS.AGGR"}, "dataPoints": rows}


def queued(job_id: str, position: object, **asked: object) -> Row:
    asked = {key.replace("_", "/", 1).replace("_", "-"): value for key, value in asked.items()}
    return {
        "type": "train",
        "uid": f"uid-{job_id}",
        "jobUUID": job_id,
        "status": "Queue",
        "pendingPosition": position,
        "resourceRequirement": {"cpu": "1 Cores", "memory": "6.52 GiB", **asked},
    }


async def test_usage_of_a_pool(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.monitor["pool-1"] = [
            metric("cpuUsage", (-120, 40), (-60, "50")),
            metric("memUsedRate", (-120, 30), (-60, -1)),
            *(metric("npuUtil", *points) for points in ([(-60, 61.4)], [])),  # listed twice, the last time empty
            metric("gpuUtil", (-60, -1), unit=""),
            metric("diskAvailableCapacity", (-60, 834379.2), unit="Megabytes"),
        ]
        assert await fleet.exporter.poll_once()
        assert cloud.called("/monitor") == [{"time_range": "-1.-1.5", "statistics": "average", "period": "60"}]
        assert await fleet.value('pool_cpu_utilization_ratio{pool_id="pool-1"}') == 0.5
        assert await fleet.value('pool_memory_utilization_ratio{pool_id="pool-1"}') == 0.3  # the newest that is one
        assert await fleet.lines("pool_accelerator_utilization") == [
            'trainfleet_pool_accelerator_utilization_ratio{provider="p",pool_id="pool-1",accelerator="npu"} 0.614'
        ]
        assert await fleet.value('pool_disk_available_bytes{pool_id="pool-1"}') == 834379.2 * 2**20


async def test_readings_of_a_pool_go_when_they_are_too_old(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.monitor["pool-1"] = [metric("cpuUsage", (-60, 40)), metric("memUsedRate", (-800, 30))]
        fleet.schedule.start()
        await asyncio.sleep(10)
        assert len(await fleet.lines("pool_cpu", "pool_memory_u")) == 2
        await asyncio.sleep(100)
        assert await fleet.lines("pool_cpu", "pool_memory_u") == [
            'trainfleet_pool_cpu_utilization_ratio{provider="p",pool_id="pool-1"} 0.4'
        ]
        await asyncio.sleep(20)  # the next poll finds it too old from the start
        assert fleet.own("dropped_readings_total", collector="pool_usage", reason="stale") == 1


async def test_readings_of_a_pool_stay_while_polls_are_stretched(fleet_of: FleetOf) -> None:
    """They are as old as the interval that there is by then allows, not as the one that they were published in."""
    async with fleet_of() as (cloud, fleet):
        cloud.monitor["pool-1"] = [metric("cpuUsage", (-60, 40))]
        await fleet.exporter.poll_once()
        runner = fleet.runner("pool_usage")
        runner.state.interval = 1800  # as a budget makes it
        await asyncio.sleep(3500)
        runner.expire()
        assert await fleet.value('pool_cpu_utilization_ratio{pool_id="pool-1"}') == 0.4
        await asyncio.sleep(60)
        runner.expire()
        assert await fleet.lines("pool_cpu_utilization") == []


@pytest.mark.long
async def test_more_pools_than_fit_into_a_poll_are_all_read_in_turn(fleet_of: FleetOf) -> None:
    """700 pools at 5 calls a second: no poll of 50 s comes to more than some 260."""
    config = CONFIG.replace("requests_per_second: 1000, concurrency: 8", "requests_per_second: 5, concurrency: 4")
    only = "    collectors: {jobs: {enabled: false}, job_counts: {enabled: false}, usage: {enabled: false}}\n"
    cut_off = 0
    async with fleet_of(config + only) as (cloud, fleet):
        cloud.pools = [{**POOL, "metadata": {"name": f"pool-{number}"}} for number in range(700)]
        cloud.monitor = {f"pool-{number}": [metric("cpuUsage", (-60, 40))] for number in range(700)}
        for collector in ("workspaces", "pools"):
            await fleet.runner(collector).tick()
        read: Counter[str] = Counter()
        for polls in range(1, 7):
            await fleet.runner("pool_usage").tick()
            read = Counter(
                request.url.path.split("/")[4] for request in cloud.requests if "monitor" in request.url.path
            )
            cut_off += not fleet.own("collector_success", collector="pool_usage")
            if polls == 3:
                assert len(read) == 700
        assert cut_off == 6
        assert min(read.values()) >= 2
        assert max(read.values()) <= 3  # no pool is read twice while another waits


async def test_pools_that_always_fail_take_no_turn_from_others(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.pools = [{**POOL, "metadata": {"name": f"pool-{number:02}"}} for number in range(20)]
        cloud.monitor = {f"pool-{number:02}": [metric("cpuUsage", (-60, 40))] for number in range(20)}
        cloud.answer = lambda path, request: httpx.Response(500) if "pool-0" in path and "monitor" in path else None
        await fleet.runner("workspaces").tick()
        for collector in ("pools", "pool_usage", "pool_usage"):
            await fleet.runner(collector).tick()
        assert len(await fleet.lines("pool_cpu_utilization_ratio")) == 10


async def test_a_pool_with_a_queue(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        capacity = {"value": {"cpu": 8, "nvidia.com/gpu": 8}}
        cloud.runtime = [{"metadata": {"name": "pool-1"}, "table": {"capacity": capacity}}]
        cloud.jobs = [job(name, "Pending", resource={"pool_id": "pool-1"}) for name in ("a", "b", "c")]
        cloud.jobs += [job("elsewhere", "Pending", resource={"pool_id": "pool-2"})]
        cloud.workloads["pool-1"] = COUNTS
        ascend = {"huawei.com_ascend_1980": "16"}
        cloud.queued["pool-1"] = [
            queued("a", 2, **ascend),
            queued("b", 1, **ascend),
            queued("c", -1, **{"nvidia.com_gpu": "2 Cards"}),
            queued("elsewhere", 3),
            queued("notebook", 4),
        ]
        assert await fleet.exporter.poll_once()
        assert await fleet.lines("job_queue_position") == [
            'trainfleet_job_queue_position{provider="p",job_id="a"} 2',
            'trainfleet_job_queue_position{provider="p",job_id="b"} 1',
        ]
        assert await fleet.lines("pool_queued_accelerators") == [
            'trainfleet_pool_queued_accelerators{provider="p",pool_id="pool-1",accelerator="gpu"} 2',
            'trainfleet_pool_queued_accelerators{provider="p",pool_id="pool-1",accelerator="npu"} 32',
        ]
        assert len(cloud.called("/pools/pool-1/workloads")) == 2  # counts, and one page of rows
        cloud.workloads["pool-1"] = {"statistics": {"items": []}}
        await fleet.runner("pool_workloads").tick()
        assert len(cloud.called("/pools/pool-1/workloads")) == 3  # nothing is queued: one call
        assert await fleet.lines("job_queue_position", "pool_queued_accelerators") == [
            'trainfleet_pool_queued_accelerators{provider="p",pool_id="pool-1",accelerator="gpu"} 0',
        ]
        for kind, count in (("x-infer", None), (None, 0)):
            cloud.workloads["pool-1"] = {"statistics": {"items": [{"type": kind, "status": {"Queue": count}}]}}
            await fleet.runner("pool_workloads").tick()
            assert len(await fleet.lines("job_queue_position")) == 2  # the queue itself is asked for


@pytest.mark.parametrize(("status", "failed"), [(403, 1), (404, 0)])  # 404: the pool was deleted in the meantime
async def test_a_queue_that_cannot_be_read_leaves_the_counts(fleet_of: FleetOf, status: int, failed: int) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.workloads["pool-1"] = COUNTS
        refusal = httpx.Response(status, json={"error_code": "ModelArts.50015001", "error_msg": "not yours"})
        cloud.answer = lambda path, request: refusal if path.endswith("/workloads") and request.url.params else None
        assert await fleet.exporter.poll_once() is not bool(failed)
        counts = 'pool_workloads{pool_id="pool-1",workload_type="train",status="queued",platform_status="Queue"}'
        assert await fleet.value(counts) == 3
        assert fleet.own("collector_parts_failed", collector="pool_workloads") == failed


async def test_workloads_that_start_or_stop_hold_accelerators(fleet_of: FleetOf) -> None:
    def held(uid: str, status: str, cards: object, user: str = "bo", **more: str) -> Row:
        row = {"uid": uid, "type": "train", "status": status, "userName": user, "hostIps": "10.0.0.1", **more}
        return {**row, "resourceRequirement": {"cpu": "1 Cores", "nvidia.com/gpu": cards}}

    async with fleet_of(CONFIG + "    collectors: {pool_users: {enabled: true}}\n") as (cloud, fleet):
        cloud.queued["pool-1"] = [
            *(held(f"waits {status}", status, "64", hostIps="") for status in ("Queue", "Pending", "Creating")),
            *(held(f"ended {status}", status, "64") for status in ("Completed", "Failed", "Abnormal", "Terminated")),
            *(held(status, status, "2 Cards") for status in ("Pending", "Creating", "Terminating")),
            held("runs", "Running", "1"),
            held("stops", "Running", 4, "al"),
            held("stops", "Terminating", 4, "al"),
            held("notebook", "Running", "8", "al", hostIps="", type="notebook"),
            held("new service", "Running", 16, type="x-infer"),
            held("odd", "Running", "many"),
            {"uid": "bare", "status": "Running"},
        ]
        assert await fleet.exporter.poll_once()
        lines = await fleet.lines("pool_user_accelerators")
        assert [line.partition("user_name=")[2] for line in sorted(lines)] == [
            '"al",workload_type="notebook",accelerator="gpu"} 8',
            '"al",workload_type="training",accelerator="gpu"} 4',
            '"bo",workload_type="service",accelerator="gpu"} 16',
            '"bo",workload_type="training",accelerator="gpu"} 7',
        ]


@pytest.mark.parametrize("rows", [0, 499, 500, 501])
async def test_queue_without_total_ends_at_a_partial_page(fleet_of: FleetOf, rows: int) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.workloads["pool-1"] = COUNTS
        every = [queued(f"job-{number}", number + 1, **{"nvidia.com_gpu": "1"}) for number in range(rows)]

        def answer(path: str, request: httpx.Request) -> httpx.Response | None:
            if not path.endswith("/pools/pool-1/workloads") or "statistics" in path:
                return None
            start = int(request.url.params["offset"])
            return httpx.Response(200, json={"items": every[start : start + 500]})

        cloud.answer = answer
        assert await fleet.exporter.poll_once()
        assert await fleet.value('pool_queued_accelerators{pool_id="pool-1",accelerator="gpu"}') == (rows or None)


async def test_the_quota_of_jobs(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.workspaces += [{"id": "w" * 32, "name": "team"}]
        cloud.workloads["pool-1"] = {"statistics": {"items": []}}
        assert await fleet.exporter.poll_once()
        assert cloud.called("/training-quotas") == [{"resource": "job-num"}]  # once, whatever the workspaces
        assert await fleet.lines("provider_job_quota") == [
            'trainfleet_provider_job_quota{provider="p"} 100',
            'trainfleet_provider_job_quota_used{provider="p"} 3',
        ]
        cloud.quotas = [{"resource": "job-num", "quota": -1, "used": 4}]
        assert await fleet.exporter.poll_once()
        assert await fleet.lines("provider_job_quota") == ['trainfleet_provider_job_quota_used{provider="p"} 4']
        cloud.quotas = []
        assert not await fleet.exporter.poll_once()
        assert await fleet.lines("provider_job_quota") == ['trainfleet_provider_job_quota_used{provider="p"} 4']


async def test_golden_page_of_nodes(fleet_of: FleetOf) -> None:
    async with fleet_of(NODES) as (cloud, fleet):
        status = {
            "phase": "Abnormal",
            "privateIp": "192.168.0.11",
            "resources": {"cpu": "191500m", "memory": "1504", "huawei.com/ascend-snt9": "8", "pods": "110"},
            "availableResources": {"cpu": "1500m", "memory": "1550000Mi", "huawei.com/ascend-snt9": "2"},
        }
        one = {"metadata": {"name": "os-node-created-zlncn"}, "spec": {"flavor": "modelarts.bm.npu.arm.8snt9b"}}
        bare = {"metadata": {"name": "new"}, "status": {"phase": "Checking", "resources": {"cpu": "8"}}}
        cloud.nodes["pool-1"] = [{**one, "status": status}, bare]
        assert await fleet.exporter.poll_once()
        check_golden(GOLDEN / "nodes.txt", "\n".join(await fleet.lines("node_")) + "\n")


async def test_nodes_of_tasks_are_those_of_its_pool(fleet_of: FleetOf) -> None:
    """Nodes of two pools may have one address."""
    async with fleet_of(NODES) as (cloud, fleet):

        def node(name: str, address: str) -> Row:
            return {"metadata": {"name": name}, "status": {"phase": "Available", "privateIp": address}}

        async def shown() -> list[str]:
            await fleet.runner("jobs").tick()
            return [line.partition('pod_id="')[2].rpartition("}")[0] for line in await fleet.lines("pod_info")]

        cloud.pools = [POOL, {"metadata": {"name": "pool-2"}}]
        cloud.nodes["pool-1"] = [node(f"n-{number}", f"10.0.0.{number}") for number in range(12)]
        cloud.nodes["pool-2"] = [node("m-0", "10.0.0.0"), node("m-1", "10.0.0.1"), node("m-99", "10.0.0.99")]
        tasks = ["worker-0", "worker-1", "worker-2"]
        cloud.jobs = [job("a", tasks=tasks, resource={"pool_id": "pool-1"}, running_records=[{"start_at": 1}])]
        hosts = ("10.0.0.0", "10.0.0.11", "10.0.0.99")
        cloud.places["a"] = [
            {"task": task, "ip": f"172.16.0.{n}", "host_ip": host}
            for n, (task, host) in enumerate(zip(tasks, hosts, strict=True))
        ]
        cloud.places["a"] += [{"task": None, "host_ip": "10.0.0.1"}, "x"]
        assert await fleet.exporter.poll_once()
        assert await shown() == [
            'worker-0",role="worker",node_name="n-0",pod_ip="172.16.0.0"',
            'worker-1",role="worker",node_name="n-11",pod_ip="172.16.0.1"',
            'worker-2",role="worker",node_name="",pod_ip=""',
        ]
        asked = [about["host_ips"] for about in cloud.called("searches") if "host_ips" in about]
        assert [len(each) for each in asked] == [10, 2]  # of pool-2 no job asks
        cloud.jobs[0]["status"]["running_records"].append({"start_at": 2})
        elsewhere = [f'{task}",role="worker",node_name="",pod_ip=""' for task in tasks]
        assert await shown() == elsewhere  # started again, it may run anywhere
        cloud.places["a"] = []
        await fleet.runner("nodes").tick()
        assert await shown() == elsewhere


@pytest.mark.parametrize(("failing", "late"), [("host_ips", ""), ("/nodes", "n")])
async def test_nodes_of_tasks_go_when_searches_fail_for_long(fleet_of: FleetOf, failing: str, late: str) -> None:
    async with fleet_of(NODES) as (cloud, fleet):
        cloud.nodes["pool-1"] = [{"metadata": {"name": "n"}, "status": {"privateIp": "10.0.0.1"}}]
        cloud.jobs = [job("a", resource={"pool_id": "pool-1"})]
        cloud.places["a"] = [{"task": "worker-0", "host_ip": "10.0.0.1"}]
        fleet.schedule.start()
        await asyncio.sleep(100)
        assert 'node_name="n"' in (await fleet.lines("pod_info"))[0]
        cloud.answer = lambda path, request: (
            httpx.Response(503) if failing in path or failing.encode() in request.content else None
        )
        await asyncio.sleep(600)
        assert 'node_name="n"' in (await fleet.lines("pod_info"))[0]
        assert fleet.own("collector_success", collector="nodes") == 0
        assert fleet.own("collector_success", collector="jobs") == 1
        await asyncio.sleep(1200)
        assert f'node_name="{late}"' in (await fleet.lines("pod_info"))[0]


@pytest.mark.parametrize(
    ("positions", "shown"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([0, 1, 2], [1, 2, 3]),  # counted from 0, as the 0 shows
        (["2", -1, None], [2]),
        ([-1, -1, -1], []),
    ],
)
async def test_places_in_a_queue(fleet_of: FleetOf, positions: list[object], shown: list[int]) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [job(f"job-{number}", "Pending", resource={"pool_id": "pool-1"}) for number in range(3)]
        cloud.workloads["pool-1"] = COUNTS
        cloud.queued["pool-1"] = [queued(f"job-{number}", position) for number, position in enumerate(positions)]
        assert await fleet.exporter.poll_once()
        found = [int(line.rpartition(" ")[2]) for line in await fleet.lines("job_queue_position")]
        assert found == shown


async def test_unreadable_amount_leaves_no_sum_of_its_kind(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        has = {"value": {"nvidia.com/gpu": 8, "huawei.com/ascend-1980": 8}}
        cloud.runtime = [{"metadata": {"name": "pool-1"}, "table": {"capacity": has}}]
        cloud.workloads["pool-1"] = COUNTS
        cloud.queued["pool-1"] = [queued("a", 1, nvidia_com_gpu="8"), queued("b", 2, nvidia_com_gpu="many")]
        for row in cloud.queued["pool-1"]:
            row["resourceRequirement"]["nvidia.com/gpu"] = row["resourceRequirement"].pop("nvidia/com-gpu")
        await fleet.exporter.poll_once()
        lines = await fleet.lines("pool_queued_accelerators")
        assert [line.partition("accelerator=")[2] for line in lines] == ['"npu"} 0']
        cloud.queued["pool-1"][1]["resourceRequirement"] = None
        await fleet.exporter.poll_once()
        assert await fleet.lines("pool_queued_accelerators") == []


@pytest.mark.parametrize(
    ("item", "dropped"),
    [
        (metric("cpuUsage", (0, 5), unit="Megabytes"), "malformed"),
        (metric("diskCapacity", (0, 5), unit=""), "malformed"),
        (metric("memUsedRate", (0, 103)), "out_of_range"),
        (metric("diskCapacity", (0, -5), unit="Megabytes"), "out_of_range"),
        (metric("cpuUsage", (-901, 5)), "stale"),
        (metric("", (0, 5)), "malformed"),
    ],
)
async def test_readings_of_the_monitor_that_are_not_shown(fleet_of: FleetOf, item: Row, dropped: str) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.monitor["pool-1"] = [item, *(metric(name, (0, 50)) for name in ("gpuUtil", "npuUtil", "npuMemUsage"))]
        await fleet.exporter.poll_once()
        assert len(await fleet.lines("pool_accelerator")) == 3
        assert await fleet.lines("pool_cpu", "pool_memory_u", "pool_disk") == []
        for reason in ("malformed", "out_of_range", "stale", "duplicate"):
            assert fleet.own("dropped_readings_total", collector="pool_usage", reason=reason) == (reason == dropped)


async def test_conditions_of_nodes_that_are_no_lists_are_unknown(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        nodes = {"available": {"count": 3}, "abnormal": [{"count": "x"}], "creating": 3, "deleting": [{"count": 2}]}
        cloud.pools = [{**POOL, "status": {"phase": "Running", "resources": nodes}}]
        await fleet.exporter.poll_once()
        assert [line.partition("status=")[2] for line in await fleet.lines("pool_nodes")] == ['"deleting"} 2']


async def test_counts_of_workloads_that_cannot_be_read_are_no_zeros(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        row = 'pool_workloads{{pool_id="pool-1",workload_type="{}",status="{}",platform_status="{}"}}'
        train = {"type": "train", "status": {"Queue": True, "Running": "x", "Failed": 2}}
        cloud.workloads["pool-1"] = {"statistics": {"items": [train]}}
        await fleet.exporter.poll_once()
        assert await fleet.value(row.format("train", "queued", "Queue")) is None
        assert await fleet.value(row.format("train", "failed", "Failed")) == 2
        assert await fleet.value(row.format("infer", "queued", "Queue")) == 0
        cloud.workloads["pool-1"] = {"statistics": {"items": [train, {"status": {}}]}}
        await fleet.exporter.poll_once()
        assert await fleet.value(row.format("train", "starting", "Pending")) == 0
        assert await fleet.value(row.format("infer", "queued", "Queue")) is None


async def test_a_malformed_row_does_not_drop_a_known_pool(fleet_of: FleetOf) -> None:
    """The row may be that of the pool: what it uses is asked for until a complete list lacks it."""
    async with fleet_of() as (cloud, fleet):
        await fleet.exporter.poll_once()
        malformed: list[Row] = [{"metadata": {}}]
        for rows, asked in ((malformed, 2), (malformed[:0], 2)):
            cloud.pools = rows
            await fleet.runner("pools").tick()
            await fleet.runner("pool_usage").tick()
            assert len(cloud.called("/pool-1/monitor")) == asked
