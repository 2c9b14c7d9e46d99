"""The traps of ModelArts' objects: jobs, pools, values and times; by the API reference's section and number."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, Cloud, job, ms
from tests.support.clock import START
from tests.support.fleet import Fleet
from tests.support.hang import at_most
from tests.support.traps import Traps

trap = Traps(CONFIG)
NODES = CONFIG + "    collectors: {nodes: {enabled: true}}\n"
V1 = CONFIG + "    collectors: {jobs_v1: {enabled: true, interval: 60s}}\n"


def _metrics(**series: list[Any]) -> dict[str, Any]:
    return {"metrics": [{"metric": name, "value": values} for name, values in series.items()]}


@trap("2 times are milliseconds, and 0 means never")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a"), job("b", "Pending", start_time=0, duration=0)]
    await fleet.exporter.poll_once()
    assert await fleet.value('job_created_timestamp_seconds{job_id="a"}') == START - 7200
    assert await fleet.value('job_started_timestamp_seconds{job_id="a"}') == START - 500
    assert await fleet.value('job_duration_seconds{job_id="a"}') == 500
    assert await fleet.value('job_started_timestamp_seconds{job_id="b"}') is None
    assert await fleet.value('job_duration_seconds{job_id="b"}') is None


@trap("3.1 total is all matches, count is this page's")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job(f"done{n}", "Completed") for n in range(70)] + [job("bad", "Abnormal")]
    await fleet.exporter.poll_once()
    assert await fleet.value('jobs{workspace_id="0",status="succeeded",platform_status="Completed"}') == 70
    assert await fleet.value('jobs{workspace_id="0",status="failed",platform_status="Abnormal"}') == 1
    assert await fleet.value('jobs{workspace_id="0",status="failed",platform_status="Failed"}') == 0


@trap("3.2 accelerators of a job: nodes times what each has, NPU counts as text")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    ascend = {"cpu_core_num": 192, "mem_size": 1536, "accelerator_num": 8, "accelerator_type": "ascend-snt9b"}
    public = {"flavor_type": "Ascend", "flavor_info": {"npu": {"unit_num": "4", "product_name": "snt9"}}}
    gpu = {"flavor_type": "GPU", "flavor_info": {"gpu": {"unit_num": 8, "product_name": "NVIDIA-V100"}}}
    public["flavor_info"] |= {"memory": {"size": 64, "unit": "GB"}}  # type: ignore[operator]
    gpu["flavor_info"] |= {"memory": {"size": 64, "unit": "bags"}}  # type: ignore[operator]
    cloud.jobs = [
        job("a", resource={"node_count": 2, "main_container_allocated_resources": ascend, "pool_id": "pool-1"}),
        job("b", resource={"flavor_detail": public}),
        job("c", resource={"node_count": "2", "flavor_detail": gpu}),
        job("d", resource={"flavor_detail": {"flavor_type": "CPU", "flavor_info": {"cpu": {"core_num": 4}}}}),
    ]
    await fleet.exporter.poll_once()
    requested = "job_requested_accelerators"
    assert await fleet.value(f'{requested}{{job_id="a",accelerator="npu",accelerator_model="ascend-snt9b"}}') == 16
    assert await fleet.value(f'{requested}{{job_id="b",accelerator="npu",accelerator_model="snt9"}}') == 4
    assert await fleet.value(f'{requested}{{job_id="c",accelerator="gpu",accelerator_model="NVIDIA-V100"}}') == 16
    memory = [await fleet.value(f'job_requested_memory_bytes{{job_id="{job_id}"}}') for job_id in "abc"]
    assert memory == [2 * 1536 * 2**30, 64 * 2**30, None]
    assert await fleet.value('job_requested_cpu_cores{job_id="a"}') == 384
    assert await fleet.value('job_requested_cpu_cores{job_id="d"}') == 4
    assert [line for line in await fleet.lines(requested) if 'job_id="d"' in line] == []  # absent, not zero


@trap("3.3 heterogeneous jobs have tasks of several roles")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a", tasks=["worker-0", "worker-1", "server-0", "worker-0", 7])]
    for task, value in (("worker-0", 80), ("worker-1", 40), ("server-0", 0)):
        cloud.metrics[("a", task)] = _metrics(cpuUsage=[value], npuUtil=[value if "worker" in task else -1])
    npu = {"cpu": {"core_num": 24}, "npu": {"unit_num": "2", "product_name": "snt9b"}}
    roles_given = [
        ("worker", {"flavor_info": npu}),
        ("server", {"flavor_type": "CPU", "flavor_info": {"cpu": {"core_num": 8}}}),
    ]
    cloud.jobs[0]["tasks"] = [{"role": role, "task_resource": resource} for role, resource in roles_given]
    cloud.jobs[0]["metadata"]["annotations"] = {"fault-tolerance/job-retry-num": "often"}
    await fleet.exporter.poll_once()
    assert fleet.own("dropped_readings_total", collector="jobs", reason="malformed") == 1
    assert await fleet.value('job_requested_cpu_cores{job_id="a"}') == 2 * 24 + 8
    assert [line.split("{")[1] for line in await fleet.lines("job_requested_acc")] == [
        'provider="p",job_id="a",accelerator="npu",accelerator_model="snt9b"} 4'
    ]
    roles = {
        line.split('pod_id="')[1].split('"')[0]: line.split('role="')[1].split('"')[0]
        for line in await fleet.lines("pod_info")
    }
    assert roles == {"worker-0": "worker", "worker-1": "worker", "server-0": "server"}
    assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.4
    # Of those that have one.
    assert await fleet.value('job_accelerator_utilization_ratio{job_id="a",accelerator="npu"}') == 0.6


@trap("4.2 statistics or statics, text or numbers, and keys that are left out are 0")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.pools = [{"metadata": {"name": name}} for name in ("pool-1", "pool-2", "pool-3", "pool-4")]
    cloud.workloads = {
        "pool-1": {"statistics": {"items": [{"type": "train", "status": {"Queue": 2, "Running": 4}}]}},
        "pool-2": {"statics": {"items": [{"type": "x-infer", "status": {"Queue": "3", "NoSuchPhase": "1"}}]}},
        "pool-3": {},
    }
    cloud.queued["pool-1"] = [{"uid": "1", "jobUUID": "a", "resourceRequirement": {"nvidia.com/gpu": "8"}}]
    assert not await fleet.exporter.poll_once()
    row = 'pool_workloads{{pool_id="{}",workload_type="{}",status="{}",platform_status="{}"}}'
    assert await fleet.value(row.format("pool-1", "train", "queued", "Queue")) == 2
    assert await fleet.value(row.format("pool-1", "train", "failed", "Abnormal")) == 0
    assert await fleet.value(row.format("pool-1", "notebook", "running", "Running")) == 0
    assert await fleet.value(row.format("pool-2", "x-infer", "queued", "Queue")) == 3
    assert await fleet.value(row.format("pool-2", "x-infer", "unknown", "NoSuchPhase")) == 1
    assert [line for line in await fleet.lines("pool_workloads") if "pool-3" in line or "pool-4" in line] == []
    assert fleet.own("collector_parts_failed", collector="pool_workloads") == 1  # pool-3; pool-4 is gone
    assert await fleet.value('pool_queued_accelerators{pool_id="pool-1",accelerator="gpu"}') == 8
    del cloud.workloads["pool-1"]
    await fleet.runner("pool_workloads").tick()
    assert await fleet.lines("pool_queued") == []


@trap("4.4 Kubernetes quantities, and accelerators under any key")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    allocated = {"cpu": "1073m", "memory": "15548Mi", "huawei.com/ascend-1980": 16, "tnt004": "0", "pods": 9}
    capacity = {"cpu": 768, "memory": "6Ti", "huawei.com/ascend-1980": "32", "nvidia.com/gpu": 8, "tnt004": 2}
    cloud.pools = [{"metadata": {"name": "pool-1"}}]
    cloud.runtime = [
        {"metadata": {"name": "pool-1"}, "table": {"allocated": {"value": allocated}, "capacity": {"value": capacity}}}
    ]
    await fleet.exporter.poll_once()
    assert await fleet.value('pool_allocated_cpu_cores{pool_id="pool-1"}') == 1.073
    assert await fleet.value('pool_allocated_memory_bytes{pool_id="pool-1"}') == 15548 * 2**20
    assert await fleet.value('pool_capacity_memory_bytes{pool_id="pool-1"}') == 6 * 2**40
    row = 'pool_{}_accelerators{{pool_id="pool-1",accelerator="{}",accelerator_model="{}"}}'
    assert await fleet.value(row.format("allocated", "npu", "huawei.com/ascend-1980")) == 16
    assert await fleet.value(row.format("capacity", "npu", "huawei.com/ascend-1980")) == 32
    assert await fleet.value(row.format("capacity", "gpu", "nvidia.com/gpu")) == 8
    assert await fleet.value(row.format("allocated", "gpu", "nvidia.com/gpu")) is None
    assert await fleet.value(row.format("allocated", "gpu", "tnt004")) == 0


@trap("5 jobs of both APIs without a status are counted in two series", V1)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    found = {"items": [job("a") | {"status": {"phase": None}}], "total": 1, "count": 1}
    cloud.answer = lambda path, request: httpx.Response(200, json=found) if path.endswith("searches") else None
    cloud.v1_jobs = [{"job_id": 2, "version_id": 3, "status": None}, {"job_id": 4, "version_id": 5, "status": "odd"}]
    await fleet.exporter.poll_once()
    unknown = [line for line in await fleet.lines("jobs{") if 'status="unknown"' in line]
    words = dict(re.findall('platform_status="([^"]*)"} (.*)', "\n".join(unknown)))
    assert len(unknown) == len(words)
    assert (words[""], words["JOBSTAT_UNKNOWN"], words["JOBSTAT_odd"]) == ("1", "1", "1")


@trap("5 v1: jobs, versions, pods by log file, cards by place", V1)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.v1_jobs = [
        {"job_id": 567524, "job_name": "resnet-a", "version_id": 1108482, "status": 8, "create_time": ms(-900)},
        {"job_id": 2, "job_name": "done", "version_id": 3, "status": 10},
        {"job_id": 4, "job_name": "odd", "version_id": 5, "status": 99},
        {"job_id": 6, "version_id": 7, "status": 6},
    ]
    running = {"version_id": 1108482, "status": 8, "gpu_num": 2, "worker_server_num": 1}
    cloud.v1_versions = {"567524": [running, {"version_id": 9, "status": 11}]}
    cloud.v1_files = {"567524/1108482": ["job-demo.0", "job-demo.0", None]}
    cloud.v1_metrics = {
        ("job-demo.0", "all"): [
            {"metric": "gpuUtil", "value": ["1", "22", "50"]},
            {"metric": "CpuUsage", "value": ["3.10"]},
            {"metric": "recvBytesRate", "value": ["5770405.50"]},
            {"metric": "diskReadRate", "value": ["10"]},
        ],
        ("job-demo.0", "each"): [
            {"metric": "gpuUtil", "value": ["40"]},
            {"metric": "gpuUtil", "value": ["60"]},
            {"metric": "gpuMemUsage", "value": ["-1"]},
            {"metric": "GpuMemUsage", "value": ["25"]},
        ],
    }
    assert await fleet.exporter.poll_once()
    assert not cloud.called("/training-jobs/6/")  # DELETE_FAILED: it has ended before
    shown = "567524/1108482"
    assert await fleet.value(f'job_status{{job_id="{shown}",status="running"}}') == 1
    assert await fleet.value('jobs{workspace_id="0",status="running",platform_status="JOBSTAT_RUNNING"}') == 1
    assert await fleet.value('jobs{workspace_id="0",status="succeeded",platform_status="JOBSTAT_COMPLETED"}') == 1
    assert await fleet.value('jobs{workspace_id="0",status="unknown",platform_status="JOBSTAT_99"}') == 1
    assert len(await fleet.lines(f'pod_info{{provider="p",job_id="{shown}"')) == 1
    pod = f'job_id="{shown}",pod_id="job-demo.0"'
    assert await fleet.value(f"pod_cpu_utilization_ratio{{{pod}}}") == 0.031
    assert await fleet.value(f"pod_network_receive_bytes_per_second{{{pod}}}") == 5770405.5
    assert await fleet.value(f"pod_disk_read_bytes_per_second{{{pod}}}") == 10240
    assert await fleet.value(f'device_utilization_ratio{{{pod},device="0",accelerator="gpu"}}') == 0.4
    assert await fleet.value(f'device_utilization_ratio{{{pod},device="1",accelerator="gpu"}}') == 0.6
    assert await fleet.value(f'device_memory_utilization_ratio{{{pod},device="1",accelerator="gpu"}}') == 0.25
    assert len(await fleet.lines("device_")) == 3
    assert await fleet.value(f'job_usage_info{{job_id="{shown}",source="metric_statistic"}}') == 1


@trap("v1: rates of a job are sums over all of its pods, or absent", V1)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.v1_jobs = [{"job_id": 5, "version_id": 6, "status": 8}]
    cloud.v1_versions = {"5": [{"version_id": 6, "status": 8, "gpu_num": 1, "worker_server_num": 2}]}
    cloud.v1_files = {"5/6": ["pod.0", "pod.1"]}
    figures = [{"metric": "CpuUsage", "value": ["10"]}, {"metric": "recvBytesRate", "value": ["100"]}]
    nothing = [{"metric": "CpuUsage", "value": ["-1"]}, {"metric": "recvBytesRate", "value": ["-1"]}]
    gone = httpx.Response(404, json={"error_code": "ModelArts.0104", "error_msg": "no such pod"})
    rate, ratio = 'job_network_receive_bytes_per_second{job_id="5/6"}', 'job_cpu_utilization_ratio{job_id="5/6"}'
    answers: list[httpx.Response] = []
    cloud.answer = lambda path, request: answers[0] if answers and "pod.1" in path else None
    for second, answer, reported in [
        (figures, [], 200),
        (nothing, [], None),
        (figures, [gone], None),  # it has a log, and so is one of the job's pods
    ]:
        cloud.v1_metrics = {("pod.0", "all"): figures, ("pod.1", "all"): second}
        answers[:] = answer
        await fleet.exporter.poll_once()
        assert (await fleet.value(rate), await fleet.value(ratio)) == (reported, 0.1)
    answers.clear()
    cloud.v1_files["5/6"].append(None)  # another pod
    await fleet.exporter.poll_once()
    assert (await fleet.value(rate), await fleet.value(ratio)) == (None, 0.1)
    absent = fleet.own("dropped_readings_total", collector="jobs_v1", reason="no_data")
    cloud.v1_files["5/6"] = "pod.0"  # type: ignore[assignment]
    await fleet.exporter.poll_once()
    assert fleet.own("dropped_readings_total", collector="jobs_v1", reason="malformed") == 2
    assert fleet.own("dropped_readings_total", collector="jobs_v1", reason="no_data") == absent


@trap("8.4.4 -1 is no data, in the middle and at the end")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a"), job("b"), job("c")]
    cloud.metrics = {
        ("a", "worker-0"): _metrics(cpuUsage=[-1, 3.1, 12.5, -1], gpuUtil=[-1, -1], npuUtil=[35.0, 92.5, -1.0]),
        ("b", "worker-0"): _metrics(cpuUsage=[0, "NaN"], gpuUtil=[]),
        ("c", "worker-0"): _metrics(cpuUsage=[-1] * 9),
    }
    await fleet.exporter.poll_once()
    assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.125
    assert await fleet.value('job_accelerator_utilization_ratio{job_id="a",accelerator="npu"}') == 0.925
    assert await fleet.value('job_cpu_utilization_ratio{job_id="b"}') == 0
    assert await fleet.lines('job_accelerator_utilization_ratio{provider="p",job_id="b"') == []
    assert await fleet.value('job_cpu_utilization_ratio{job_id="c"}') is None


@trap("8.4.5 a value that is not among the last few is not now")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a"), job("b")]
    cloud.metrics = {
        ("a", "worker-0"): _metrics(cpuUsage=[50, -1, -1, -1, -1]),
        ("b", "worker-0"): _metrics(cpuUsage=[50, -1, -1, -1, -1, -1]),
    }
    await fleet.exporter.poll_once()
    assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.5
    assert await fleet.value('job_cpu_utilization_ratio{job_id="b"}') is None
    assert await fleet.value('job_usage_timestamp_seconds{job_id="a"}') is None  # nothing dates it


@trap("8.4.6 percent, and more than all is no reading")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]
    cloud.metrics = {("a", "worker-0"): _metrics(cpuUsage=[150], memUsage=[101], gpuUtil=[640], gpuMemUsage=["x", -7])}
    await fleet.exporter.poll_once()
    assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 1.5
    assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 1
    assert await fleet.lines("job_accelerator") == []
    assert fleet.own("dropped_readings_total", collector="task_metrics", reason="out_of_range") == 2


@trap("8.4.8 node conditions are lists by flavor; a key that is left out is an empty one")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    resources = {"available": [{"flavor": "a", "count": 3}, {"flavor": "b", "count": "2"}], "abnormal": [{"count": 1}]}
    cloud.pools = [
        {
            "metadata": {"name": "pool-1", "labels": {"os.modelarts/name": "train-a"}},
            "spec": {"type": "Logical"},
            "status": {"phase": "ScalingFailed", "resources": resources, "root": "pool-0"},
        },
        {"metadata": {"name": "pool-0"}, "status": {"phase": "Frozen", "root": "pool-0"}},
    ]
    await fleet.exporter.poll_once()
    nodes = {line.split('status="')[1].split('"')[0]: line.split()[-1] for line in await fleet.lines("pool_nodes")}
    assert nodes == {"available": "5", "abnormal": "1", "creating": "0", "deleting": "0"}
    assert await fleet.value('pool_status{pool_id="pool-1",status="abnormal"}') == 1
    assert await fleet.value('pool_status{pool_id="pool-0",status="unknown"}') == 1
    info = 'pool_info{pool_id="pool-1",pool_name="train-a",resource_type="Logical",parent_pool_id="pool-0"}'
    assert await fleet.value(info) == 1


@trap("8.4.10 everything is optional")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    bare: dict[str, Any] = {"metadata": {"id": "a"}, "status": {"phase": "Running"}}
    nulls = {"metadata": {"id": "b", "workspace_id": None}, "status": {"phase": "Running", "tasks": None}, "spec": None}
    cloud.jobs = [bare, nulls, {"metadata": {}, "status": {"phase": "Running"}}]
    cloud.pools = [{"metadata": None}, "x", {"metadata": {"name": "pool-1"}}]  # type: ignore[list-item]  # hostile rows
    cloud.answer = lambda path, request: httpx.Response(503) if path.endswith("/pools") else None
    await fleet.exporter.poll_once()
    assert fleet.own("collector_success", collector="pool_usage") == 0  # which pools there are is not known
    cloud.answer = lambda path, request: None
    await fleet.exporter.poll_once()
    assert len(await fleet.lines("job_info")) == 2
    assert all('workspace_id="0"' in line for line in await fleet.lines("job_info"))
    assert fleet.own("dropped_readings_total", collector="jobs", reason="malformed") == 2
    assert len(await fleet.lines("pool_info")) == 1


@trap("2 times that are not set are absent", V1)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    year_1 = -62135596800
    cloud.jobs = [job("a", start_time=year_1 * 1000), job("b", start_time="0"), job("c", start_time=-1)]
    cloud.jobs[0]["metadata"]["create_time"] = year_1 * 1000
    cloud.jobs[1]["metadata"]["create_time"] = 0
    cloud.v1_jobs = [{"job_id": 2, "version_id": 3, "status": 8, "create_time": 0, "duration": 0}]
    cloud.v1_versions = {"2": [{"version_id": 3, "status": 8, "create_time": year_1 * 1000, "start_time": 28_800_000}]}
    await fleet.exporter.poll_once()
    assert len(await fleet.lines("job_info")) == 4
    for row, end in zip(cloud.jobs, (year_1, 0, int(START) + 20), strict=True):
        row["status"] |= {"phase": "Completed", "running_records": [{"start_at": 0, "end_at": end}]}
    await asyncio.sleep(60)
    await fleet.runner("jobs").tick()
    times = [line for line in await fleet.lines("job_") if "_timestamp_seconds{" in line]
    assert sorted(line.removeprefix("trainfleet_") for line in times) == [
        f'job_created_timestamp_seconds{{provider="p",job_id="c"}} {START - 7200:.0f}',
        f'job_finished_timestamp_seconds{{provider="p",job_id="c"}} {START + 20:.0f}',
    ]
    assert await fleet.value('jobs_finished_total{workspace_id="0",status="succeeded"}') == 3
    assert fleet.own("dropped_readings_total", collector="jobs", reason="out_of_range") == 0


@trap("3.2 how a job ended is asked by its id")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job(f"j{n}") for n in range(12)]
    await fleet.exporter.poll_once()
    ended = int(START) + 20
    for row in cloud.jobs:
        row["status"] |= {"phase": "Failed", "running_records": [{"end_at": ended, "end_reason": "OOM"}]}
    await asyncio.sleep(60)
    await fleet.runner("jobs").tick()
    assert await fleet.value('jobs_finished_total{workspace_id="0",status="failed"}') == 12
    assert await fleet.value('job_finished_timestamp_seconds{job_id="j0"}') == ended
    assert await fleet.value('job_status_reason{job_id="j0",reason="OOM"}') == 1
    by_id = [about for about in cloud.called("searches") if about["filters"][0]["key"] == "id"]
    assert [len(about["filters"][0]["value"]) for about in by_id] == [10, 2]


@trap("6 restarts are the runs after the first, whatever started them")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    first, moved, in_place = (
        {"start_at": int(START) - 400 + 60 * place, "start_type": start_type}
        for place, start_type in enumerate(["init_or_rescheduled", "init_or_rescheduled", "restarted"])
    )
    cloud.jobs = [
        job("waits", "Pending"),
        job("fresh", running_records=[first]),
        job("moved-twice", running_records=[first, moved, moved]),
        job("both", running_records=[first, moved, in_place]),
    ]
    await fleet.exporter.poll_once()
    assert await fleet.value('job_restarts_total{job_id="waits"}') is None
    assert await fleet.value('job_restarts_total{job_id="fresh"}') == 0
    assert await fleet.value('job_restarts_total{job_id="moved-twice"}') == 2
    assert await fleet.value('job_restarts_total{job_id="both"}') == 2


@trap("a pool that two workspaces list is shown once, whichever answer comes first")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.workspaces.append({"id": "w" * 32, "name": "team"})
    cloud.pools = [{"metadata": {"name": "pool-1"}, "_workspace": "*"}]
    cloud.runtime = [{"metadata": {"name": "pool-1"}}, {"metadata": {"name": "of-a-workspace-that-is-not-polled"}}]
    cloud.slow = 0.05
    for _ in range(4):
        await fleet.exporter.poll_once()
        assert len(await fleet.lines("pool_info")) == 1
    assert fleet.own("dropped_readings_total", collector="pools", reason="duplicate") == 4
    assert fleet.own("dropped_readings_total", collector="pools", reason="unlisted") == 4


@trap("4.3 an amount with a long gap is malformed, and read in no time")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.pools = [{"metadata": {"name": "pool-1"}}]
    cloud.workloads["pool-1"] = {"statics": {"items": [{"type": "train", "status": {"Queue": "2"}}]}}
    amounts = ["1" + " " * 200_000 + "x", "1e1 Cards", "-2 Cards"]
    cloud.queued["pool-1"] = [
        {"uid": str(number), "pendingPosition": number, "resourceRequirement": {"huawei.com/ascend-1980": amount}}
        for number, amount in enumerate(amounts)
    ]
    with at_most(seconds=20):
        assert await fleet.exporter.poll_once()
    assert fleet.own("dropped_readings_total", collector="pool_workloads", reason="malformed") == 1
    assert fleet.own("dropped_readings_total", collector="pool_workloads", reason="out_of_range") == 1


@trap("4.6 what is allocated on a node is what is not available", NODES)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.pools = [{"metadata": {"name": "pool-1"}}]
    resources = {"cpu": "3920m", "memory": "6270Mi", "nvidia.com/gpu": "8", "huawei.com/ascend-snt9": 4}
    left = {"cpu": "920m", "memory": "270Mi", "nvidia.com/gpu": "8"}
    status = {"phase": "Available", "resources": resources, "availableResources": left}
    cloud.nodes["pool-1"] = [{"metadata": {"name": "n"}, "status": status}]
    assert await fleet.exporter.poll_once()
    assert await fleet.value('node_allocated_cpu_cores{pool_id="pool-1",node_name="n"}') == 3
    assert await fleet.value('node_allocated_memory_bytes{pool_id="pool-1",node_name="n"}') == 6000 * 2**20
    allocated = await fleet.lines("node_allocated_accelerators")
    assert len(allocated) == 1  # of the other kind it is not said what is left
    assert allocated[0].endswith('accelerator="gpu",accelerator_model="nvidia.com/gpu"} 0')


@pytest.mark.parametrize("name", trap.names)
def test_trap(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    trap.run(name, Cloud(), tmp_path, monkeypatch, caplog)
