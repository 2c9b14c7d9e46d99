"""Statuses, instance types and times of training jobs, against the enumerations of AWS' own models."""

from __future__ import annotations

import re

import pytest
from msgspec import convert

from tests.providers.aws_sagemaker.cloud import Row, job, plan_arn, stage
from tests.providers.aws_sagemaker.models import enumeration, service
from tests.support.clock import START
from trainfleet_exporter.model import Accelerators, Status
from trainfleet_exporter.providers.aws_sagemaker import instances, payloads, translate, translate_history
from trainfleet_exporter.providers.jobs.history import Interval


def _job(row: Row) -> payloads.Job:
    return convert(row, payloads.Job)


_UNKNOWN = {"Stopping", "Stopped", "MaxRuntimeExceeded", "Completed", "Failed", "MaxWaitTimeExceeded"}


@pytest.mark.parametrize("secondary", enumeration("SecondaryStatus"))
def test_every_secondary_status_in_progress_is_mapped_or_unknown(secondary: str) -> None:
    status = translate.job_status("InProgress", secondary)
    assert (status is Status.UNKNOWN) == (secondary in _UNKNOWN)


@pytest.mark.parametrize("primary", enumeration("TrainingJobStatus"))
@pytest.mark.parametrize("secondary", [*enumeration("SecondaryStatus"), ""])
def test_the_primary_status_decides_unless_in_progress(primary: str, secondary: str) -> None:
    words = {
        "Stopping": Status.STOPPING,
        "Completed": Status.SUCCEEDED,
        "Failed": Status.FAILED,
        "Stopped": Status.STOPPED,
        "Deleting": Status.UNKNOWN,
    }
    if primary != "InProgress":
        assert translate.job_status(primary, secondary) is words[primary]


def test_the_pairs_of_the_models_text_are_known() -> None:
    """The text of SecondaryStatus lists the pairs that there are."""
    text = service("sagemaker").shape_for("TrainingJob").members["SecondaryStatus"].documentation
    lists = re.findall(r"<dt>(\w+)</dt>\s*<dd>(.*?)</dd>", text, re.DOTALL)
    pairs = [(primary, secondary) for primary, said in lists for secondary in re.findall(r"<code>(\w+)</code> -", said)]
    assert len(pairs) >= 8
    for primary, secondary in pairs:
        assert translate.job_status(primary, secondary) is not Status.UNKNOWN, (primary, secondary)


def test_every_live_secondary_status_has_a_phase() -> None:
    assert translate_history.PHASES.keys() == translate.PROGRESS.keys()


_NOT_KNOWN = re.compile(r"ml\.(g7)\.")


@pytest.mark.parametrize(
    "kind",
    sorted({*enumeration("TrainingInstanceType"), *enumeration("ClusterInstanceType")}),
)
def test_every_instance_type_of_the_models_is_known_or_named(kind: str) -> None:
    assert (instances.accelerators(kind) is None) == (_NOT_KNOWN.match(kind) is not None)
    cores = instances.cpu_cores(kind)
    assert ((cores is None) == kind.endswith(".medium") and kind != "ml.t3.medium") or cores


@pytest.mark.parametrize(
    ("kind", "found", "cores"),
    [
        ("ml.p4d.24xlarge", Accelerators("gpu", "A100", 8), 96),
        ("ml.p4de.24xlarge", Accelerators("gpu", "A100", 8), 96),
        ("ml.p5.4xlarge", Accelerators("gpu", "H100", 1), 16),
        ("ml.p5en.48xlarge", Accelerators("gpu", "H200", 8), 192),
        ("ml.p6e-gb200.36xlarge", Accelerators("gpu", "GB200", 4), 144),
        ("ml.trn1.2xlarge", Accelerators("npu", "Trainium", 1), 8),
        ("ml.trn2.48xlarge", Accelerators("npu", "Trainium2", 16), 192),
        ("ml.g5.16xlarge", Accelerators("gpu", "A10G", 1), 64),
        ("ml.g6.24xlarge", Accelerators("gpu", "L4", 4), 96),
        ("ml.m7i-flex.large", Accelerators("gpu", "", 0), 2),
        ("ml.c4.8xlarge", Accelerators("gpu", "", 0), 36),
        ("ml.quantum.9xlarge", None, 36),
        ("other", None, None),
    ],
)
def test_instance_types(kind: str, found: Accelerators | None, cores: float | None) -> None:
    assert instances.accelerators(kind) == found
    assert instances.cpu_cores(kind) == cores


def test_a_job_of_a_training_plan_is_in_its_pool() -> None:
    config = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "TrainingPlanArn": plan_arn("plan-a")}
    found = translate.job(_job(job("a", "Pending", ResourceConfig=config)))
    assert found is not None
    assert (found.pool_id, found.payment_type, found.status) == ("plan-a", "TrainingPlan", Status.STARTING)


@pytest.mark.parametrize(
    ("secondary", "started", "holds"),
    [
        ("Pending", None, False),
        ("Pending", START - 500, False),  # after an interruption
        ("Starting", None, False),
        ("Starting", START, True),
        ("Downloading", START, True),
        ("Training", START, True),
        ("Updating", START, True),
        ("Restarting", START, True),
        ("Interrupted", START, False),
    ],
)
def test_a_job_that_waits_for_capacity_holds_nothing(secondary: str, started: float | None, holds: bool) -> None:
    found = translate.job(_job(job("a", secondary, TrainingStartTime=started)))
    assert found is not None
    assert found.platform_status == secondary
    assert found.holds_resources is holds


