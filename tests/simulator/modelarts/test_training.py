"""v2 training jobs: strict in what they take, and shaped as the real ones in what they answer."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.simulator.client import START
from tests.simulator.modelarts.client import SEARCHES, V2, Caller, refusal
from tests.simulator.modelarts.test_truth import truth_of
from trainfleet_simulator.modelarts.catalog import ASCEND, DEFAULT, GPU, TEAM_WORKSPACE
from trainfleet_simulator.modelarts.phases import PHASES
from trainfleet_simulator.modelarts.task_series import MOST_MINUTES
from trainfleet_simulator.world.nouns import PLANTED_SECRETS

SIX = ["cpuUsage", "memUsage", "gpuUtil", "gpuMemUsage", "npuUtil", "npuMemUsage"]


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def one(key: Any, operator: Any, value: Any) -> dict[str, Any]:
    return {"filters": [{"key": key, "operator": operator, "value": value}]}


@pytest.fixture(scope="module")
def caller() -> Caller:
    """Its clock stands still, so that what one test sees another does not change."""
    return Caller()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([], "2764"),
        ({"limit": 0}, "2764"),
        ({"limit": 51}, "2764"),
        ({"limit": "10"}, "2764"),
        ({"limit": True}, "2764"),
        ({"offset": -1}, "2764"),
        ({"sort_by": "name"}, "2790"),
        ({"order": "down"}, "2790"),
        ({"filters": {}}, None),
        ({"filters": "phase"}, "2789"),
        ({"filters": [1]}, "2789"),
        ({"filters": one("phase", "in", [])["filters"] * 21}, "2789"),
        (one("user_name", "in", ["li.na"]), "2807"),
        (one("status", "in", ["Running"]), "2807"),
        (one(["phase"], "in", ["Running"]), "2807"),
        (one("phase", "eq", ["Running"]), "2808"),
        (one("phase", "like", ["Run"]), "2808"),
        (one("create_time", "in", ["2026-01-01T00:00:00Z"]), "2808"),
        (one("phase", "in", "Running"), "2809"),
        (one("phase", "in", ["running"]), "2809"),
        (one("phase", "in", [1]), "2809"),
        (one("id", "in", ["x"] * 11), "2809"),
        (one("create_time", "between", ["yesterday", "today"]), "2809"),
        (one("create_time", "between", ["2026-01-01T00:00:00Z"]), "2809"),
        (one("create_time", "between", [at(START), at(START - 1)]), "2809"),
        (one("create_time", "between", [at(START - 32 * 86400), at(START)]), "2809"),
    ],
    ids=str,
)
def test_a_search_refuses(caller: Caller, body: Any, code: str | None) -> None:
    answer = caller.post(SEARCHES, body)
    if code is None:
        assert answer.status_code == 200
    else:
        assert refusal(answer) == (400, f"ModelArts.{code}")


def test_a_search_refuses_workspaces_that_it_does_not_know(caller: Caller) -> None:
    assert refusal(caller.post(SEARCHES, {"workspace_id": "12345"})) == (403, "ModelArts.0112")


def test_without_a_workspace_only_the_default_one_is_searched(caller: Caller) -> None:
    default, team = caller.search(limit=1), caller.search(limit=1, workspace_id=TEAM_WORKSPACE)
    assert default["total"] == caller.search(limit=1, workspace_id=DEFAULT)["total"]
    assert default["total"] + team["total"] == len(caller.world.jobs)
    assert default["items"][0]["metadata"]["workspace_id"] == DEFAULT


def test_offset_counts_pages_and_total_counts_matches(caller: Caller) -> None:
    whole = [row["metadata"]["id"] for row in caller.all_jobs()]
    second = caller.search(offset=1, limit=7)
    assert [row["metadata"]["id"] for row in second["items"]] == whole[7:14]
    assert (second["total"], second["count"], second["offset"], second["limit"]) == (len(whole), 7, 1, 7)
    beyond = caller.search(offset=1000, limit=50)
    assert (beyond["total"], beyond["count"], beyond["items"]) == (len(whole), 0, [])


def test_newest_first_unless_asked_otherwise(caller: Caller) -> None:
    newest, oldest = caller.search(limit=50), caller.search(limit=50, order="asc")
    times = [row["metadata"]["create_time"] for row in newest["items"]]
    assert times == sorted(times, reverse=True)
    assert oldest["items"][0]["metadata"]["create_time"] < min(times)


def test_every_job_is_in_exactly_one_phase_and_each_phase_occurs(caller: Caller) -> None:
    seen: list[str] = []
    for workspace in (DEFAULT, TEAM_WORKSPACE):
        for phase in PHASES:
            rows = caller.all_jobs(workspace, phase=[phase])
            assert {row["status"]["phase"] for row in rows} <= {phase}
            seen += [row["metadata"]["id"] for row in rows]
    assert sorted(seen) == sorted(caller.world.jobs)
    found = {phase for phase in PHASES for w in (DEFAULT, TEAM_WORKSPACE) if caller.all_jobs(w, phase=[phase])}
    assert found == set(PHASES)


def test_filters_combine(caller: Caller) -> None:
    def names(**body: Any) -> set[str]:
        return {row["metadata"]["name"] for row in caller.search(limit=50, **body)["items"]}

    running = {"key": "phase", "operator": "in", "value": ["Running"]}
    named = {"key": "name", "operator": "like", "value": ["pangu-pre"]}
    assert names(filters=[running, named]) == {"pangu-pretrain"}
    span = one("create_time", "between", [at(START - 7 * 86400), at(START - 5 * 86400)])
    assert "pangu-pretrain" in names(**span)
    assert "ascend-hangs" not in names(**span)
    assert caller.search(limit=1, **one("phase", "in", [""]))["total"] == caller.search(limit=1)["total"]


def test_details_are_the_row(caller: Caller) -> None:
    for row in caller.search(limit=50)["items"]:
        assert caller.body(f"{V2}/training-jobs/{row['metadata']['id']}") == row


def test_an_unknown_job_is_a_bad_request(caller: Caller) -> None:
    for path in ("nosuch", "nosuch/metrics/worker-0"):
        assert refusal(caller.get(f"{V2}/training-jobs/{path}")) == (400, "ModelArts.2775")


def test_dedicated_and_public_jobs_name_devices_differently(caller: Caller) -> None:
    pool = caller.job("pangu-pretrain")["spec"]["resource"]
    assert pool["pool_id"] == ASCEND
    assert "flavor_detail" not in pool
    has = pool["main_container_allocated_resources"]
    assert (pool["node_count"], has["accelerator_num"], has["accelerator_type"]) == (2, 8.0, "ascend-snt9b")
    public = caller.job("public-ascend")["spec"]["resource"]
    assert "pool_id" not in public
    assert public["flavor_detail"]["flavor_info"]["npu"]["unit_num"] == "8", "a text, for Ascend alone"
    cpu = caller.job("features-cpu")["spec"]["resource"]["flavor_detail"]
    assert cpu["flavor_type"] == "CPU"
    assert not {"gpu", "npu"} & set(cpu["flavor_info"])


def test_a_heterogeneous_job(caller: Caller) -> None:
    job = caller.job("hetero-steady")
    assert job["kind"] == "hetero_job"
    assert job["status"]["tasks"] == ["worker-0", "worker-1", "server-0"]
    assert [task["role"] for task in job["tasks"]] == ["worker", "server"]
    assert job["spec"]["resource"]["pool_id"] == GPU
    assert "tasks" not in caller.job("gpu-steady")


def test_what_has_not_come_yet_is_0_or_left_out(caller: Caller) -> None:
    status = caller.job("waits-for-room")["status"]
    assert status == {"phase": "Pending", "secondary_phase": "Queuing", "duration": 0, "start_time": 0}
    running = caller.job("pangu-pretrain")["status"]
    assert running["start_time"] > START * 1000 - 6 * 86_400_000
    assert running["duration"] == (START * 1000 - running["start_time"])


def test_how_jobs_end(caller: Caller) -> None:
    lost = caller.job("lost-its-node")["status"]
    assert (lost["phase"], lost["task_statuses"][0]["task"]) == ("Abnormal", "worker-0")
    done = caller.job("has-completed")["status"]
    assert done["phase"] == "Completed"
    assert done["duration"] == 240_000
    record = done["running_records"][-1]
    assert record["end_at"] - record["start_at"] == 240
    assert "task_statuses" not in done


def test_restarts_show_in_the_running_records(caller: Caller) -> None:
    """A run on another node is a rescheduled one; only a process that starts again where it was is `restarted`."""
    restarted = [job for job in caller.world.jobs.values() if job.restarts and job.finished]
    ways = set()
    for job in restarted:
        first, second = caller.body(f"{V2}/training-jobs/{job.job_id}")["status"]["running_records"]
        assert first["start_type"] == "init_or_rescheduled"
        assert first["end_at"] < second["start_at"] < second["end_at"]
        (replaced,) = (pod for pod in job.pods if pod.history)
        moved = replaced.node != replaced.history[0].node
        assert second["start_type"] == ("init_or_rescheduled" if moved else "restarted")
        assert first["end_recover"] == ("pod_reschedule" if moved else "proc_restart")
        *tried, recovery = first["recover_records"]
        assert recovery["recover"] == first["end_recover"]
        assert [attempt["recover_result"] for attempt in tried] == ["downgrade"] * len(tried)
        began = (tried or [recovery])[0]["recover_start_at"]
        assert (began, recovery["recover_end_at"]) == (first["end_at"], second["start_at"])
        assert recovery["related_task"] == first["end_related_task"] == replaced.pod_id.removeprefix(f"{job.job_id}-")
        ways.add(moved)
    assert ways == {True, False}


def test_secrets_are_planted(caller: Caller) -> None:
    text = str(caller.job("pangu-pretrain"))
    assert all(secret in text for secret in PLANTED_SECRETS)


def test_metrics_have_all_six_series_of_one_length(caller: Caller) -> None:
    for name, minutes in (("ascend-hangs", 179), ("gpu-steady", 119), ("features-cpu", 299)):
        series = caller.metrics(name)
        assert list(series) == SIX
        assert {len(values) for values in series.values()} == {minutes}
        assert all(value == -1 or 0 <= value <= 100 for values in series.values() for value in values)


@pytest.mark.parametrize(
    ("name", "task", "absent"),
    [
        ("ascend-hangs", "worker-0", {"gpuUtil", "gpuMemUsage"}),
        ("public-ascend", "worker-0", {"gpuUtil", "gpuMemUsage"}),
        ("gpu-steady", "worker-1", {"npuUtil", "npuMemUsage"}),
        ("hetero-steady", "worker-1", {"npuUtil", "npuMemUsage"}),
        ("hetero-steady", "server-0", set(SIX[2:])),
        ("features-cpu", "worker-0", set(SIX[2:])),
    ],
)
def test_absent_devices_have_no_sample_at_all(caller: Caller, name: str, task: str, absent: set[str]) -> None:
    series = caller.metrics(name, task)
    assert {metric for metric, values in series.items() if set(values) == {-1}} == absent


def test_series_begin_late(caller: Caller) -> None:
    series = caller.metrics("gpu-steady")
    assert series["cpuUsage"][0] == -1 != series["cpuUsage"][1]
    assert series["gpuUtil"][:2] == [-1, -1]
    assert series["gpuUtil"][2] != -1


def test_the_newest_minutes_are_sometimes_not_there_yet() -> None:
    caller = Caller()
    lags = []
    for _ in range(60):
        caller.clock.now += 60
        values = caller.metrics("gpu-steady")["cpuUsage"]
        lags.append(next(lag for lag in range(5) if values[-1 - lag] != -1))
    assert set(lags) == {0, 1, 2}
    assert lags.count(0) > 30


def test_past_values_stay_and_each_minute_adds_one() -> None:
    caller = Caller()
    before = caller.metrics("gpu-steady")["gpuUtil"]
    caller.clock.now += 600
    after = caller.metrics("gpu-steady")["gpuUtil"]
    assert len(after) == len(before) + 10
    reported = [(one, two) for one, two in zip(before, after, strict=False) if one != -1]
    assert all(one == two for one, two in reported)
    alone = Caller()
    alone.clock.now += 600
    assert alone.metrics("gpu-steady")["gpuUtil"] == after, "whoever looked before"


def test_the_hung_job_idles(caller: Caller) -> None:
    series = caller.metrics("ascend-hangs")
    assert min(series["npuUtil"][5:100]) >= 0
    assert max(series["npuUtil"][5:100]) > 50
    assert set(series["npuUtil"][-20:]) <= {0.0, -1}
    assert max(series["npuMemUsage"][-20:]) > 30, "its memory stays taken"


def test_three_days_at_most(caller: Caller) -> None:
    begun = time.perf_counter()
    series = caller.metrics("pangu-pretrain")
    assert time.perf_counter() - begun < 5
    assert {len(values) for values in series.values()} == {MOST_MINUTES}
    assert series["npuUtil"][0] != -1, "its first minutes are long past"


def test_before_a_job_runs_there_is_an_empty_204(caller: Caller) -> None:
    for name in ("waits-for-room", "just-created", "prepares"):
        answer = caller.get(f"{V2}/training-jobs/{caller.job_id(name)}/metrics/worker-0")
        assert (answer.status_code, answer.content) == (204, b"")


def test_a_task_that_the_job_has_not(caller: Caller) -> None:
    path = f"{V2}/training-jobs/{caller.job_id('gpu-steady')}/metrics"
    for task in ("worker-2", "server-0", "worker"):
        assert refusal(caller.get(f"{path}/{task}")) == (400, "ModelArts.2764")


def test_in_its_first_minute_a_job_has_no_sample() -> None:
    caller = Caller()
    while True:
        caller.clock.now += 1
        answer = caller.get(f"{V2}/training-jobs/{caller.job_id('prepares')}/metrics/worker-0")
        if answer.status_code == 200:
            break
        assert caller.clock.now < START + 120
    assert {metric["metric"]: metric["value"] for metric in answer.json()["metrics"]} == {name: [-1] for name in SIX}


def test_the_quota_counts_the_live_jobs_of_all_workspaces(caller: Caller) -> None:
    path = f"{V2}/training-quotas"
    live = caller.world.live()
    assert {job.draft.workspace_id for job in live} == {DEFAULT, TEAM_WORKSPACE}
    whole = caller.body(path, resource="job-num")
    assert whole == {"quotas": [{"resource": "job-num", "quota": 10_000, "used": len(live)}]}
    assert caller.body(path) == whole
    (answer,) = truth_of(caller, operation="ShowTrainingQuotas")["answers"][-1:]
    assert (answer["api"], answer["rows"]) == ("modelarts", [["job-num", 10_000, len(live)]])
    user = live[0].draft.user.user_id
    (mine,) = caller.body(path, user_id=user)["quotas"]
    assert mine["used"] == sum(job.draft.user.user_id == user for job in live) < len(live)
    assert refusal(caller.get(path, resource="gpu-num")) == (400, "ModelArts.2764")
