"""The v1 training API: numbered states, readings as texts, pods by the names of their log files."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tests.simulator.client import START
from tests.simulator.modelarts.client import V1, Caller
from trainfleet_simulator.modelarts.catalog import TEAM_WORKSPACE
from trainfleet_simulator.modelarts.task_series import MOST_MINUTES, TaskSeries

JOBS = f"{V1}/training-jobs"
LISTS = ["diskReadRate", "diskWriteRate", "recvBytesRate", "sendBytesRate"]


@pytest.fixture(scope="module")
def caller() -> Caller:
    return Caller()


def jobs(caller: Caller, **query: str) -> list[dict[str, Any]]:
    answer = caller.body(JOBS, **query)
    assert answer["is_success"] is True
    found: list[dict[str, Any]] = answer["jobs"]
    return found


def version_path(caller: Caller, name: str) -> str:
    job = next(job for job in jobs(caller, per_page="1000") if job["job_name"] == name)
    return f"{JOBS}/{job['job_id']}/versions/{job['version_id']}"


def statistic(caller: Caller, name: str, **query: str) -> list[tuple[str, list[str]]]:
    path = version_path(caller, name)
    pod = caller.body(f"{path}/log/file-names")["log_file_list"][0]
    answer = caller.body(f"{path}/pod/{pod}/metric-statistic", **query)
    assert answer["interval"] == 1
    return [(metric["metric"], metric["value"]) for metric in answer["metrics"]]


def test_workspaces_are_paged(caller: Caller) -> None:
    whole = caller.body(f"{V1}/workspaces", filter_accessible="true")
    assert (whole["total_count"], whole["count"]) == (2, 2)
    assert [row["id"] for row in whole["workspaces"]] == ["0", TEAM_WORKSPACE]
    second = caller.body(f"{V1}/workspaces", offset="1", limit="1")
    assert (second["total_count"], second["count"], second["workspaces"][0]["name"]) == (2, 1, "vision-team")


def test_jobs_have_the_state_of_their_newest_version(caller: Caller) -> None:
    for job in jobs(caller, per_page="1000"):
        versions = caller.body(f"{JOBS}/{job['job_id']}/versions")
        assert versions["version_count"] == len(versions["versions"]) == job["version_count"]
        newest = versions["versions"][0]
        assert (newest["version_id"], newest["status"]) == (job["version_id"], job["status"])
        times = [version["create_time"] for version in versions["versions"]]
        assert all(one >= two for one, two in pairwise(times))
        assert versions["versions"][-1]["version_name"] == "V0001"


def test_jobs_are_paged_and_sorted(caller: Caller) -> None:
    whole = jobs(caller)
    assert [job["job_name"] for job in whole] == sorted(job["job_name"] for job in whole)
    assert jobs(caller, per_page="2", page="2") == whole[2:4]
    assert jobs(caller, order="desc") == whole[::-1]
    assert jobs(caller, workspace_id=TEAM_WORKSPACE) == []


@pytest.mark.parametrize(
    "query",
    [
        {"per_page": "0"},
        {"per_page": "1001"},
        {"page": "0"},
        {"order": "down"},
    ],
    ids=str,
)
def test_a_list_of_jobs_refuses_in_the_shape_of_v1(caller: Caller, query: dict[str, str]) -> None:
    answer = caller.get(JOBS, **query)
    assert answer.status_code == 400
    body = answer.json()
    assert set(body) == {"is_success", "error_code", "error_message"}
    assert (body["is_success"], body["error_code"]) == (False, "ModelArts.0105")


def test_what_does_not_exist(caller: Caller) -> None:
    job = version_path(caller, "steady-v1").rpartition("/")[0]
    for path in (f"{JOBS}/1/versions", f"{JOBS}/x/versions", f"{job}/1/log/file-names"):
        answer = caller.get(path)
        assert (answer.status_code, answer.json()["is_success"]) == (404, False)
    pod = caller.get(f"{version_path(caller, 'steady-v1')}/pod/job-steady-v1.9/metric-statistic")
    assert pod.status_code == 404
    assert set(pod.json()) == {"error_code", "error_msg"}, "this page alone names the text so"


def test_versions_are_paged_and_0_is_all_of_them(caller: Caller) -> None:
    (job,) = (job for job in jobs(caller, per_page="1000") if job["job_name"] == "resnet-v1")
    path = f"{JOBS}/{job['job_id']}/versions"
    whole = caller.body(path, page="0", per_page="1")["versions"]
    assert len(whole) == job["version_count"] > 3
    assert caller.body(path, page="2", per_page="2")["versions"] == whole[2:4]


def test_in_a_list_a_versions_readings_are_a_text_of_texts(caller: Caller) -> None:
    (version,) = caller.body(version_path(caller, "steady-v1").rpartition("/")[0])["versions"]
    readings = json.loads(version["system_metric_list"])
    assert readings.pop("interval") == 1
    assert set(readings) == {"cpuUsage", "memUsage", "gpuUtil", "gpuMemUsage", *LISTS}
    assert {len(values) for values in readings.values()} == {(7200 - 37) // 60}
    assert all(float(value) >= 0 for values in readings.values() for value in values)
    assert (version["gpu_num"], version["worker_server_num"]) == (8, 2)


def test_pods_bear_the_names_of_their_log_files(caller: Caller) -> None:
    path = version_path(caller, "steady-v1")
    assert caller.body(f"{path}/log/file-names")["log_file_list"] == ["job-steady-v1.0", "job-steady-v1.1"]


def test_before_a_version_runs_it_has_no_log_files() -> None:
    caller = Caller()
    for _ in range(600):
        waiting = [job for job in jobs(caller, per_page="1000") if job["status"] in (1, 4, 7)]
        if waiting:
            break
        caller.clock.now += 5
    path = f"{JOBS}/{waiting[0]['job_id']}/versions/{waiting[0]['version_id']}"
    assert caller.body(f"{path}/log/file-names")["log_file_list"] == []


def test_all_metrics_of_a_pod(caller: Caller) -> None:
    found = statistic(caller, "steady-v1")
    assert [metric for metric, _ in found] == ["cpuUsage", "memUsage", "gpuUtil", "gpuMemUsage", *LISTS]
    assert all(isinstance(value, str) for _, values in found for value in values)
    assert statistic(caller, "steady-v1", statistic_type="all") == found


def test_cards_have_rows_whose_mean_is_the_value_of_the_pod(caller: Caller) -> None:
    each = statistic(caller, "steady-v1", statistic_type="each")
    assert Counter(metric for metric, _ in each)["memUsage"] == 1
    whole = dict(statistic(caller, "steady-v1"))["gpuUtil"]
    cards = [float(values[-1]) for metric, values in each if metric == "gpuUtil"]
    assert len(set(cards)) == 8
    assert sum(cards) / 8 == pytest.approx(float(whole[-1]), abs=0.02)


def test_a_pod_without_cards_has_no_rows_for_them(caller: Caller) -> None:
    assert "gpuUtil" not in dict(statistic(caller, "features-v1"))
    assert "gpuUtil" not in dict(statistic(caller, "features-v1", statistic_type="each"))


def test_a_pods_metrics_refuse_unknown_statistics(caller: Caller) -> None:
    path = f"{version_path(caller, 'steady-v1')}/pod/job-steady-v1.0/metric-statistic"
    answer = caller.get(path, statistic_type="mean")
    assert (answer.status_code, answer.json()["error_code"]) == (400, "ModelArts.0105")


def test_versions_come_and_go() -> None:
    caller = Caller()
    before = {version.job_id for version in caller.legacy.jobs.values()}
    caller.clock.now = START + 1800
    seen = {job["status"] for job in jobs(caller)}
    assert len(caller.legacy.jobs) > len(before)
    assert seen <= {1, 4, 7, 8, 9, 10, 11, 12, 14}
    assert 8 in seen


def test_repeated_readings_equal_fresh_ones(caller: Caller) -> None:
    series = TaskSeries()
    job = next(job for job in caller.world.live() if job.running is not None and job.work_ended is None)
    assert job.running is not None
    for minutes in (0, 1, 5, 5, MOST_MINUTES, MOST_MINUTES + 7):
        now = job.running + 60 * minutes
        values = series.values(job, 0, "CpuCoreUsage", now)
        assert len(values) == min(max(minutes, 1), MOST_MINUTES)
        assert series.written(job, 0, "CpuCoreUsage", now, name="text", write=str) == [str(value) for value in values]
        assert series.written(job, 0, "CpuCoreUsage", now, name="other", write=repr) == [
            repr(value) for value in values
        ]