def test_time_that_a_job_waits_for_capacity_is_queued() -> None:
    stages = [stage("Starting", 0, 5), stage("Pending", 5, 65), stage("Training", 65, 70)]
    stages += [stage("Updating", 70, 80), stage("Training", 80, None)]
    row = _job(job("a", SecondaryStatusTransitions=stages))
    found, history = translate.job(row), translate_history.records(row)
    assert found is not None
    assert found.restarts == 0
    assert history is not None
    assert history.intervals is not None
    assert [each.phase for each in history.intervals] == ["preparing", "queued", "running", "running", "running"]


def test_groups_of_a_large_and_a_larger_type_have_no_common_cpu_count() -> None:
    assert instances.cpu_cores("ml.p4d.24xlarge,ml.m5.large") is None
    assert instances.cpu_cores("ml.m5.large") == 2


def test_groups_of_instances_add_up() -> None:
    groups = [
        {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "InstanceGroupName": "a"},
        {"InstanceType": "ml.c5.xlarge", "InstanceCount": 3, "InstanceGroupName": "b"},
    ]
    found = translate.job(_job(job("a", ResourceConfig={"InstanceGroups": groups})))
    assert found is not None
    assert (found.nodes, found.cpu_cores) == (5, 204)
    assert found.accelerators == (Accelerators("gpu", "A100", 16),)
    assert found.resource_type == "ml.p4d.24xlarge,ml.c5.xlarge"
    groups[1]["InstanceType"] = "ml.unknown"
    found = translate.job(_job(job("a", ResourceConfig={"InstanceGroups": groups})))
    assert found is not None
    assert (found.nodes, found.cpu_cores, found.accelerators) == (5, None, ())


def test_the_type_that_was_chosen_counts() -> None:
    config = {"InstancePreferences": [], "SelectedInstanceType": "ml.g5.xlarge", "SelectedInstanceCount": 3}
    found = translate.job(_job(job("a", ResourceConfig=config)))
    assert found is not None
    assert found.accelerators == (Accelerators("gpu", "A10G", 3),)


def test_absent_is_not_zero() -> None:
    found = translate.job(payloads.Job(training_job_name="a"))
    assert found is not None
    assert found.status is Status.UNKNOWN
    absent = (found.holds_resources, found.created, found.nodes, found.cpu_cores, found.restarts, found.duration)
    assert absent == (None,) * 6
    assert found.payment_type == ""
    assert translate.job(payloads.Job()) is None


def test_a_job_stopped_before_it_trained_ends_with_its_last_status() -> None:
    stages = [stage("Pending", -50, -20), stage("Stopping", -20, -10), stage("Stopped", -10, -10)]
    row = job("a", "Stopped", "Stopped", SecondaryStatusTransitions=stages)
    del row["TrainingStartTime"]
    found = translate.job(_job(row))
    assert found is not None
    assert (found.started, found.finished, found.reason) == (None, START - 10, "")


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("ClientError: no data at s3://secret", "ClientError"),
        ("a sentence: of words", ""),
        ("CapacityError", "CapacityError"),
    ],
)
def test_only_the_code_of_a_failure_is_shown(reason: str, shown: str) -> None:
    found = translate.job(_job(job("a", "Failed", "Failed", FailureReason=reason)))
    assert found is not None
    assert found.reason == shown


def test_history_of_restarts() -> None:
    stages = [
        stage("Starting", 0, 10),
        stage("Training", 10, 20),
        stage("Interrupted", 20, 25),
        stage("Restarting", 25, 30),
        stage("Training", 30, 40),
        stage("Restarting", 40, 45),
        stage("Training", 45, None),
        stage("Training", 50, 40),
    ]
    found = translate_history.records(_job(job("a", SecondaryStatusTransitions=stages)))
    assert found is not None
    assert found.faults is not None
    assert [(fault.at - START, fault.cause, fault.platform_cause) for fault in found.faults] == [
        (20, "preempted", "Interrupted"),
        (40, "other", "Restarting"),
    ]
    assert [(each.start - START, each.result, each.seconds) for each in found.recoveries] == [
        (20, "success", 10),
        (40, "success", 5),
    ]
    lost = [*stages[:3], stage("MaxWaitTimeExceeded", 90, 90)]
    ended = translate_history.records(_job(job("a", SecondaryStatusTransitions=lost)))
    assert ended is not None
    assert [(each.result, each.seconds) for each in ended.recoveries] == [("failed", 70)]
    assert found.intervals is not None
    assert found.intervals[-1] == Interval("running", START + 45, START + 50)
    assert translate_history.records(payloads.Job()) is None


def test_restarts_are_not_counted_where_a_status_is_not_known() -> None:
    steps = [stage("Training", START, START + 5), stage("Interrupted", START + 5, START + 9)]
    known = [*steps, stage("Training", START + 9, None)]
    unknown = [*steps, stage("Sublimating", START + 9, None)]
    counts = []
    for transitions in (known, unknown):
        found = translate.job(_job(job("a", SecondaryStatusTransitions=transitions)))
        assert found is not None
        counts.append(found.restarts)
    assert counts == [1, None]


def test_a_history_without_a_usable_time_has_no_intervals() -> None:
    for transitions in ([], [{"Status": "Training", "StartTime": -5.0}]):
        found = translate_history.records(_job(job("a", SecondaryStatusTransitions=transitions)))
        assert found is not None
        assert found.intervals is None
