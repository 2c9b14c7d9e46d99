"""The vendor's own examples in, exposition lines out, with the clock at the samples' time."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.providers.alibaba_pai.vendor_pages import GET_JOB, GET_JOB_METRICS
from tests.support.exposition import lines
from tests.support.golden import check_golden
from tests.support.payloads import payload
from tests.support.vendor_pages import cases
from trainfleet_exporter.providers.alibaba_pai import payloads, translate
from trainfleet_exporter.providers.alibaba_pai.job_metrics import METRIC_TYPES, add
from trainfleet_exporter.providers.usage.sheet import Sheet

GOLDEN = Path(__file__).parent / "golden"
SAMPLE_TIME = datetime.fromisoformat("2021-03-29T03:15:26.587+00:00").timestamp()


@pytest.mark.parametrize(
    "answer",
    cases("alibaba-pai-dlc-get-job-metrics.txt", GET_JOB_METRICS, "JSONformat", "Error codes"),
)
def test_get_job_metrics_page(answer: dict[str, Any]) -> None:
    metrics, now = payload(answer, payloads.JobMetrics), SAMPLE_TIME + 30
    sheet = Sheet(answer["JobId"], now=now, max_age=900)
    for metric in METRIC_TYPES:  # the page shows one answer; each of the eight types has this shape
        add(sheet, metrics, metric, job_id=answer["JobId"], now=now)
    assert not sheet.dropped
    check_golden(GOLDEN / "page_get_job_metrics.txt", lines(sheet.of_job("job_metrics")))


def test_get_job_metrics_page_a_day_later_is_stale() -> None:
    metrics = payload(GET_JOB_METRICS, payloads.JobMetrics)
    job_id, now = GET_JOB_METRICS["JobId"], SAMPLE_TIME + 86400
    sheet = Sheet(job_id, now=now, max_age=900)
    add(sheet, metrics, METRIC_TYPES[0], job_id=job_id, now=now)
    assert sheet.of_job("job_metrics") == []
    assert sheet.dropped == {"stale": 1}


@pytest.mark.parametrize(
    "answer", cases("alibaba-pai-dlc-get-job.zh.txt", GET_JOB, "正常返回示例\n\nJSON格式", "错误码")
)
def test_get_job_page(answer: dict[str, Any]) -> None:
    job = translate.job(payload(answer, payloads.Job))
    assert job is not None
    detail, pods, dropped = translate.pods(payload(answer, payloads.JobPods))
    assert not dropped
    text = lines([job, detail, *pods], job_labels=("key",))
    check_golden(GOLDEN / "page_get_job.txt", text)


def test_get_job_page_while_it_ran() -> None:
    # The page's job has ended, so what it asked for is gone; its SubStatus says how it was before.
    job = translate.job(payload({**GET_JOB, "Status": "Running", "GmtFinishTime": None}, payloads.Job))
    assert job is not None
    check_golden(GOLDEN / "page_get_job_running.txt", lines([replace(job, tags=())]))
