"""The vendor's own examples in, exposition lines out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.providers.huawei_modelarts.vendor_pages import POD_METRICS_V1, TASK_METRICS, WORKLOAD_STATISTICS
from tests.support.exposition import lines
from tests.support.golden import check_golden
from tests.support.payloads import payload
from tests.support.vendor_pages import cases
from trainfleet_exporter.providers.huawei_modelarts.pools import StatisticsAnswer, workloads
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import JobReadings, Metrics

GOLDEN = Path(__file__).parent / "golden"
JOB = "2cd88daa-31a4-40a8-a58f-d186b0e93e4f"


@pytest.mark.parametrize(
    "page",
    cases("huawei-modelarts-v2-task-metrics.txt", TASK_METRICS, "Status code: 200\nok\n", "Status Codes"),
)
def test_v2_task_metrics_page(page: dict[str, Any]) -> None:
    readings = JobReadings(JOB)
    assert readings.add_pod("worker-0", payload(page, Metrics))
    check_golden(GOLDEN / "page_v2_task_metrics.txt", lines(readings.shown("task_metrics")))
    assert not +readings.dropped  # the kinds of devices that a CPU job does not have are no loss


@pytest.mark.parametrize(
    "page",
    cases(
        "huawei-modelarts-v2-pool-workload-statistics.txt",
        WORKLOAD_STATISTICS,
        "Status code: 200\nOK\n",
        "Status code: 400",
    ),
)
def test_pool_workload_statistics_page(page: dict[str, Any]) -> None:
    rows, dropped = workloads("pool-a", payload(page, StatisticsAnswer))
    assert not +dropped
    check_golden(GOLDEN / "page_pool_workload_statistics.txt", lines(rows))


@pytest.mark.parametrize(
    "page",
    cases(
        "huawei-modelarts-v1-pod-metric-statistic.zh.txt",
        POD_METRICS_V1,
        "成功响应示例\n\n    ```\n",
        "```",
    ),
)
def test_v1_pod_metric_statistic_page(page: dict[str, Any]) -> None:
    answer = payload(page, Metrics)
    readings = JobReadings("10/10")
    assert readings.add_pod("pod1", answer)
    readings.add_cards("pod1", answer)  # the same shape with statistic_type=each
    check_golden(GOLDEN / "page_v1_pod_metric_statistic.txt", lines(readings.shown("metric_statistic")))
    assert not +readings.dropped
