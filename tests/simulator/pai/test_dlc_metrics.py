"""DLC GetMetrics: CloudMonitor's points of one job, for who may read DLC only."""

from __future__ import annotations

import json
from statistics import mean
from typing import Any

import pytest

from tests.simulator.client import START, Caller
from tests.simulator.pai.client import latest_answer
from trainfleet_simulator.pai.monitor_metrics import DLC
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.usage import reading

PATH = "/api/v1/cms/metrics"
NEWEST = int(START - 60) // 60 * 60
CPU = {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL"}


@pytest.fixture(scope="module")
def caller() -> Caller:
    return Caller()


def named(caller: Caller, name: str) -> Job:
    return next(job for job in caller.world.jobs.values() if job.draft.name == name)


def points(caller: Caller, **query: str) -> list[dict[str, Any]]:
    body = caller.body("dlc", "GetMetrics", PATH, **(CPU | query))
    assert (body["Code"], body["Success"]) == ("200", True)
    assert "Datapoints" not in body, "another spelling than CloudMonitor's own"
    found: list[dict[str, Any]] = json.loads(body["DataPoints"])
    return found


def test_the_last_hour_of_one_job(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    found = points(caller, JobId=job.job_id)
    times = [point["timestamp"] // 1000 for point in found]
    assert times == list(range(int(START - 3600) // 60 * 60 + 60, NEWEST + 1, 60))
    for point in found:
        of_pods = [reading("CpuCoreUsage", job, pod, point["timestamp"] // 1000) or 0 for pod in job.pods]
        assert point["Average"] == pytest.approx(mean(of_pods), abs=1e-3)
        assert point["jobId"] == job.job_id
    assert latest_answer(caller, "GetMetrics")["total"] == len(found)
    assert latest_answer(caller, "GetMetrics")["api"] == "dlc"


def test_a_range_is_open_at_its_start_and_closed_at_its_end(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    span = {"StartTime": "2026-01-02T02:00:00Z", "EndTime": "2026-01-02T02:30:00Z"}
    found = points(caller, JobId=job.job_id, Period="300", **span)
    assert [point["timestamp"] for point in found] == [(1767319200 + 300 * n) * 1000 for n in range(1, 7)]
    assert points(caller, JobId=job.job_id, StartTime="2026-01-02T03:04:00Z") == [], "not there yet"


def test_the_job_may_be_named_by_a_dimension_and_its_pods_chosen(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    span = {"StartTime": "2026-01-02T03:00:00Z"}
    one_pod = json.dumps([{"jobId": job.job_id, "pod": job.pods[1].pod_id}])
    found = points(caller, MetricName="POD_GPU_ACCELERATOR_DUTTY_UTIL", Dimensions=one_pod, **span)
    assert [point["pod"] for point in found] == [job.pods[1].pod_id] * 3
    cards = points(caller, MetricName="CARD_GPU_DUTY_CYCLE", Dimensions=one_pod, **span)
    assert [point["gpuId"] for point in cards] == [str(card) for card in range(8)] * 3


def test_pages(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    query = {**CPU, "MetricName": "CARD_GPU_DUTY_CYCLE", "JobId": job.job_id}
    whole = points(caller, **query)
    assert len(whole) == 59 * 16
    found: list[dict[str, Any]] = []
    while True:
        body = caller.body("dlc", "GetMetrics", PATH, **query, Length="400")
        found += json.loads(body["DataPoints"])
        if "NextToken" not in body:
            break
        query["NextToken"] = body["NextToken"]
    assert found == whole
    again = query | {"JobId": named(caller, "tts-on-spot").job_id}
    assert caller.refusal("dlc", "GetMetrics", PATH, **again) == (400, "ParameterInvalid")


def test_pay_as_you_go_general_computing_is_not_there(caller: Caller) -> None:
    assert points(caller, JobId=named(caller, "asr-steady").job_id) == []
    assert latest_answer(caller, "GetMetrics")["outcome"] == "no_data"


def test_a_job_that_has_not_started_has_no_points(caller: Caller) -> None:
    assert points(caller, JobId=named(caller, "waits-for-room").job_id) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, (400, "MissingJobId")),
        ({"Dimensions": '[{"pod": "x"}]', "MetricName": "POD_CPU_UTIL"}, (400, "MissingJobId")),
        ({"Dimensions": '[{"jobId": "a"}, {"jobId": "b"}]'}, (400, "MissingJobId")),
        ({"Dimensions": "x", "JobId": "a"}, (400, "InvalidParameter")),
        ({"JobId": "nosuch"}, (404, "NotFound")),
        ({"JobId": "nosuch", "MetricName": ""}, (400, "MissingMetricName")),
        ({"JobId": "nosuch", "MetricName": "JOB_NOSUCH"}, (400, "InvalidParameter")),
        ({"JobId": "nosuch", "Namespace": ""}, (400, "MissingNamespace")),
        ({"JobId": "nosuch", "Namespace": "acs_pai_quota"}, (400, "InvalidParameter")),
        ({"JobId": "nosuch", "Period": "5"}, (400, "InvalidParameter")),
        ({"JobId": "nosuch", "Length": "5001"}, (400, "InvalidParameter")),
    ],
    ids=str,
)
def test_refusals(caller: Caller, query: dict[str, str], expected: tuple[int, str]) -> None:
    assert caller.refusal("dlc", "GetMetrics", PATH, **(CPU | query)) == expected


def test_what_cannot_be_seen_and_what_is_too_much(caller: Caller) -> None:
    hidden = named(caller, "in-the-hidden-room").job_id
    assert caller.refusal("dlc", "GetMetrics", PATH, **CPU, JobId=hidden) == (404, "NotFound")
    old = {"JobId": named(caller, "llm-pretrain-70b").job_id, "StartTime": "2025-01-01T00:00:00Z"}
    assert caller.refusal("dlc", "GetMetrics", PATH, **CPU, **old) == (400, "InvalidParameter")
