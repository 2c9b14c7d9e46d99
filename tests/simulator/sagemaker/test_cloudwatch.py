"""What CloudWatch has of the hosts of training jobs."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest

from tests.simulator.sagemaker.client import Caller, hosts_of, query
from trainfleet_simulator.sagemaker.catalog import INSTANCE_TYPES

METRICS = ("CPUUtilization", "MemoryUtilization", "GPUUtilization", "GPUMemoryUtilization", "DiskUtilization")


@pytest.fixture(scope="module")
def caller() -> Caller:
    """One world whose clock stands."""
    return Caller()


def _host(caller: Caller, name: str, place: int = 0) -> str:
    return hosts_of(caller.job(name))[place]


def test_percents_are_summed_over_cores_and_cards(caller: Caller) -> None:
    host, kind = _host(caller, "llama-pretrain", 1), INSTANCE_TYPES["ml.p5.48xlarge"]
    answer = caller.metrics(*((metric, host) for metric in METRICS), minutes=30)
    highest = {metric: max(one["Values"]) for metric, one in zip(METRICS, answer["MetricDataResults"], strict=True)}
    most = {
        "CPUUtilization": 100 * kind.cpu,
        "GPUUtilization": 100 * kind.cards,
        "GPUMemoryUtilization": 100 * kind.cards,
    }
    for metric in METRICS:
        assert 0 < highest[metric] <= most.get(metric, 100)
    assert all(highest[metric] > 100 for metric in most)


def test_points_are_of_whole_minutes_newest_first_and_late(caller: Caller) -> None:
    (one,) = caller.metrics(("CPUUtilization", _host(caller, "vit-steady")), minutes=10)["MetricDataResults"]
    now = caller.clock.now
    assert one["Timestamps"] == [now // 60 * 60 - 60 * back for back in range(2, 11)]
    assert one["StatusCode"] == "Complete"


def test_a_longer_period_has_the_mean_of_its_minutes(caller: Caller) -> None:
    host, end = _host(caller, "vit-steady"), caller.clock.now // 300 * 300 - 300
    times = {"StartTime": end - 600, "EndTime": end, "ScanBy": "TimestampAscending"}

    def values(period: int, stat: str) -> list[float]:
        asked = [query("one", "CPUUtilization", host, period=period, stat=stat)]
        answer = caller.ask("GetMetricData", "cloudwatch", MetricDataQueries=asked, **times)
        return list(answer["MetricDataResults"][0]["Values"])

    minutes = values(60, "Average")
    assert values(300, "Average") == pytest.approx([fmean(minutes[:5]), fmean(minutes[5:])], abs=0.001)
    assert values(300, "Maximum") == [max(minutes[:5]), max(minutes[5:])]
    assert values(300, "SampleCount") == [5, 5]


def test_what_there_is_not_has_an_empty_result(caller: Caller) -> None:
    known = _host(caller, "llama-pretrain")
    asked = (
        ("GPUUtilization", _host(caller, "features-cpu")),
        ("GPUUtilization", _host(caller, "trn1-steady")),
        ("CPUUtilization", f"{known[:-1]}9"),
        ("CPUUtilization", "nobody/algo-1"),
        ("CPUUtilization", _host(caller, "waits-for-plan")),
        ("Temperature", known),
    )
    for one in caller.metrics(*asked)["MetricDataResults"]:
        assert (one["Values"], one["Timestamps"], one["StatusCode"]) == ([], [], "Complete")


def test_a_job_that_hangs_uses_no_gpu_and_keeps_its_memory(caller: Caller) -> None:
    host = _host(caller, "p4d-hangs")
    used, memory = caller.metrics(("GPUUtilization", host), ("GPUMemoryUtilization", host))["MetricDataResults"]
    assert max(used["Values"]) == 0
    assert min(memory["Values"]) > 100


def test_points_are_read_page_by_page(caller: Caller) -> None:
    asked = [("CPUUtilization", _host(caller, name)) for name in ("vit-steady", "features-cpu", "llama-pretrain")]
    whole = caller.metrics(*asked, minutes=20)
    pages: dict[str, list[float]] = {}
    token: dict[str, str] = {}
    statuses = set()
    while True:
        answer = caller.metrics(*asked, minutes=20, MaxDatapoints=7, **token)
        assert sum(len(one["Values"]) for one in answer["MetricDataResults"]) <= 7
        for one in answer["MetricDataResults"]:
            pages.setdefault(one["Id"], []).extend(one["Values"])
            statuses.add(one["StatusCode"])
        if "NextToken" not in answer:
            break
        token = {"NextToken": answer["NextToken"]}
    assert pages == {one["Id"]: one["Values"] for one in whole["MetricDataResults"]}
    assert statuses == {"Complete", "PartialData"}


def test_an_old_range_has_points_of_five_minutes_only(caller: Caller) -> None:
    caller = Caller()
    job = min(caller.world.jobs.values(), key=lambda job: job.running or caller.clock.now)
    assert job.running is not None
    assert caller.clock.now - job.running > 15 * 86400
    times = {"StartTime": float(job.running), "EndTime": float(job.running + 1200)}
    for period, empty in ((60, True), (300, False)):
        asked = [query("one", "CPUUtilization", hosts_of(job)[0], period=period)]
        (one,) = caller.ask("GetMetricData", "cloudwatch", MetricDataQueries=asked, **times)["MetricDataResults"]
        assert (one["Values"] == []) == empty


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"EndTime": 0}, "ValidationError"),
        ({"MaxDatapoints": 0}, "ValidationError"),
        ({"NextToken": "?"}, "InvalidNextToken"),
        ({"MetricDataQueries": [query("Upper", "CPUUtilization", "a/algo-1")]}, "ValidationError"),
        ({"MetricDataQueries": [query("a", "CPUUtilization", "a/algo-1")] * 2}, "ValidationError"),
        ({"MetricDataQueries": [query("a", "CPUUtilization", "a/algo-1", period=90)]}, "ValidationError"),
        ({"MetricDataQueries": [query("a", "CPUUtilization", "a/algo-1", stat="Mean")]}, "ValidationError"),
        ({"MetricDataQueries": [query(f"q{n}", "CPUUtilization", "a/algo-1") for n in range(501)]}, "ValidationError"),
        ({"MetricDataQueries": [{"Id": "a", "Expression": "1 + 1"}]}, "ValidationError"),
        ({"StartTime": None}, "SerializationException"),
    ],
)
def test_refusals(caller: Caller, changes: dict[str, Any], code: str) -> None:
    good: dict[str, Any] = {
        "MetricDataQueries": [query("a", "CPUUtilization", "a/algo-1")],
        "StartTime": caller.clock.now - 600,
        "EndTime": caller.clock.now,
    }
    assert caller.refused("GetMetricData", "cloudwatch", **{**good, **changes}) == code
