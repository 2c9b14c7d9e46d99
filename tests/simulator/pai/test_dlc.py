"""DLC operations: strict in what they take, and shaped as the real ones in what they answer."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.simulator.client import START, Caller
from trainfleet_simulator.pai.catalog import ECS_SPECS
from trainfleet_simulator.pai.dlc_rows import NEVER
from trainfleet_simulator.world.nouns import JOB_STATUSES, LIVE, PLANTED_SECRETS
from trainfleet_simulator.world.usage import METRIC_TYPES

EARLY = "2000-01-01T00:00:00Z"
JOBS = "/api/v1/jobs"


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(scope="module")
def caller() -> Caller:
    """Its clock stands still, so that what one test sees another does not change."""
    return Caller()


@pytest.mark.parametrize(
    "query",
    [
        {"Status": "Running,Queuing"},
        {"Status": "running"},
        {"Status": "Deleted"},
        {"PageSize": "0"},
        {"PageSize": "101"},
        {"PageSize": "ten"},
        {"PageNumber": "0"},
        {"PageNumber": "-1"},
        {"StartTime": "1767323045"},
        {"StartTime": "2026-01-01 00:00:00"},
        {"EndTime": "tomorrow"},
        {"TimeRangeField": "GmtModifiedTime"},
        {"SortBy": "Priority"},
        {"Order": "down"},
    ],
    ids=str,
)
def test_list_jobs_refuses(caller: Caller, query: dict[str, str]) -> None:
    assert caller.refusal("dlc", "ListJobs", JOBS, **query) == (400, "InvalidParameter")


def test_unknown_parameters_are_ignored(caller: Caller) -> None:
    assert caller.jobs(Colour="blue")["TotalCount"] == caller.jobs()["TotalCount"] > 0


def test_default_window_is_seven_days(caller: Caller) -> None:
    """The worst trap of the API: a job that has run for 20 days is not listed."""
    running = {job["DisplayName"] for job in caller.all_jobs(Status="Running")}
    assert "llm-pretrain-70b" not in running
    assert "asr-steady" in running
    rows = {job["DisplayName"]: job for job in caller.all_jobs(Status="Running", StartTime=EARLY)}
    assert rows["llm-pretrain-70b"]["Duration"] > 19.9 * 86400
    week = caller.all_jobs()
    assert {job["JobId"] for job in week} < {job["JobId"] for job in caller.all_jobs(StartTime=EARLY)}
    assert min(job["GmtCreateTime"] for job in week) >= at(START - 7 * 86400)


def test_end_time_bounds_the_window(caller: Caller) -> None:
    rows = caller.all_jobs(StartTime=at(START - 86400 * 10), EndTime=at(START - 86400 * 5))
    assert rows
    assert all(at(START - 86400 * 10) <= row["GmtCreateTime"] <= at(START - 86400 * 5) for row in rows)


def test_the_range_may_be_of_finish_times(caller: Caller) -> None:
    since = at(START - 1200)
    rows = caller.all_jobs(Status="Succeeded", TimeRangeField="GmtFinishTime", StartTime=since)
    assert rows
    expected = {
        job["JobId"] for job in caller.all_jobs(Status="Succeeded", StartTime=EARLY) if job["GmtFinishTime"] >= since
    }
    assert {row["JobId"] for row in rows} == expected
    assert caller.jobs(Status="Running", TimeRangeField="GmtFinishTime", StartTime=EARLY)["TotalCount"] == 0


def test_job_with_resources_after_its_end_has_not_finished(caller: Caller) -> None:
    for name, status, ended in (
        ("holds-after-success", "SucceededReserving", "GmtSuccessedTime"),
        ("holds-after-failure", "FailedReserving", "GmtFailedTime"),
    ):
        job = caller.job(name)
        assert job["Status"] == status
        assert job["GmtFinishTime"] is None
        assert job[ended] is not None
        assert [pod["Status"] for pod in job["Pods"]][1:] == ["Running"] * (len(job["Pods"]) - 1)
        assert job["Pods"][0]["Status"] == ("Failed" if status.startswith("Failed") else "Running")


def test_each_job_is_in_exactly_one_status_and_all_are_visible(caller: Caller) -> None:
    by_status = {status: caller.all_jobs(Status=status, StartTime=EARLY) for status in JOB_STATUSES}
    assert all(by_status[status] for status in LIVE), "the world starts with every live status"
    ids = [row["JobId"] for rows in by_status.values() for row in rows]
    assert len(ids) == len(set(ids))
    assert set(ids) == {row["JobId"] for row in caller.all_jobs(StartTime=EARLY)}
    assert all(row["Status"] == status for status, rows in by_status.items() for row in rows)
    assert len(ids) == sum(job.draft.workspace_id != "98765" for job in caller.world.jobs.values())


def test_nothing_is_visible_without_membership(caller: Caller) -> None:
    hidden = [job for job in caller.world.jobs.values() if job.draft.workspace_id == "98765"]
    assert hidden
    assert caller.jobs(WorkspaceId="98765", StartTime=EARLY)["TotalCount"] == 0
    assert caller.jobs(WorkspaceId="no-such", StartTime=EARLY)["Jobs"] == []
    for path in (f"{JOBS}/{hidden[0].job_id}", f"{JOBS}/{hidden[0].job_id}/metrics"):
        action = "GetJobMetrics" if path.endswith("metrics") else "GetJob"
        assert caller.refusal("dlc", action, path, MetricType="CpuCoreUsage") == (404, "NotFound")


def test_filters(caller: Caller) -> None:
    everything = caller.all_jobs(StartTime=EARLY)

    def agree(wanted: Any, **query: str) -> None:
        expected = {row["JobId"] for row in everything if wanted(row)}
        assert expected, "a filter that matches nothing proves nothing"
        assert {row["JobId"] for row in caller.all_jobs(StartTime=EARLY, **query)} == expected

    agree(lambda row: row["WorkspaceId"] == "12346", WorkspaceId="12346")
    agree(lambda row: "pretrain" in row["DisplayName"], DisplayName="pretrain")
    agree(lambda row: row["DisplayName"].startswith("asr-"), DisplayName="asr-*")
    one, two = (row["JobId"] for row in everything[:2])
    agree(lambda row: row["JobId"] in {one, two}, JobIds=f"{one},{two}")


def test_pages_are_cut_from_one_order(caller: Caller) -> None:
    created = [row["GmtCreateTime"] for row in caller.all_jobs(StartTime=EARLY)]
    assert created == sorted(created, reverse=True)
    assert [row["GmtCreateTime"] for row in caller.all_jobs(StartTime=EARLY, Order="asc")] == sorted(created)
    small = caller.jobs(StartTime=EARLY, PageSize="7", PageNumber="3")
    assert len(small["Jobs"]) == 7
    assert small["Jobs"] == caller.all_jobs(StartTime=EARLY)[14:21]
    assert len(caller.jobs()["Jobs"]) == 10
    beyond = caller.jobs(StartTime=EARLY, PageNumber="500", PageSize="100")
    assert beyond["Jobs"] == []
    assert beyond["TotalCount"] == len(created)


def test_a_row_has_the_types_of_the_list(caller: Caller) -> None:
    for row in caller.all_jobs(StartTime=EARLY):
        assert row["Pods"] is None
        assert row["StatusHistory"] is None
        assert isinstance(row["NodeCount"], str)
        assert row["RestartTimes"].isdigit()
        assert type(row["Duration"]) is int
        assert 1 <= row["Priority"] <= 9
        if row["ResourceId"]:
            assert type(row["RequestCPU"]) is int
            assert row["RequestGPU"].isdigit()
            assert row["RequestMemory"].endswith(("Gi", "Mi"))
            assert {"CPU", "GPU", "Memory", "GPUType"} < set(row["JobSpecs"][0]["ResourceConfig"])
        else:
            assert "ResourceConfig" not in row["JobSpecs"][0]
            assert row["JobSpecs"][0]["EcsSpec"] in ECS_SPECS


def test_public_jobs_may_tell_no_more_than_their_machine_type(caller: Caller) -> None:
    reported = {row["RequestGPU"] for row in caller.all_jobs(StartTime=EARLY) if not row["ResourceId"]}
    assert None in reported
    assert len(reported) > 1


def test_times_that_were_not_reached_are_null_or_year_1(caller: Caller) -> None:
    for row in caller.all_jobs(Status="Queuing"):
        never = None if row["ResourceId"] else NEVER
        assert row["GmtSubmittedTime"] > EARLY
        assert row["GmtRunningTime"] == row["GmtFinishTime"] == row["GmtSuccessedTime"] == never
    running = caller.all_jobs(Status="Running", StartTime=EARLY)
    for row in running:
        never = None if row["ResourceId"] else NEVER
        assert row["GmtRunningTime"] > EARLY
        assert row["GmtFinishTime"] == row["GmtStoppedTime"] == row["GmtFailedTime"] == never
    assert {row["GmtFinishTime"] for row in running} == {None, NEVER}
    names = ("GmtCreateTime", "GmtSubmittedTime", "GmtRunningTime", "GmtFinishTime")
    for row in caller.all_jobs(StartTime=EARLY):
        times = [row[name] for name in names if row[name] not in (None, NEVER)]
        assert times == sorted(times)


def test_tags_clash_and_surprise(caller: Caller) -> None:
    tags = [row["Settings"]["Tags"] for row in caller.all_jobs(StartTime=EARLY)]
    assert {} in tags
    assert any({"cost-center", "cost_center"} <= set(tag) for tag in tags)
    assert any(not key.isascii() for tag in tags for key in tag)


def test_lists_hold_secrets_that_must_not_leak(caller: Caller) -> None:
    response = caller.get("dlc", "ListJobs", JOBS)
    assert all(secret in response.text for secret in PLANTED_SECRETS)


def test_get_job_has_the_types_of_the_detail(caller: Caller) -> None:
    job = caller.job("llm-pretrain-70b")
    assert job["RequestGPU"] == 16.0
    assert isinstance(job["RequestGPU"], float)
    assert job["RequestMemory"] == 3600.0
    assert isinstance(job["RequestMemory"], float)
    assert job["RequestCPU"] == 368
    assert job["RestartTimes"] == "0/10"
    assert [pod["PodId"] for pod in job["Pods"]] == [f"{job['JobId']}-master-0", f"{job['JobId']}-worker-0"]
    assert {pod["GmtFinishTime"] for pod in job["Pods"]} == {""}
    assert [entry["Status"] for entry in job["StatusHistory"]][-1] == "Running"
    assert all(one["EndTime"] == two["StartTime"] for one, two in pairwise(job["StatusHistory"]))


def test_a_job_that_waits_for_room_has_no_pods(caller: Caller) -> None:
    job = caller.job("waits-for-room")
    assert (job["Status"], job["ReasonCode"], job["Pods"]) == ("Queuing", "JobEnqueued", [])


@pytest.mark.parametrize(
    ("name", "status", "sub_status", "pod_sub_status"),
    [("restarts", "Restarting", "", "Evicted"), ("restarts-quietly", "Running", "Restarting", "Normal")],
)
def test_a_lost_pod_is_replaced_and_kept_as_history(
    caller: Caller, *, name: str, status: str, sub_status: str, pod_sub_status: str
) -> None:
    job = caller.job(name)
    assert (job["Status"], job["SubStatus"], job["RestartTimes"]) == (status, sub_status, "1/10")
    (replaced,) = [pod for pod in job["Pods"] if pod["HistoryPods"]]
    (old,) = replaced["HistoryPods"]
    assert (old["Status"], old["SubStatus"], old["PodId"]) == ("Failed", pod_sub_status, replaced["PodId"])
    assert old["PodUid"] != replaced["PodUid"]
    assert replaced["Status"] == "Pending"
    assert replaced["GmtStartTime"] == ""


def test_an_unknown_job_is_not_found(caller: Caller) -> None:
    assert caller.refusal("dlc", "GetJob", f"{JOBS}/dlcnosuch") == (404, "NotFound")
    assert caller.refusal("dlc", "GetJob", f"{JOBS}/dlc%2Fno%20such") == (404, "NotFound")


def _metrics(caller: Caller, name: str, **query: str) -> dict[str, Any]:
    job_id = caller.job(name)["JobId"]
    return caller.body("dlc", "GetJobMetrics", f"{JOBS}/{job_id}/metrics", **query)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({}, "MissingMetricType"),
        ({"MetricType": "GpuUsage"}, "InvalidParameter"),
        ({"MetricType": "gpucoreusage"}, "InvalidParameter"),
        ({"MetricType": "GpuCoreUsage", "TimeStep": "5"}, "InvalidParameter"),
        ({"MetricType": "GpuCoreUsage", "TimeStep": "0m"}, "InvalidParameter"),
        ({"MetricType": "GpuCoreUsage", "TimeStep": "1 m"}, "InvalidParameter"),
        ({"MetricType": "GpuCoreUsage", "StartTime": "1767323045000"}, "InvalidParameter"),
        ({"MetricType": "GpuCoreUsage", "StartTime": EARLY, "TimeStep": "1s", "EndTime": "x"}, "InvalidParameter"),
    ],
    ids=str,
)
def test_get_job_metrics_refuses(caller: Caller, query: dict[str, str], code: str) -> None:
    job_id = caller.job("asr-steady")["JobId"]
    assert caller.refusal("dlc", "GetJobMetrics", f"{JOBS}/{job_id}/metrics", **query) == (400, code)


@pytest.mark.parametrize("metric", METRIC_TYPES)
def test_metrics_of_a_pay_as_you_go_job(caller: Caller, metric: str) -> None:
    answer = _metrics(caller, "asr-steady", MetricType=metric, TimeStep="1m")
    assert [pod["PodId"] for pod in answer["PodMetrics"]] == [
        f"{answer['JobId']}-worker-0",
        f"{answer['JobId']}-worker-1",
    ]
    for pod in answer["PodMetrics"]:
        times = [point["Time"] for point in pod["Metrics"]]
        assert len(times) == 60, "the last hour by default"
        assert all(two - one == 60_000 for one, two in pairwise(times))
        assert START * 1000 - 60_000 < times[-1] <= START * 1000, "milliseconds"
        values = [point["Value"] for point in pod["Metrics"]]
        assert all(isinstance(value, float) for value in values)
        assert len(set(values)) > 1


def test_the_step_is_five_minutes_by_default(caller: Caller) -> None:
    answer = _metrics(caller, "asr-steady", MetricType="CpuCoreUsage")
    assert len(answer["PodMetrics"][0]["Metrics"]) == 12


def test_the_range_of_metrics(caller: Caller) -> None:
    start, end = START - 1800, START - 1500
    answer = _metrics(
        caller, "asr-steady", MetricType="CpuCoreUsage", StartTime=at(start), EndTime=at(end), TimeStep="30s"
    )
    times = [point["Time"] / 1000 for point in answer["PodMetrics"][0]["Metrics"]]
    assert len(times) == 10
    assert start <= times[0] <= times[-1] <= end


def test_too_many_points_are_refused() -> None:
    caller = Caller()
    caller.clock.now += 86400
    job_id = caller.job("asr-steady")["JobId"]
    path = f"{JOBS}/{job_id}/metrics"
    query = {"MetricType": "CpuCoreUsage", "StartTime": EARLY, "TimeStep": "1s"}
    assert caller.refusal("dlc", "GetJobMetrics", path, **query) == (400, "InvalidParameter")


@pytest.mark.parametrize("name", ["llm-pretrain-70b", "tts-on-spot", "bids"])
def test_jobs_that_moved_to_cloudmonitor_have_no_metrics(caller: Caller, name: str) -> None:
    assert not _metrics(caller, name, MetricType="GpuCoreUsage")["PodMetrics"]


def test_nothing_is_told_by_an_empty_list_or_by_null(caller: Caller) -> None:
    pooled = [row["JobId"] for row in caller.all_jobs() if row["ResourceId"]]
    paths = [f"{JOBS}/{job_id}/metrics" for job_id in pooled]
    reported = [caller.body("dlc", "GetJobMetrics", path, MetricType="CpuCoreUsage")["PodMetrics"] for path in paths]
    assert [] in reported
    assert None in reported
    assert not any(reported)


@pytest.mark.parametrize("name", ["just-created", "prepares"])
def test_a_job_that_does_not_run_yet_has_no_metrics(caller: Caller, name: str) -> None:
    assert _metrics(caller, name, MetricType="CpuCoreUsage")["PodMetrics"] == []


def test_a_job_without_gpus_has_no_gpu_readings(caller: Caller) -> None:
    for metric in ("GpuCoreUsage", "GpuMemoryUsage"):
        pods = _metrics(caller, "features-cpu", MetricType=metric)["PodMetrics"]
        assert [pod["Metrics"] for pod in pods] == [[], []]
    assert _metrics(caller, "features-cpu", MetricType="CpuCoreUsage")["PodMetrics"][0]["Metrics"]


def test_list_ecs_specs(caller: Caller) -> None:
    path = "/api/v1/ecsspecs"
    answer = caller.body("dlc", "ListEcsSpecs", path, PageSize="100")
    assert answer["TotalCount"] == len(answer["EcsSpecs"]) == len(ECS_SPECS)
    v100 = next(spec for spec in answer["EcsSpecs"] if spec["InstanceType"] == "ecs.gn6e-c12g1.3xlarge")
    assert (v100["Cpu"], v100["Memory"], v100["Gpu"], v100["AcceleratorType"]) == (12, 92, 1, "GPU")
    assert caller.refusal("dlc", "ListEcsSpecs", path, SortBy="Cpu") == (400, "InvalidParameter")


@pytest.mark.long
def test_a_page_of_a_large_fleet_is_quick() -> None:
    caller = Caller(population=3000)
    assert 2000 < len(caller.world.live()) < 5000
    spent = []
    for page in range(1, 11):
        begun = time.perf_counter()
        assert len(caller.jobs(Status="Running", StartTime=EARLY, PageSize="100", PageNumber=str(page))["Jobs"]) == 100
        spent.append(time.perf_counter() - begun)
    assert sorted(spent)[5] < 0.1  # a few ms; the bound leaves room for a busy machine
