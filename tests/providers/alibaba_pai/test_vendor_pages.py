"""The vendor's own examples in, exposition lines out, with the clock at the samples' time."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.providers.alibaba_pai.vendor_pages import GET_JOB, GET_JOB_METRICS
from tests.support.clock import START
from tests.support.exposition import lines
from tests.support.golden import check_golden
from tests.support.payloads import payload
from tests.support.vendor_pages import cases
from trainfleet_exporter.fleet.jobs import JobTracker
from trainfleet_exporter.fleet.usage import NewestReadings, Subjects, page_readings, usage_sources
from trainfleet_exporter.providers.alibaba_pai import jobs
from trainfleet_exporter.providers.alibaba_pai.config import Usage
from trainfleet_exporter.providers.alibaba_pai.usage import JobMetrics, job_columns, metric_types, take
from trainfleet_exporter.providers.judging import ServerClock

GOLDEN = Path(__file__).parent / "golden"
SAMPLE_TIME = datetime.fromisoformat("2021-03-29T03:15:26.587+00:00").timestamp()


@pytest.mark.parametrize(
    "answer",
    cases("alibaba-pai-dlc-get-job-metrics.txt", GET_JOB_METRICS, "JSONformat", "Error codes"),
)
def test_get_job_metrics_page(answer: dict[str, Any]) -> None:
    job_id, metrics, subjects = answer["JobId"], payload(answer, JobMetrics), Subjects()
    found = []
    for each in metric_types(Usage()):  # each of the eight types has this shape
        newest = NewestReadings("pod", {job_id: 0.0}, subjects, now=SAMPLE_TIME + 30, max_age=900)
        take(metrics, newest, job_id)
        assert not +newest.dropped
        found.append((each, newest))
    kept = job_columns(found)
    text = lines([*page_readings(kept), *usage_sources(kept, "job_metrics")])
    check_golden(GOLDEN / "page_get_job_metrics.txt", text)


@pytest.mark.parametrize(
    "answer", cases("alibaba-pai-dlc-get-job.zh.txt", GET_JOB, "正常返回示例\n\nJSON格式", "错误码")
)
def test_get_job_page(answer: dict[str, Any]) -> None:
    job = jobs.job(payload(answer, jobs.JobRow))
    assert job is not None
    tracker = JobTracker("w", ServerClock(), retention=math.inf)
    tracker.update({job.job_id: job}, START)  # it ended, and requests nothing any more
    text = lines([*tracker.jobs(), *jobs.pods(payload(answer, jobs.JobRow))], job_labels=("key",))
    check_golden(GOLDEN / "page_get_job.txt", text)


def test_get_job_page_while_it_ran() -> None:
    # The page's job has ended, so what it asked for is gone; its SubStatus says how it was before.
    job = jobs.job(payload({**GET_JOB, "Status": "Running", "GmtFinishTime": None}, jobs.JobRow))
    assert job is not None
    check_golden(GOLDEN / "page_get_job_running.txt", lines([replace(job, tags=())]))
