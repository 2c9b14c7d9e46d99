"""Training jobs, their metrics, the cluster and the plans agree with each other and with AWS' own model."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest

from tests.simulator.client import SageMaker, model
from tests.simulator.shapes import breaches
from trainfleet_simulator.sagemaker.catalog import INSTANCE_TYPES
from trainfleet_simulator.sagemaker.cloudwatch import NAMESPACE
from trainfleet_simulator.sagemaker.training import description, job_name, record
from trainfleet_simulator.world.jobs import Job


@pytest.fixture(scope="module")
def aws() -> SageMaker:
    """One world whose clock stands."""
    return SageMaker()


def _job(aws: SageMaker, name: str) -> Job:
    return next(job for job in aws.world.jobs.values() if job.draft.name == name)


def _host(aws: SageMaker, name: str, number: int = 1) -> str:
    return f"{job_name(_job(aws, name))}/algo-{number}"


def test_every_job_in_every_state_is_as_the_model_has_it() -> None:
    aws = SageMaker(population=30)
    described = model("sagemaker", "DescribeTrainingJob").output_shape
    found = model("sagemaker", "Search").output_shape.members["Results"].member
    seen: set[tuple[str, str]] = set()
    for step in range(91):
        now = aws.world.now
        for job in aws.world.live() if step < 90 else aws.world.jobs.values():
            row = description(job, now)
            assert breaches(described, row) == []
            assert breaches(found, record(job, now)) == []
            seen.add((row["TrainingJobStatus"], row["SecondaryStatus"]))
        aws.clock.now += 8
        aws.world.advance(aws.clock.now)
    assert seen == {
        *(("InProgress", word) for word in ("Starting", "Pending", "Downloading", "Training", "Uploading")),
        *(("InProgress", word) for word in ("Interrupted", "Restarting")),
        ("Stopping", "Stopping"),
        ("Completed", "Completed"),
        ("Failed", "Failed"),
        *(("Stopped", word) for word in ("Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded")),
    }


def _metrics(aws: SageMaker, *asked: tuple[str, str], **members: Any) -> dict[str, Any]:
    """Return the response about metrics and hosts, of the last 20 minutes."""
    stat = {"Period": members.pop("Period", 60), "Stat": members.pop("Stat", "Average")}
    queries = []
    for number, (metric, host) in enumerate(asked):
        about = {"Namespace": NAMESPACE, "MetricName": metric, "Dimensions": [{"Name": "Host", "Value": host}]}
        queries.append({"Id": f"q{number}", "MetricStat": {"Metric": about, **stat}})
    times = {"StartTime": aws.clock.now - 1200, "EndTime": aws.clock.now}
    return aws.ask("GetMetricData", "cloudwatch", MetricDataQueries=queries, **{**times, **members})


def test_percents_are_summed_over_cores_and_cards(aws: SageMaker) -> None:
    kind = INSTANCE_TYPES["ml.p5.48xlarge"]
    most = {"CPUUtilization": kind.cpu, "GPUUtilization": kind.cards, "GPUMemoryUtilization": kind.cards}
    for one in _metrics(aws, *((metric, _host(aws, "llama-pretrain", 2)) for metric in most))["MetricDataResults"]:
        assert 100 < max(one["Values"]) <= 100 * most[one["Label"].partition(" ")[2]]


def test_a_longer_period_has_the_mean_of_its_minutes(aws: SageMaker) -> None:
    end = aws.clock.now // 300 * 300 - 300
    times = {"StartTime": end - 600, "EndTime": end}

    def values(period: int) -> list[float]:
        (one,) = _metrics(aws, ("CPUUtilization", _host(aws, "vit-steady")), Period=period, **times)[
            "MetricDataResults"
        ]
        return list(one["Values"])

    minutes = values(60)
    assert values(300) == pytest.approx([fmean(minutes[:5]), fmean(minutes[5:])], abs=0.001)


def test_a_metric_that_a_host_does_not_have_is_empty(aws: SageMaker) -> None:
    asked = (
        ("GPUUtilization", _host(aws, "features-cpu")),
        ("GPUUtilization", _host(aws, "trn1-steady")),
        ("CPUUtilization", _host(aws, "llama-pretrain", 9)),
        ("CPUUtilization", "unknown/algo-1"),
        ("CPUUtilization", _host(aws, "waits-for-plan")),
    )
    for one in _metrics(aws, *asked)["MetricDataResults"]:
        assert (one["Values"], one["Timestamps"], one["StatusCode"]) == ([], [], "Complete")
