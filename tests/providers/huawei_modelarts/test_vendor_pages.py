"""The vendor's own examples in, the page out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, job
from tests.providers.huawei_modelarts.usage.usage_rig import FleetOf
from tests.support.fleet import Fleet
from tests.support.golden import check_golden
from tests.support.vendor_pages import cases

GOLDEN = Path(__file__).parent / "golden"
JOB = "2cd88daa-31a4-40a8-a58f-d186b0e93e4f"
V1 = CONFIG + "    collectors: {jobs_v1: {enabled: true}}\n"
CPU = "-1 -1 2.43 4.524 6.714 12.422 9.214 5.36 7.5 10.088 8.975 11.423 11.548 14.563 16.833"
MEMORY = "-1 -1 0.04 0.521 1.652 4.252 6.433 7.384 7.982 8.718 9.365 9.881 10.192 9.994 9.005"
SERIES = {"cpuUsage": CPU, "memUsage": MEMORY} | dict.fromkeys(
    ("gpuUtil", "gpuMemUsage", "npuUtil", "npuMemUsage"), "-1 " * 15
)
TASK_METRICS: dict[str, Any] = {
    "metrics": [{"metric": name, "value": [float(value) for value in text.split()]} for name, text in SERIES.items()]
}
WORKLOAD_STATISTICS: dict[str, Any] = {
    "statistics": {
        "total": 234,
        "items": [{"type": "train", "total": 234, "status": {"Pending": 0, "Queue": 234, "Running": 0}}],
    }
}
POD_METRICS_V1: dict[str, Any] = {"metrics": [{"metric": "gpuUtil", "value": ["1", "22", "33"]}], "interval": 1}


async def _check(fleet: Fleet, golden: str, *families: str) -> None:
    await fleet.exporter.poll_once()
    check_golden(GOLDEN / golden, "\n".join(await fleet.lines(*families)) + "\n")
    for collector in ("task_metrics", "jobs_v1", "pool_workloads"):
        for reason in ("malformed", "no_data", "duplicate", "out_of_range"):  # a CPU job's missing devices are no loss
            assert not fleet.own("dropped_readings_total", collector=collector, reason=reason)


@pytest.mark.parametrize(
    "page", cases("huawei-modelarts-v2-task-metrics.txt", TASK_METRICS, "Status code: 200\nok\n", "Status Codes")
)
async def test_v2_task_metrics_page(fleet_of: FleetOf, page: dict[str, Any]) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs, cloud.metrics = [job(JOB)], {(JOB, "worker-0"): page}
        await _check(
            fleet, "page_v2_task_metrics.txt", "job_usage", "job_cpu", "job_mem", "job_acc", "pod_cpu", "pod_mem"
        )


@pytest.mark.parametrize(
    "page",
    cases(
        "huawei-modelarts-v2-pool-workload-statistics.txt",
        WORKLOAD_STATISTICS,
        "Status code: 200\nOK\n",
        "Status code: 400",
    ),
)
async def test_pool_workload_statistics_page(fleet_of: FleetOf, page: dict[str, Any]) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.pools, cloud.workloads = [{"metadata": {"name": "pool-a"}}], {"pool-a": page}
        await _check(fleet, "page_pool_workload_statistics.txt", "pool_workloads")


@pytest.mark.parametrize(
    "page",
    cases("huawei-modelarts-v1-pod-metric-statistic.zh.txt", POD_METRICS_V1, "成功响应示例\n\n    ```\n", "```"),
)
async def test_v1_pod_metric_statistic_page(fleet_of: FleetOf, page: dict[str, Any]) -> None:
    async with fleet_of(V1) as (cloud, fleet):
        cloud.v1_jobs = [{"job_id": 10, "version_id": 10, "status": 8}]
        cloud.v1_versions = {"10": [{"version_id": 10, "status": 8}]}
        cloud.v1_files = {"10/10": ["pod1"]}
        cloud.v1_metrics = {("pod1", of): page["metrics"] for of in ("all", "each")}
        await _check(fleet, "page_v1_pod_metric_statistic.txt", "job_usage", "job_acc", "pod_acc", "device")
