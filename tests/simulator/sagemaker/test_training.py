"""Training jobs by Search, lists and descriptions; every answer is checked against AWS' own model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.simulator.client import START
from tests.simulator.sagemaker.client import Caller, model
from tests.simulator.sagemaker.shapes import breaches
from trainfleet_simulator.sagemaker.job_rows import description, job_name, record, transitions
from trainfleet_simulator.world.nouns import PLANTED_SECRETS

ENDED = {"Completed", "Failed", "Stopped"}


@pytest.fixture(scope="module")
def caller() -> Caller:
    """One world whose clock stands."""
    return Caller()


def test_every_job_in_every_state_is_as_the_model_has_it() -> None:
    caller = Caller(population=30)
    described = model("sagemaker", "DescribeTrainingJob").output_shape
    found = model("sagemaker", "Search").output_shape.members["Results"].member
    seen: set[tuple[str, str]] = set()
    for _ in range(90):
        caller.clock.now += 8
        caller.world.advance(caller.clock.now)
        now = caller.world.now
        for job in caller.world.live():
            row = description(job, now)
            assert breaches(described, row) == []
            assert breaches(found, record(job, now)) == []
            seen.add((row["TrainingJobStatus"], row["SecondaryStatus"]))
    for job in caller.world.jobs.values():
        row = description(job, caller.world.now)
        assert breaches(described, row) == []
        seen.add((row["TrainingJobStatus"], row["SecondaryStatus"]))
    assert seen == {
        *(("InProgress", word) for word in ("Starting", "Pending", "Downloading", "Training", "Uploading")),
        *(("InProgress", word) for word in ("Interrupted", "Restarting")),
        ("Stopping", "Stopping"),
        ("Completed", "Completed"),
        ("Failed", "Failed"),
        *(("Stopped", word) for word in ("Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded")),
    }


def test_transitions_follow_each_other_to_the_present_status(caller: Caller) -> None:
    for job in caller.world.jobs.values():
        steps = transitions(job, caller.world.now)
        assert steps[0].status == "Starting"
        assert steps[0].start == job.created
        assert all(before.end == after.start for before, after in pairwise(steps))
        assert all(step.end is not None and step.start <= step.end for step in steps[:-1])
        assert (steps[-1].end is None) == job.live


def test_spot_interruptions_are_no_billed_time(caller: Caller) -> None:
    job = caller.described("was-interrupted")
    words = [step["Status"] for step in job["SecondaryStatusTransitions"]]
    assert words[:7] == ["Starting", "Pending", "Downloading", "Training", "Interrupted", "Restarting", "Downloading"]
    assert job["EnableManagedSpotTraining"]
    assert job["BillableTimeInSeconds"] == job["TrainingTimeInSeconds"] - 2 * 40
    assert job["TrainingEndTime"] - job["TrainingStartTime"] == job["TrainingTimeInSeconds"]


def test_a_failed_job_says_why_and_carries_a_secret(caller: Caller) -> None:
    job = caller.described("has-failed")
    assert job["FailureReason"].startswith("AlgorithmError: ExecuteUserScriptError")
    assert PLANTED_SECRETS[1] in job["FailureReason"]
    assert "FailureReason" not in caller.described("has-completed")


def test_a_job_of_several_instance_types_has_groups(caller: Caller) -> None:
    resources = caller.described("hetero-steady")["ResourceConfig"]
    assert [(one["InstanceType"], one["InstanceCount"]) for one in resources["InstanceGroups"]] == [
        ("ml.g5.12xlarge", 1),
        ("ml.c5.9xlarge", 2),
    ]
    assert "InstanceType" not in resources


def test_a_job_waits_for_the_instances_of_its_plan(caller: Caller) -> None:
    job = caller.described("waits-for-plan")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("InProgress", "Pending")
    assert "TrainingStartTime" not in job
    plans = caller.every("ListTrainingPlans", "TrainingPlanSummaries")
    (plan,) = (plan for plan in plans if plan["TrainingPlanArn"] == job["ResourceConfig"]["TrainingPlanArn"])
    assert plan["AvailableInstanceCount"] < job["ResourceConfig"]["InstanceCount"] <= plan["TotalInstanceCount"]


def test_a_search_finds_every_job_page_by_page(caller: Caller) -> None:
    found = caller.jobs(SortBy="CreationTime", SortOrder="Ascending", MaxResults=7)
    assert [job["TrainingJobName"] for job in found] == [
        job_name(job) for job in sorted(caller.world.jobs.values(), key=lambda job: (job.created, job.job_id))
    ]
    assert all("Tags" in job for job in found)


def test_a_search_is_sorted_by_the_latest_change_unless_asked_otherwise(caller: Caller) -> None:
    times = [job["LastModifiedTime"] for job in caller.jobs()]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        ([("TrainingJobStatus", "Equals", "InProgress")], lambda job: job["TrainingJobStatus"] == "InProgress"),
        ([("TrainingJobStatus", "NotEquals", "Failed")], lambda job: job["TrainingJobStatus"] != "Failed"),
        ([("TrainingJobStatus", "In", "InProgress,Stopping")], lambda job: job["TrainingJobStatus"] not in ENDED),
        (
            [("LastModifiedTime", "GreaterThanOrEqualTo", "2026-01-02T02:55:00")],
            lambda job: job["LastModifiedTime"] >= START - 545,
        ),
        (
            [
                ("CreationTime", "GreaterThanOrEqualTo", "2026-01-02T01:00:00"),
                ("TrainingJobStatus", "Equals", "Failed"),
            ],
            lambda job: job["CreationTime"] >= START - 7445 and job["TrainingJobStatus"] == "Failed",
        ),
    ],
)
def test_filters(caller: Caller, filters: list[tuple[str, ...]], fits: Callable[[Any], bool]) -> None:
    found = {job["TrainingJobName"] for job in caller.jobs(*filters)}
    assert found == {job["TrainingJobName"] for job in caller.jobs() if fits(job)}
    assert found


def test_a_search_counts_what_it_finds(caller: Caller) -> None:
    asked = {"Filters": [{"Name": "TrainingJobStatus", "Value": "Failed"}]}
    answer = caller.ask("Search", Resource="TrainingJob", SearchExpression=asked, MaxResults=1)
    failed = sum(job.status == "Failed" for job in caller.world.jobs.values())
    assert (len(answer["Results"]), answer["TotalHits"]) == (1, {"Value": failed, "Relation": "EqualTo"})


@pytest.mark.parametrize(
    ("operation", "members", "code"),
    [
        ("Search", {"Resource": "TrainingJob", "MaxResults": 101}, "ValidationException"),
        ("Search", {"Resource": "TrainingJob", "NextToken": "bm90IG91cnM="}, "ValidationException"),
        ("Search", {"Resource": "Trial"}, "ValidationException"),
        ("Search", {}, "ValidationException"),
        ("Search", {"Resource": "TrainingJob", "SearchExpression": {}}, "ValidationException"),
        ("Search", {"Resource": "TrainingJob", "MaxResult": 1}, "SerializationException"),
        ("ListClusters", {"MaxResults": "10"}, "SerializationException"),
        ("DescribeTrainingJob", {"TrainingJobName": "no-such-job"}, "ResourceNotFound"),
        ("DescribeTrainingJob", {}, "ValidationException"),
    ],
)
def test_refusals(caller: Caller, operation: str, members: dict[str, Any], code: str) -> None:
    assert caller.refused(operation, **members) == code


@pytest.mark.parametrize(
    ("name", "operator", "value"),
    [
        ("Unknown", "Equals", "x"),
        ("CreationTime", "Contains", "2026-01-02T00:00:00"),
        ("CreationTime", "GreaterThanOrEqualTo", "1767323045"),
        ("TrainingJobStatus", "GreaterThanOrEqualTo", "Failed"),
        ("TrainingJobStatus", "Is", "Failed"),
    ],
)
def test_filters_that_are_refused(caller: Caller, name: str, operator: str, value: str) -> None:
    expression = {"Filters": [{"Name": name, "Operator": operator, "Value": value}]}
    assert caller.refused("Search", Resource="TrainingJob", SearchExpression=expression) == "ValidationException"
