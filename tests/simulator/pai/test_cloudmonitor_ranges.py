"""CloudMonitor's ranges: which points they hold, in pages, for how long, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulator.client import START, Caller, refusal
from tests.simulator.pai.client import Points, answered, rpc
from trainfleet_simulator.pai.monitor_metrics import DLC, QUOTA
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.usage import reading

DAY = 86_400
NEWEST = int(START - 60) // 60 * 60


@pytest.fixture(scope="module")
def caller() -> Caller:
    return Caller()


def named(caller: Caller, name: str) -> Job:
    return next(job for job in caller.world.jobs.values() if job.draft.name == name)


def asked(caller: Caller, metric: str, **query: str) -> dict[str, Any]:
    given = {"Namespace": QUOTA if metric.startswith("QUOTA") else DLC, "MetricName": metric, "Length": "1440", **query}
    return answered(rpc(caller, "cloudmonitor", "DescribeMetricList", **given))


def points(caller: Caller, metric: str, start: int, end: int, **query: str) -> Points:
    times = {"StartTime": str(start * 1000), "EndTime": str(end * 1000)}
    found: Points = json.loads(asked(caller, metric, **times, **query)["Datapoints"])
    return found


def of(job: Job) -> str:
    return json.dumps([{"jobId": job.job_id}])


def test_a_range_is_open_at_its_start_and_closed_at_its_end(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    end = NEWEST - 3600
    found = points(caller, "POD_CPU_UTIL", end - 300, end, Dimensions=of(job))
    assert sorted({point["timestamp"] // 1000 for point in found}) == [end - 240 + 60 * step for step in range(5)]
    for point in found:
        (pod,) = [pod for pod in job.pods if pod.pod_id == point["pod"]]
        assert point["Average"] == reading("CpuCoreUsage", job, pod, point["timestamp"] // 1000)


def test_pages_hold_all_of_it_once(caller: Caller) -> None:
    job, end = named(caller, "llm-pretrain-70b"), NEWEST - 600
    times = {"StartTime": str((end - 1800) * 1000), "EndTime": str(end * 1000)}
    whole = points(caller, "CARD_GPU_DUTY_CYCLE", end - 1800, end, Dimensions=of(job))
    assert len(whole) == 30 * 16
    found: Points = []
    token: dict[str, str] = {}
    for _ in range(100):
        body = asked(caller, "CARD_GPU_DUTY_CYCLE", Dimensions=of(job), **times, **token, Length="77")
        found += json.loads(body["Datapoints"])
        if "NextToken" not in body:
            break
        token = {"NextToken": body["NextToken"]}
    assert found == whole


def test_points_are_kept_for_a_month_or_three() -> None:
    caller = Caller(still=True)  # so that a month passes at once
    job = named(caller, "llm-pretrain-70b")
    start = job.running or 0
    caller.clock.now = start + 31 * DAY + 3600
    assert not points(caller, "JOB_CPU_UTIL", start, start + 3000, Dimensions=of(job))
    assert points(caller, "JOB_CPU_UTIL", start, start + 3000, Dimensions=of(job), Period="300")


def test_quotas_have_a_past(caller: Caller) -> None:
    found = points(caller, "QUOTA_CPU_UTIL", NEWEST - 600, NEWEST - 300)
    assert {point["timestamp"] // 1000 for point in found} == {NEWEST - 540 + 60 * step for step in range(5)}
    assert all(0 <= point["Average"] <= 100 for point in found)


def test_more_than_a_month_and_a_backward_range_are_refused(caller: Caller) -> None:
    query = {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "EndTime": str(NEWEST * 1000)}
    for start in (NEWEST - 32 * DAY, NEWEST + 60):
        answer = rpc(caller, "cloudmonitor", "DescribeMetricList", **query, StartTime=str(start * 1000))
        assert refusal(answer) == (400, "ParameterInvalid")


def test_ranges_spend_the_same_allowance() -> None:
    caller = Caller()
    caller.simulator.monitor.quota = 1
    query = {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL"}
    answered(rpc(caller, "cloudmonitor", "DescribeMetricList", **query))
    assert refusal(rpc(caller, "cloudmonitor", "DescribeMetricLast", **query)) == (400, "Throttling.User")
