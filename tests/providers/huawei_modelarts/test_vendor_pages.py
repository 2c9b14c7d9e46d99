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
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate
from trainfleet_exporter.providers.huawei_modelarts.usage.task_metrics import add_cards, add_pod
from trainfleet_exporter.providers.usage.sheet import Sheet

GOLDEN = Path(__file__).parent / "golden"
JOB = "2cd88daa-31a4-40a8-a58f-d186b0e93e4f"


@pytest.mark.parametrize(
    "page",
    cases("huawei-modelarts-v2-task-metrics.txt", TASK_METRICS, "Status code: 200\nok\n", "Status Codes"),
)
def test_v2_task_metrics_page(page: dict[str, Any]) -> None:
    sheet = Sheet(JOB)
    assert add_pod(sheet, "worker-0", payload(page, payloads.Metrics))
    assert not +sheet.dropped  # the kinds of devices that a CPU job does not have are no loss
    check_golden(GOLDEN / "page_v2_task_metrics.txt", lines(sheet.of_job("task_metrics")))


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
    translated = translate.pool_workloads("pool-a", payload(page, payloads.WorkloadStatisticsAnswer))
    assert translated is not None
    rows, dropped = translated
    assert not dropped
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
    answer = payload(page, payloads.Metrics)
    sheet = Sheet("10/10")
    assert add_pod(sheet, "pod1", answer)
    add_cards(sheet, "pod1", answer)  # the same shape with statistic_type=each
    assert not +sheet.dropped
    check_golden(GOLDEN / "page_v1_pod_metric_statistic.txt", lines(sheet.of_job("metric_statistic")))
