"""The traps of PAI's objects: statuses, types, values and times; by the API reference's section and number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, at, job, metric, point
from tests.support.clock import START
from tests.support.fleet import Fleet
from tests.support.traps import Traps

CLOUDMONITOR = CONFIG.replace("source: job_metrics", "source: cloudmonitor")

trap = Traps(CONFIG)
MS = 1000


def _refuse(operation: str, response: httpx.Response) -> Callable[[str, dict[str, str]], httpx.Response | None]:
    return lambda called, query: response if called == operation else None


def _points(pod: str, *values: float, age: float = 30) -> list[dict[str, object]]:
    return [{"PodId": pod, "Metrics": [{"Time": int((START - age) * MS), "Value": value} for value in values]}]


def _monitor(cloud: Cloud, name: str = "JOB_CPU_UTIL", unit: str = "%") -> None:
    """One running job, and one metric of the catalogue with a point of it."""
    cloud.jobs = [job("a")]
    cloud.catalogue = [metric(name, unit)]
    cloud.points[name] = [point("a", 50)]


@trap("5.1 thirteen statuses, two old ones, and the set is open")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a", "Queuing"), job("b", "SanityChecking"), job("c", "EnvPreparing")]
    await fleet.exporter.poll_once()
    assert await fleet.value('job_status{job_id="a",status="queued"}') == 1
    assert await fleet.value('job_status{job_id="b",status="starting"}') == 1
    cloud.jobs[0]["Status"] = "Dequeued"  # known, no longer documented as a filter
    cloud.jobs[1]["Status"] = "Hibernating"  # not known at all
    cloud.jobs.append(job("d", "Hibernating", GmtCreateTime=at(0)))  # from the first poll on
    await fleet.exporter.poll_once()
    assert await fleet.value('job_status{job_id="a",status="starting"}') == 1
    for job_id in "bd":
        assert await fleet.value(f'job_status{{job_id="{job_id}",status="unknown"}}') == 1
        assert await fleet.value(f'job_platform_status{{job_id="{job_id}",platform_status="Hibernating"}}') == 1
        assert await fleet.value(f'job_holds_resources{{job_id="{job_id}"}}') is None  # unknown
    assert await fleet.value('jobs{workspace_id="1",status="unknown",platform_status="Hibernating"}') == 2


@trap("5.1 jobs hold accelerators after their end")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a", "SucceededReserving", RequestGPU="8", GmtFinishTime=at(-5 * 3600))]
    await fleet.exporter.poll_once()
    assert await fleet.value('job_status{job_id="a",status="succeeded"}') == 1
    assert await fleet.value('job_holds_resources{job_id="a"}') == 1
    gpus = 'job_requested_accelerators{job_id="a",accelerator="gpu",accelerator_model=""}'
    assert await fleet.value(gpus) == 8
    assert await fleet.value('jobs{workspace_id="1",status="succeeded",platform_status="SucceededReserving"}') == 1
    cloud.jobs[0]["Status"] = "Succeeded"
    cloud.jobs.append(job("b", "FailedReserving", GmtCreateTime=at(5)))  # it ran between two polls
    await asyncio.sleep(60)
    await fleet.exporter.poll_once()
    assert await fleet.value('jobs_finished_total{workspace_id="1",status="failed"}') == 1
    assert await fleet.value('job_holds_resources{job_id="a"}') == 0  # its retention begins only now
    assert await fleet.value(gpus) is None


@trap("5.1 SubStatus refines Running only")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a", SubStatus="Restarting"), job("b", "Queuing", SubStatus="Restarting")]
    await fleet.exporter.poll_once()
    assert await fleet.value('jobs{workspace_id="1",status="restarting",platform_status="Running"}') == 1
    assert await fleet.value('job_status{job_id="b",status="queued"}') == 1


@trap("5.1 the status is Succeeded, its time field GmtSuccessedTime")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]
    await fleet.exporter.poll_once()
    cloud.jobs[0] |= {"Status": "Succeeded", "GmtSuccessedTime": at(-5)}
    await fleet.exporter.poll_once()
    assert await fleet.value('job_finished_timestamp_seconds{job_id="a"}') == START - 5
    assert await fleet.value('jobs_finished_total{workspace_id="1",status="succeeded"}') == 1


@trap("5.2 pod states: Unknown, Stopped, Evicted, Preempted")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]
    states = [("Unknown", "Normal"), ("Stopped", ""), ("Failed", "Evicted"), ("Failed", "Preempted")]
    cloud.details["a"] = job("a") | {
        "Pods": [
            {"PodId": f"a-worker-{n}", "Type": "Worker", "Status": status, "SubStatus": sub}
            for n, (status, sub) in enumerate(states)
        ]
    }
    await fleet.exporter.poll_once()
    assert await fleet.value('pod_status{job_id="a",pod_id="a-worker-0",status="unknown"}') == 1
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-0"}') == 0
    assert await fleet.value('pod_status{job_id="a",pod_id="a-worker-1",status="stopped"}') == 1
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-1"}') is None
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-2"}') == 1
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-3"}') == 1
    assert await fleet.value('job_pods{job_id="a",role="Worker",status="failed"}') == 2


@trap("5.2 evictions of replaced pods are in HistoryPods")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]

    def pod(place: int, earlier: list[dict[str, Any]], **changes: str) -> dict[str, Any]:
        shown = {"PodId": f"a-worker-{place}", "Type": "Worker", "Status": "Running", "SubStatus": "Normal"}
        return shown | {"HistoryPods": earlier} | changes

    failed = {"PodId": "a-worker-0", "PodUid": "u0", "Status": "Failed", "SubStatus": "Normal"}
    evicted = failed | {"SubStatus": "Evicted"}
    cloud.details["a"] = job("a") | {
        "Pods": [
            pod(0, [evicted, evicted | {"PodUid": "u1"}]),
            pod(1, [failed]),
            pod(2, [failed, evicted | {"PodId": "a-worker-2-earlier", "SubStatus": "Preempted"}], SubStatus=""),
            pod(3, [failed], SubStatus=""),
            pod(4, [failed], Status="Failed", SubStatus="Evicted"),
            pod(5, [], SubStatus="Rebalanced"),
            pod(6, [failed | {"SubStatus": "Rebalanced"}]),
        ]
    }
    await fleet.exporter.poll_once()
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-0"}') == 1
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-1"}') == 0
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-2"}') == 1
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-3"}') is None  # of the present one it is not said
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-4"}') == 1
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-5"}') is None  # an unknown word does not say
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-6"}') is None
    assert len(await fleet.lines("pod_evicted")) == 4
    found = {pod: await fleet.value(f'pod_evictions_total{{job_id="a",pod_id="a-worker-{pod}"}}') for pod in range(7)}
    assert found == {0: 2, 1: 0, 2: 1, 3: None, 4: 1, 5: None, 6: None}
    assert await fleet.value('job_replaced_pods{job_id="a",role="Worker"}') == 8
    cloud.details["a"]["Pods"][0]["HistoryPods"] = []  # no longer reported
    await asyncio.sleep(300)
    await fleet.runner("pods").tick()
    assert await fleet.value('pod_evicted{job_id="a",pod_id="a-worker-0"}') == 0


@trap("5.4 payment type: no row says it, quota and specs do")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    spot = {"Type": "Worker", "PodCount": 1, "UseSpotInstance": True}
    cloud.jobs = [job("a"), job("b", ResourceId=""), job("c", JobSpecs=[spot])]
    await fleet.exporter.poll_once()
    payment = [line.split('payment_type="')[1].split('"')[0] for line in await fleet.lines("job_info")]
    assert payment == ["PrePaid", "PostPaid", "Spot"]


@trap("5.6 accelerator models are internal codes, shown raw")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.quotas = [{"QuotaId": "quota1", "GPUType": "GU8T", "QuotaDetails": {"ActualMinQuota": {"GPU": "144"}}}]
    spec = {"Type": "Worker", "PodCount": 2, "ResourceConfig": {"GPU": "4", "GPUType": "PPU-1"}}
    master = {"Type": "Master", "PodCount": 1, "ResourceConfig": {"CPU": "4"}}  # without GPUs
    cloud.jobs = [job("a", RequestGPU="16"), job("b", JobSpecs=[spec, master])]
    await fleet.exporter.poll_once()
    label = 'accelerator="gpu",accelerator_model'
    assert await fleet.value(f'pool_capacity_accelerators{{pool_id="quota1",{label}="GU8T"}}') == 144
    assert await fleet.value(f'job_requested_accelerators{{job_id="a",{label}="GU8T"}}') == 16
    assert await fleet.value(f'job_requested_accelerators{{job_id="b",{label}="PPU-1"}}') == 8


@trap("7.2 the same field comes in other types from list and detail")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    listed: dict[str, Any] = {
        "RequestGPU": "8",
        "RequestMemory": "512Gi",
        "RequestCPU": 92,
        "NodeCount": "2",
        "RestartTimes": "2",
    }
    cloud.jobs = [job("a", **listed)]
    cloud.details["a"] = job("a", RequestGPU=8.0, RequestMemory=512.0, RestartTimes="2/10")
    await fleet.exporter.poll_once()
    expected = ["92", str(512 * 2**30), "2", "8", "2", "10"]
    names = [
        "requested_cpu",
        "requested_memory",
        "requested_nodes",
        "requested_acc",
        "restarts_total",
        "restarts_allowed",
    ]
    for name, value in zip(names, expected, strict=True):
        (line,) = await fleet.lines(f"job_{name}")
        assert line.rpartition(" ")[2] == value
    cloud.jobs[0]["Status"] = "Dequeued"  # in no list now: looked up by id, in the detail's types
    cloud.details["a"]["Status"] = "Dequeued"
    await fleet.exporter.poll_once()
    (memory,) = await fleet.lines("job_requested_memory")
    assert memory.endswith(f" {512 * 2**30}")
    assert await fleet.value('job_restarts_total{job_id="a"}') == 2


@trap("7.3 memory comes in mixed units within one answer")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    details = {
        "ActualMinQuota": {"CPU": "3312", "GPU": "144", "Memory": "32400Gi"},
        "AllocatedQuota": {"CPU": "103", "GPU": "5", "Memory": "558080Mi"},
    }
    cloud.quotas = [{"QuotaId": "q", "QuotaDetails": details}]
    await fleet.exporter.poll_once()
    assert await fleet.value('pool_capacity_memory_bytes{pool_id="q"}') == 32400 * 2**30
    assert await fleet.value('pool_allocated_memory_bytes{pool_id="q"}') == 558080 * 2**20
    assert await fleet.value('pool_capacity_cpu_cores{pool_id="q"}') == 3312


@trap("7.4 missing, null and empty are all absent, and none of them zero")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [
        job("a", "Queuing", GmtRunningTime=None, RequestGPU=None, Priority=""),
        job("b", "Queuing", GmtRunningTime="", Pods=None, NodeCount="null"),
    ]
    cloud.details = {"a": job("a", Pods=None), "b": job("b", Pods=[])}
    cloud.quotas = [{"QuotaId": "q", "QuotaDetails": None}, None, "x", {}]  # type: ignore[list-item]  # hostile rows
    await fleet.exporter.poll_once()
    assert await fleet.lines("job_started", "job_requested_acc", "job_priority", "job_requested_nodes", "pod_") == []
    assert await fleet.lines("pool_capacity", "pool_allocated", "pool_empty") == []
    assert len(await fleet.lines("pool_info")) == 1
    assert fleet.own("dropped_readings_total", collector="pools", reason="malformed") == 3


@trap("7.5 percent is not ratio, and more than all is no reading")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a"), job("b"), job("c")]
    for job_id, gpu in (("a", 87.5), ("b", 101.0), ("c", 640.0)):  # c: a sum over eight cards, perhaps
        cloud.metrics[(job_id, "CpuCoreUsage")] = _points(f"{job_id}-worker-0", 150.0)
        cloud.metrics[(job_id, "GpuCoreUsage")] = _points(f"{job_id}-worker-0", gpu)
    for value in ("NaN", -1):  # newer, and not true
        cloud.metrics["a", "GpuCoreUsage"][0]["Metrics"].append({"Time": int((START - 20) * MS), "Value": value})
    await fleet.exporter.poll_once()
    assert await fleet.value('job_accelerator_utilization_ratio{job_id="a",accelerator="gpu"}') == 0.875
    assert await fleet.value('job_accelerator_utilization_ratio{job_id="b",accelerator="gpu"}') == 1
    assert await fleet.value('job_accelerator_utilization_ratio{job_id="c",accelerator="gpu"}') is None
    assert await fleet.value('job_cpu_utilization_ratio{job_id="c"}') == 1.5
    assert fleet.own("dropped_readings_total", collector="job_metrics", reason="out_of_range") == 1


@trap("7.6 an empty metric answer is no data, not zero")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a"), job("b")]
    cloud.metrics[("b", "CpuCoreUsage")] = None
    assert await fleet.exporter.poll_once()
    assert await fleet.lines("job_cpu", "job_accelerator", "job_usage", "pod_cpu") == []
    assert fleet.own("dropped_readings_total", collector="job_metrics", reason="no_data") == 2
    assert fleet.own("api_requests_total", api="dlc", operation="GetJobMetrics", outcome="no_data") == 2


@trap("7.7 metric times are milliseconds, job times ISO text")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a", GmtSubmittedTime=at(-590))]
    cloud.metrics[("a", "CpuCoreUsage")] = _points("a-worker-0", 50.0, age=60) + _points("a-worker-1", 50.0, age=3600)
    await fleet.exporter.poll_once()
    assert await fleet.value('job_usage_timestamp_seconds{job_id="a"}') == START - 60
    assert await fleet.value('job_submitted_timestamp_seconds{job_id="a"}') == START - 590
    assert fleet.own("dropped_readings_total", collector="job_metrics", reason="stale") == 1


@trap("7.9 ids are opaque")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    odd = ["dlc-20210126170216-1fdk9p0eu8ycd", "dlc1example0001a", "a/../b", 'q"u\\o', "ü"]
    cloud.jobs = [job(job_id) for job_id in odd]
    await fleet.exporter.poll_once()
    assert len(await fleet.lines("job_info")) == len(odd)
    assert {query["path"] for query in cloud.called("GetJob")} == {f"/api/v1/jobs/{job_id}" for job_id in odd}


@trap("7.10 PodId may be a bare role, and then twice the same: the newest counts")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]
    pod = {"PodId": "Worker", "Type": "Worker", "Status": "Running"}
    old = pod | {"Status": "Failed", "GmtCreateTime": at(-550)}
    cloud.details["a"] = job("a", Pods=[old, pod | {"GmtCreateTime": at(-190)}])
    await fleet.exporter.poll_once()
    assert await fleet.value('pod_status{job_id="a",pod_id="Worker",status="running"}') == 1
    assert fleet.own("dropped_readings_total", collector="pods", reason="duplicate") == 1


@trap("7.2 amounts are quantities of Kubernetes, with every suffix and exponent")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    memory = {"64e9": 64e9, "1.5E3": 1500, "+2Gi": 2 * 2**30, "512000000k": 512e9, "1P": 1e15, "2e+3": 2000, "0": 0}
    cores = {"1e1": 10, "500m": 0.5, "2500000u": 2.5, "4000000000n": 4, "20e-1": 2, "8.": 8, ".5k": 500}
    cloud.jobs = [
        job(f"j{number}", RequestMemory=size, RequestCPU=count)
        for number, (size, count) in enumerate(zip(memory, cores, strict=True))
    ]
    await fleet.exporter.poll_once()
    shown = [await fleet.value(f'job_requested_memory_bytes{{job_id="j{number}"}}') for number in range(len(memory))]
    assert shown == list(memory.values())
    shown = [await fleet.value(f'job_requested_cpu_cores{{job_id="j{number}"}}') for number in range(len(cores))]
    assert shown == list(cores.values())
    assert fleet.own("dropped_readings_total", collector="jobs", reason="malformed") == 0
    assert fleet.own("dropped_readings_total", collector="jobs", reason="out_of_range") == 0


@trap("7.2 what is no quantity is absent and counted, for each field")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    malformed = ["1e", "e3", "64GiB", "1 Gi", "1ee3", "--1", "1K", "inf", "NaN", "0x10", "1" * 41, "1e99999"]
    out_of_range = ["-1Gi", "-5", "1e300", "1e999", "20Ei"]
    fields = ("RequestMemory", "RequestCPU", "RequestGPU")
    cloud.jobs = [job(str(n), **dict.fromkeys(fields, text)) for n, text in enumerate([*malformed, *out_of_range])]
    cloud.jobs.append(job("none", **dict.fromkeys(fields, "-1")))  # means "none"
    cloud.jobs.append(job("large", RequestMemory=1e12, RequestCPU=1e30))  # a bare number of memory counts GiB
    await fleet.exporter.poll_once()
    assert await fleet.lines("job_requested_memory", "job_requested_cpu", "job_requested_accelerators") == []
    lost = {
        reason: fleet.own("dropped_readings_total", collector="jobs", reason=reason)
        for reason in ("malformed", "out_of_range")
    }
    assert lost == {"malformed": 3 * len(malformed), "out_of_range": 3 * len(out_of_range) + 2}


@trap("7.14 UsedQuota retires in favour of AllocatedQuota")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    used, odd = {"UsedQuota": {"CPU": "3"}}, {"CPU": 0, "GPU": "many", "Memory": ""}
    cloud.quotas = [
        {"QuotaId": "old", "QuotaDetails": {**used, "AllocatedQuota": {"CPU": "", "GPU": ""}}},
        {"QuotaId": "new", "QuotaDetails": {**used, "AllocatedQuota": odd, "ActualMinQuota": odd}},
    ]
    await fleet.exporter.poll_once()
    assert await fleet.value('pool_allocated_cpu_cores{pool_id="old"}') == 3
    assert await fleet.value('pool_allocated_cpu_cores{pool_id="new"}') == 0
    assert fleet.own("dropped_readings_total", collector="pools", reason="malformed") == 2  # one of each GPU


@pytest.mark.parametrize("name", trap.names)
def test_trap(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    trap.run(name, Cloud(), tmp_path, monkeypatch, caplog)
