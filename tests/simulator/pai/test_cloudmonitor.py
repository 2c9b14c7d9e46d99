"""CloudMonitor: its catalogue, and the last points of jobs, pods and cards."""

from __future__ import annotations

import json
from statistics import mean
from typing import Any

import pytest

from tests.simulator.client import START, Caller, refusal
from tests.simulator.pai.client import answered, last, latest_answer, pages, rpc
from trainfleet_simulator.pai import monitor_metrics, monitor_subjects
from trainfleet_simulator.pai.catalog import ACCOUNT_ID, ECS_SPECS, QUOTAS, REGION
from trainfleet_simulator.pai.monitor_metrics import DLC, QUOTA
from trainfleet_simulator.world.jobs import Job, Pod
from trainfleet_simulator.world.usage import reading

NEWEST = int(START - 60) // 60 * 60
META, LAST = "DescribeMetricMetaList", "DescribeMetricLast"


@pytest.fixture(scope="module")
def caller() -> Caller:
    return Caller()


def named(caller: Caller, name: str) -> Job:
    return next(job for job in caller.world.jobs.values() if job.draft.name == name)


def value(metric_type: str, job: Job, pod: Pod, at: int) -> float:
    found = reading(metric_type, job, pod, at)
    assert found is not None
    return found


def in_cloudmonitor(job: Job) -> bool:
    return (job.draft.payment, job.draft.resource_type) != ("PostPaid", "ECS")


def catalogue(caller: Caller, **query: str) -> dict[str, Any]:
    return answered(rpc(caller, "cloudmonitor", META, **query))


def test_catalogue_has_units_dimensions_periods_and_statistics(caller: Caller) -> None:
    body = catalogue(caller, Namespace=DLC, PageSize="200")
    assert (body["Code"], body["Success"], body["TotalCount"]) == ("200", True, "32")
    rows = {row["MetricName"]: row for row in body["Resources"]["Resource"]}
    assert len(rows) == 32
    assert {row["Periods"] for row in rows.values()} == {"60,300,900"}
    wanted = {
        "JOB_GPU_ACCELERATOR_DUTTY_UTIL": ("%", "userId,regionId,workspaceId,jobId", "Average,Minimum,Maximum"),
        "JOB_NETWORK_RECEVICE_RATE": ("MB/s", "userId,regionId,workspaceId,jobId", "Average,Minimum,Maximum"),
        "POD_GPU_MEMORY_USED": ("MiB", "userId,regionId,workspaceId,jobId,pod", "Average,Minimum,Maximum"),
        "POD_DISK_READ_RATE": ("Bytes/s", "userId,regionId,workspaceId,jobId,pod", "Average,Minimum,Maximum"),
        "CARD_GPU_POWER_USAGE": ("W", "userId,regionId,workspaceId,jobId,pod,gpuId", "Value"),
        "CARD_GPU_PIP_TENSOR_ACTIVE": ("%", "userId,regionId,workspaceId,jobId,pod,gpuId", "Value"),
        "CARD_GPU_TENSORTFLOPS_USED": ("TFLOPS", "userId,regionId,workspaceId,jobId,pod,gpuId", "Value"),
        "CARD_GPU_PCIE_TRANSMIT": ("MiB/s", "userId,regionId,workspaceId,jobId,pod,gpuId", "Value"),
    }
    assert {name: (rows[name]["Unit"], rows[name]["Dimensions"], rows[name]["Statistics"]) for name in wanted} == wanted


def test_the_catalogue_in_pages(caller: Caller) -> None:
    body = catalogue(caller, Namespace=QUOTA)
    assert (body["PageNumber"], body["PageSize"], body["TotalCount"]) == ("1", "30", "14")
    names = [row["MetricName"] for row in body["Resources"]["Resource"]]
    second = catalogue(caller, Namespace=QUOTA, PageSize="5", PageNumber="2")
    assert [row["MetricName"] for row in second["Resources"]["Resource"]] == names[5:10]
    assert second["TotalCount"] == "14"
    one = catalogue(caller, Namespace=QUOTA, MetricName="QUOTA_CPU_TOTAL")
    assert [row["Unit"] for row in one["Resources"]["Resource"]] == ["Core"]
    assert catalogue(caller, Namespace="acs_nosuch")["TotalCount"] == "0"


def test_a_get_serves_as_well(caller: Caller) -> None:
    got = answered(rpc(caller, "cloudmonitor", META, method="GET", Namespace=DLC))
    assert got["Resources"] == catalogue(caller, Namespace=DLC)["Resources"]


@pytest.mark.parametrize(
    ("action", "query", "expected"),
    [
        (META, {}, (400, "MissingNamespace")),
        (META, {"Namespace": DLC, "PageSize": "201"}, (400, "ParameterInvalid")),
        (LAST, {"Namespace": DLC}, (400, "MissingMetricName")),
        (LAST, {"Namespace": DLC, "MetricName": "JOB_NOSUCH"}, (404, "ResourceNotFound")),
        (LAST, {"Namespace": QUOTA, "MetricName": "JOB_CPU_UTIL"}, (404, "ResourceNotFound")),
        (LAST, {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "Length": "1441"}, (400, "ParameterInvalid")),
        (LAST, {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "Period": "15"}, (400, "ParameterInvalid")),
        (LAST, {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "StartTime": "now"}, (400, "ParameterInvalid")),
        (LAST, {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "NextToken": "ab12"}, (400, "ParameterInvalid")),
        ("DescribeMetricTop", {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL"}, (404, "InvalidAction.NotFound")),
    ],
    ids=str,
)
def test_refusals(caller: Caller, action: str, query: dict[str, str], expected: tuple[int, str]) -> None:
    assert refusal(rpc(caller, "cloudmonitor", action, **query)) == expected


def test_an_unsigned_call_and_another_path_are_refused(caller: Caller) -> None:
    # Its version says which service is meant; ListJobs is none of CloudMonitor's operations.
    assert caller.refusal("dlc", LAST, "/") == (404, "InvalidAction.NotFound")
    caller.simulator.monitor.quota = 1
    wrong = refusal(rpc(caller, "cloudmonitor", LAST, method="PUT", Namespace=DLC, MetricName="JOB_CPU_UTIL"))
    assert wrong == (404, "InvalidAction.NotFound")
    assert caller.simulator.monitor.quota == 1, "what is refused at the gate is not metered"
    caller.simulator.monitor.quota = None


@pytest.mark.parametrize(
    ("metric", "metric_type", "factor", "summed"),
    [
        ("JOB_CPU_UTIL", "CpuCoreUsage", 1, False),
        ("JOB_MEMORY_UTIL", "MemoryUsage", 1, False),
        ("JOB_GPU_ACCELERATOR_DUTTY_UTIL", "GpuCoreUsage", 1, False),
        ("JOB_GPU_ACCELERATOR_MEMORY_UTIL", "GpuMemoryUsage", 1, False),
        ("JOB_NETWORK_RECEVICE_RATE", "NetworkInputRate", 1, True),
        ("JOB_NETWORK_TRANSMIT_RATE", "NetworkOutputRate", 1, True),
        ("JOB_DISK_READ_RATE", "DiskReadRate", 10**6, True),
        ("JOB_DISK_WRITE_RATE", "DiskWriteRate", 10**6, True),
    ],
)
def test_a_job_is_the_mean_or_the_sum_of_its_pods_readings(
    caller: Caller, metric: str, metric_type: str, factor: int, summed: bool
) -> None:
    job = named(caller, "llm-pretrain-70b")
    (point,) = [point for point in last(caller, metric) if point["jobId"] == job.job_id]
    assert len(job.pods) == 2
    of_pods = [value(metric_type, job, pod, NEWEST) * factor for pod in job.pods]
    assert point["Average"] == pytest.approx(sum(of_pods) if summed else mean(of_pods), abs=1e-3)
    assert point["Minimum"] <= point["Average"] <= point["Maximum"]
    assert {name: point[name] for name in ("timestamp", "userId", "regionId", "workspaceId")} == {
        "timestamp": NEWEST * 1000,
        "userId": ACCOUNT_ID,
        "regionId": REGION,
        "workspaceId": "12345",
    }
    assert "pod" not in point


def test_free_memory_is_what_all_pods_leave_in_bytes(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    (point,) = last(caller, "JOB_MEMORY_FREE", Dimensions=json.dumps({"jobId": job.job_id}))
    used = [value("MemoryUsage", job, pod, NEWEST) / 100 for pod in job.pods]
    free = sum((1 - part) * pod.role.memory * 2**20 for part, pod in zip(used, job.pods, strict=True))
    assert point["Average"] == pytest.approx(free)


def test_pods_in_the_units_of_the_catalogue(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")

    def average(metric: str) -> list[float]:
        points = last(caller, metric, Dimensions=json.dumps({"jobId": job.job_id}))
        assert [point["pod"] for point in points] == [pod.pod_id for pod in job.pods]
        return [point["Average"] for point in points]

    def of_pods(metric_type: str) -> list[float]:
        return [value(metric_type, job, pod, NEWEST) for pod in job.pods]

    assert average("POD_CPU_UTIL") == pytest.approx(of_pods("CpuCoreUsage"))
    assert average("POD_CPU_USED") == pytest.approx([part * 1.84 for part in of_pods("CpuCoreUsage")])
    assert average("POD_MEMORY_USED") == pytest.approx([part * 18 * 1024 for part in of_pods("MemoryUsage")])
    assert average("POD_GPU_MEMORY_TOTAL") == [8 * 96 * 1024] * 2
    used = [part / 100 * 8 * 96 * 1024 for part in of_pods("GpuMemoryUsage")]
    assert average("POD_GPU_MEMORY_USED") == pytest.approx(used)
    assert average("POD_DISK_READ_RATE") == pytest.approx([rate * 10**6 for rate in of_pods("DiskReadRate")])


@pytest.mark.parametrize(("metric", "metric_type"), [("DUTY_CYCLE", "GpuCoreUsage"), ("MEMORY_UTIL", "GpuMemoryUsage")])
def test_cards_lie_near_their_pod_and_on_average_upon_it(caller: Caller, metric: str, metric_type: str) -> None:
    job = named(caller, "llm-pretrain-70b")
    points = last(caller, f"CARD_GPU_{metric}", Dimensions=json.dumps({"jobId": job.job_id}))
    assert len(points) == 16
    for pod in job.pods:
        cards = {point["gpuId"]: point["Value"] for point in points if point["pod"] == pod.pod_id}
        assert list(cards) == [str(card) for card in range(8)]
        whole = value(metric_type, job, pod, NEWEST)
        assert mean(cards.values()) == pytest.approx(whole, abs=1e-3)
        assert max(abs(one - whole) for one in cards.values()) <= 0.03 * whole
        assert len(set(cards.values())) == 8
        assert max(cards.values()) <= 100
    assert all(set(point) & {"Average", "Minimum", "Maximum"} == set() for point in points)


def test_power_and_links_go_with_the_work(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    pod, dimensions = job.pods[0], json.dumps({"jobId": job.job_id})
    duty = value("GpuCoreUsage", job, pod, NEWEST)
    power = [point["Value"] for point in last(caller, "CARD_GPU_POWER_USAGE", Dimensions=dimensions)][:8]
    assert mean(power) == pytest.approx(62 + 3.4 * duty, abs=1e-2)
    links = [point["Value"] for point in last(caller, "CARD_GPU_NVLINK_RECEIVE", Dimensions=dimensions)][:8]
    assert mean(links) == pytest.approx(310 * duty, abs=1e-2)


def test_one_card_of_a_job_that_hangs_is_unhealthy(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    job = named(caller, "llm-pretrain-70b")
    dimensions = json.dumps({"jobId": job.job_id})
    assert [point["Value"] for point in last(caller, "CARD_GPU_HEALTH", Dimensions=dimensions)] == [1] * 16
    monkeypatch.setattr(job, "hangs_at", NEWEST)
    found = [point for point in last(caller, "CARD_GPU_HEALTH", Dimensions=dimensions) if point["Value"] != 1]
    assert [(point["pod"], point["gpuId"], point["Value"]) for point in found] == [(job.pods[0].pod_id, "0", 0)]


def test_profilers_agree_with_the_work(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    dimensions = json.dumps({"jobId": job.job_id})

    def cards(metric: str) -> list[float]:
        found = [point["Value"] for point in last(caller, f"CARD_GPU_{metric}", Dimensions=dimensions)]
        assert len(found) == 16
        return found

    names = ("DUTY_CYCLE", "SM_UTIL", "PIP_TENSOR_ACTIVE", "TENSORTFLOPS_USED")
    for duty, sm, tensor, tflops in zip(*map(cards, names), strict=True):
        assert 0 < tensor < sm < duty
        assert tflops == pytest.approx(tensor / 100 * monitor_metrics.PEAK_TFLOPS["GU8T"], rel=0.1)
    models = {spec.card_type for spec in ECS_SPECS.values()} | {spec.card_type for spec in QUOTAS}
    assert set(monitor_metrics.PEAK_TFLOPS) >= models - {""}


def test_all_jobs_are_there_but_pay_as_you_go_general_computing(caller: Caller) -> None:
    found = {point["jobId"] for point in last(caller, "JOB_CPU_UTIL") if point["timestamp"] == NEWEST * 1000}
    running = {
        job.job_id
        for job in caller.world.live()
        if in_cloudmonitor(job) and any(pod.started and pod.started <= NEWEST and not pod.finished for pod in job.pods)
    }
    assert running
    assert running <= found
    for name, there in {"tts-on-spot": True, "in-the-hidden-room": True, "asr-steady": False, "bids": False}.items():
        assert (named(caller, name).job_id in found) is there, name
    assert all(in_cloudmonitor(caller.world.jobs[job_id]) for job_id in found)


def test_only_what_has_cards_has_points_of_cards(caller: Caller) -> None:
    jobs = {point["jobId"] for point in last(caller, "JOB_GPU_ACCELERATOR_DUTTY_UTIL")}
    assert jobs
    assert all(any(role.cards for role in caller.world.jobs[job_id].draft.roles) for job_id in jobs)
    assert jobs < {point["jobId"] for point in last(caller, "JOB_CPU_UTIL")}


def test_points_come_at_whole_minutes_with_a_lag() -> None:
    caller = Caller()
    job = named(caller, "llm-pretrain-70b")

    def newest() -> int:
        (point,) = last(caller, "JOB_CPU_UTIL", Dimensions=json.dumps({"jobId": job.job_id}))
        return int(point["timestamp"])

    assert newest() == NEWEST * 1000
    caller.simulator.monitor.lag = 0
    assert newest() == (NEWEST + 60) * 1000
    caller.simulator.monitor.lag = 600
    assert newest() == (int(START) - 600) // 60 * 60_000


@pytest.mark.parametrize("period", [300, 900])
def test_longer_periods_are_the_average_of_their_minutes(caller: Caller, period: int) -> None:
    job = named(caller, "llm-pretrain-70b")
    query = {"Dimensions": json.dumps({"jobId": job.job_id}), "Period": str(period)}
    (point,) = last(caller, "JOB_CPU_UTIL", **query)
    end = int(START - 60) // period * period
    assert point["timestamp"] == end * 1000
    minutes = range(end - period + 60, end + 1, 60)
    of_minutes = [mean(value("CpuCoreUsage", job, pod, at) for pod in job.pods) for at in minutes]
    assert point["Average"] == pytest.approx(mean(of_minutes), abs=1e-3)


def test_an_ended_job_keeps_its_last_point_for_two_hours() -> None:
    caller = Caller()
    job = next(
        job
        for job in caller.world.jobs.values()
        if START - 1200 < (job.finished or 0) < START - 300 and in_cloudmonitor(job) and job.duration(0) > 120
    )
    ended = max(pod.finished or 0 for pod in job.pods) // 60 * 60
    dimensions = json.dumps({"jobId": job.job_id})

    def points(**query: str) -> list[int]:
        return [point["timestamp"] for point in last(caller, "JOB_CPU_UTIL", Dimensions=dimensions, **query)]

    assert points() == [ended * 1000]
    assert points(StartTime=str(ended * 1000 - 1)) == [ended * 1000]
    assert points(StartTime=str(ended * 1000)) == [], "open at the start"
    assert points(EndTime=str(ended * 1000)) == [ended * 1000], "closed at the end"
    caller.clock.now = ended + 7199.0
    assert points() == [ended * 1000]
    assert points(StartTime=str((ended - 9000) * 1000)) == [ended * 1000], "the later start counts"
    caller.clock.now = ended + 7200.0
    assert points() == []
    assert points(StartTime=str((ended - 9000) * 1000)) == []


def test_the_points_of_an_end_time_in_the_past(caller: Caller) -> None:
    job = named(caller, "llm-pretrain-70b")
    query = {"Dimensions": json.dumps({"jobId": job.job_id}), "EndTime": "2026-01-02T02:30:30Z"}
    (point,) = last(caller, "JOB_CPU_UTIL", **query)
    at = point["timestamp"] // 1000
    assert at == 1767321000
    assert point["Average"] == pytest.approx(mean(value("CpuCoreUsage", job, pod, at) for pod in job.pods), abs=1e-3)


def test_a_restarted_pod_reports_by_its_present_incarnation() -> None:
    caller = Caller()
    for _ in range(60):
        restarted = [
            job for job in caller.world.live() if job.restarts and job.status == "Running" and job.draft.pool_id
        ]
        ready = [
            job for job in restarted if all(pod.started and pod.started < caller.clock.now - 121 for pod in job.pods)
        ]
        if ready:
            break
        caller.clock.now += 20
        caller.jobs(PageSize="1")
    job = ready[0]
    points = last(caller, "POD_CPU_UTIL", Dimensions=json.dumps({"jobId": job.job_id}))
    assert [point["pod"] for point in points] == [pod.pod_id for pod in job.pods]
    at = int(caller.clock.now - 60) // 60 * 60
    assert [point["Average"] for point in points] == [value("CpuCoreUsage", job, pod, at) for pod in job.pods]


def test_replaced_pod_keeps_its_last_point_for_now() -> None:
    caller = Caller()
    lost: list[tuple[Job, Pod]] = []
    while not lost:
        caller.clock.now += 20
        caller.jobs(PageSize="1")
        lost = [
            (job, pod)
            for job in caller.world.live()
            if in_cloudmonitor(job)
            for pod in job.pods
            if pod.started is None
            and pod.history
            and (pod.history[-1].finished or 0) - (pod.history[-1].started or 0) > 60
        ]
    job, pod = lost[0]
    former = pod.history[-1]
    assert former.finished is not None
    at = min(former.finished, int(caller.clock.now) - 60) // 60 * 60
    points = last(caller, "POD_CPU_UTIL", Dimensions=json.dumps({"jobId": job.job_id, "pod": pod.pod_id}))
    assert [(point["timestamp"], point["Average"]) for point in points] == [
        (at * 1000, value("CpuCoreUsage", job, former, at))
    ]


# Pages.


def test_pages_are_complete_and_stable_while_time_goes_on() -> None:
    caller = Caller()
    whole = last(caller, "CARD_GPU_DUTY_CYCLE")
    found, counts = [], []
    for points, _ in pages(caller, "CARD_GPU_DUTY_CYCLE", 50):
        found += points
        counts.append(len(points))
        caller.clock.now += 30
        caller.jobs(PageSize="1")
    assert found == whole
    assert set(counts[:-1]) == {50}
    assert 0 < counts[-1] <= 50
    assert latest_answer(caller, LAST)["total"] == len(whole)
    keys = [(point["jobId"], point["pod"], point["gpuId"]) for point in whole]
    assert len(keys) == len(set(keys))
    assert last(caller, "CARD_GPU_DUTY_CYCLE") != whole, "a new question gets the points of its own time"


def test_points_of_a_minute_are_gathered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller()
    looked_at: list[str] = []
    original = monitor_subjects.last_places

    def counting(job: Job, *rest: Any, **options: Any) -> Any:
        looked_at.append(job.job_id)
        return original(job, *rest, **options)

    monkeypatch.setattr(monitor_subjects, "last_places", counting)
    assert len(list(pages(caller, "JOB_CPU_UTIL", 5))) > 5
    once = len(looked_at)
    assert once == len(set(looked_at)) > 25
    last(caller, "JOB_MEMORY_UTIL")
    caller.clock.now += 10
    last(caller, "JOB_DISK_READ_RATE")
    assert len(looked_at) == once
    caller.clock.now += 60
    last(caller, "JOB_CPU_UTIL")
    assert len(looked_at) > once


def test_next_token_is_for_one_query_and_expires() -> None:
    caller = Caller()
    query = {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "Length": "5"}
    token = answered(rpc(caller, "cloudmonitor", LAST, **query))["NextToken"]
    once, again = (
        answered(rpc(caller, "cloudmonitor", LAST, **query, NextToken=token))["Datapoints"] for _ in range(2)
    )
    assert once == again
    assert len(json.loads(once)) == 5
    wrong = [
        query | {"MetricName": "JOB_MEMORY_UTIL", "NextToken": token},
        query | {"Period": "300", "NextToken": token},
        query | {"NextToken": token[:-1]},
        query | {"NextToken": token[::-1]},
    ]
    for one in wrong:
        assert refusal(rpc(caller, "cloudmonitor", LAST, **one)) == (400, "ParameterInvalid")
    caller.clock.now += 301
    assert refusal(rpc(caller, "cloudmonitor", LAST, **query, NextToken=token)) == (400, "ParameterInvalid")


# Dimensions.


def test_dimensions_choose(caller: Caller) -> None:
    pretrain, spot = named(caller, "llm-pretrain-70b"), named(caller, "tts-on-spot")
    steady = named(caller, "asr-steady")

    def jobs(dimensions: object, metric: str = "JOB_CPU_UTIL") -> list[str]:
        return [point["jobId"] for point in last(caller, metric, Dimensions=json.dumps(dimensions))]

    assert jobs({"jobId": spot.job_id}) == [spot.job_id]
    assert jobs([{"jobId": spot.job_id}, {"jobId": pretrain.job_id}, {"jobId": "nosuch"}]) == [
        spot.job_id,
        pretrain.job_id,
    ]
    assert jobs([{"jobId": steady.job_id}]) == [], "it is not in CloudMonitor"
    assert jobs({"jobId": spot.job_id, "workspaceId": "12345"}) == []
    assert jobs({"userId": "2", "jobId": spot.job_id}) == []
    assert set(jobs({"workspaceId": "98765"})) >= {named(caller, "in-the-hidden-room").job_id}
    everybody = [point["jobId"] for point in last(caller, "JOB_CPU_UTIL")]
    assert jobs({"userId": ACCOUNT_ID, "regionId": REGION}) == everybody == jobs([]) == jobs({})
    pod = pretrain.pods[1].pod_id
    assert jobs({"jobId": pretrain.job_id, "pod": pod}, "POD_CPU_UTIL") == [pretrain.job_id]
    one_card = {"pod": pod, "gpuId": "7"}
    (card,) = last(caller, "CARD_GPU_DUTY_CYCLE", Dimensions=json.dumps([one_card]))
    assert (card["jobId"], card["pod"], card["gpuId"]) == (pretrain.job_id, pod, "7")


@pytest.mark.parametrize(
    "dimensions",
    [
        "jobId=1",
        '"dlc1"',
        "[1]",
        json.dumps({"job": "dlc1"}),
        json.dumps({"jobId": 1}),
        json.dumps({"pod": "dlc1-worker-0"}),
        json.dumps([{"jobId": str(number)} for number in range(51)]),
    ],
)
def test_wrong_dimensions(caller: Caller, dimensions: str) -> None:
    query = {"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "Dimensions": dimensions}
    assert refusal(rpc(caller, "cloudmonitor", LAST, **query)) == (400, "ParameterInvalid")


def test_fifty_may_be_named(caller: Caller) -> None:
    jobs = [point["jobId"] for point in last(caller, "JOB_CPU_UTIL")]
    fifty = [{"jobId": job_id} for job_id in (jobs + [f"none-{number}" for number in range(50)])[:50]]
    assert [point["jobId"] for point in last(caller, "JOB_CPU_UTIL", Dimensions=json.dumps(fifty))] == jobs[:50]


# What tests can change, and what the log remembers.


def test_missing_dimensions_can_be_refused_or_answered_empty() -> None:
    caller = Caller()
    named_one = json.dumps({"jobId": named(caller, "tts-on-spot").job_id})
    caller.simulator.monitor.without_dimensions = "refused"
    refused = rpc(caller, "cloudmonitor", LAST, Namespace=DLC, MetricName="JOB_CPU_UTIL")
    assert refusal(refused) == (400, "ParameterInvalid")
    assert len(last(caller, "JOB_CPU_UTIL", Dimensions=named_one)) == 1
    caller.simulator.monitor.without_dimensions = "empty"
    assert last(caller, "JOB_CPU_UTIL") == []
    assert latest_answer(caller, LAST)["outcome"] == "no_data"
    assert last(caller, "QUOTA_CPU_UTIL") == []
    assert len(last(caller, "JOB_CPU_UTIL", Dimensions=named_one)) == 1
    caller.simulator.monitor.without_dimensions = "all"
    assert len(last(caller, "JOB_CPU_UTIL")) > 10


def test_the_allowance_is_spent_by_data_calls_only() -> None:
    caller = Caller()
    caller.simulator.monitor.quota = 2
    assert catalogue(caller, Namespace=DLC)["Success"] is True
    last(caller, "JOB_CPU_UTIL")
    last(caller, "QUOTA_CPU_UTIL")
    spent = rpc(caller, "cloudmonitor", LAST, Namespace=DLC, MetricName="JOB_CPU_UTIL")
    assert refusal(spent) == (400, "Throttling.User")
    assert spent.json()["Message"] == "user api quota limit"
    assert latest_answer(caller, LAST)["outcome"] == "throttled"
    assert catalogue(caller, Namespace=DLC)["Success"] is True


def test_the_log_keeps_a_part_of_the_rows_and_the_whole_count(caller: Caller) -> None:
    points = last(caller, "CARD_GPU_DUTY_CYCLE")
    logged = latest_answer(caller, LAST)
    assert (logged["api"], logged["outcome"], logged["total"]) == ("cloudmonitor", "ok", len(points))
    assert len(points) > 200 == len(logged["rows"])
    first = points[0]
    assert logged["rows"][0] == [
        first["jobId"],
        first["pod"],
        first["gpuId"],
        "CARD_GPU_DUTY_CYCLE",
        first["Value"],
        first["timestamp"],
    ]
    (point,) = last(caller, "JOB_CPU_UTIL", Length="1")
    assert latest_answer(caller, LAST)["rows"] == [
        [point["jobId"], "", "", "JOB_CPU_UTIL", point["Average"], point["timestamp"]]
    ]
