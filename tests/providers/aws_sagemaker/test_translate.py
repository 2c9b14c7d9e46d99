"""Statuses, instance types and times of training jobs, against the enumerations of AWS' own models."""

from __future__ import annotations

import re

import pytest
from msgspec import convert

from tests.providers.aws_sagemaker.cloud import Row, job, stage
from tests.providers.aws_sagemaker.models import enumeration
from tests.support.clock import START
from trainfleet_exporter.model import Accelerators, Job, Status
from trainfleet_exporter.providers.aws_sagemaker import instances, jobs


def _job(row: Row) -> Job:
    found = jobs.translate(convert(row, jobs.TrainingJob))
    assert found is not None
    return found[0]


def _status(primary: str, secondary: str = "") -> Status:
    return _job({"TrainingJobName": "j", "TrainingJobStatus": primary, "SecondaryStatus": secondary}).status


_UNKNOWN = {"Stopping", "Stopped", "MaxRuntimeExceeded", "Completed", "Failed", "MaxWaitTimeExceeded"}


@pytest.mark.parametrize("secondary", enumeration("SecondaryStatus"))
def test_every_secondary_status_in_progress_is_mapped_or_unknown(secondary: str) -> None:
    status = _status("InProgress", secondary)
    assert (status is Status.UNKNOWN) == (secondary in _UNKNOWN)


_NOT_KNOWN = re.compile(r"ml\.(g7)\.")


@pytest.mark.parametrize("kind", sorted({*enumeration("TrainingInstanceType"), *enumeration("ClusterInstanceType")}))
def test_every_instance_type_of_the_models_is_known_or_named(kind: str) -> None:
    assert (instances.accelerators(kind) is None) == (_NOT_KNOWN.match(kind) is not None)
    cores = instances.cpu_cores(kind)
    assert cores


@pytest.mark.parametrize(
    ("kind", "found", "cores"),
    [
        ("ml.p4d.24xlarge", (Accelerators("gpu", "A100", 8),), 96),
        ("ml.p6e-gb200.36xlarge", (Accelerators("gpu", "GB200", 4),), 144),
        ("ml.trn2.48xlarge", (Accelerators("npu", "Trainium2", 16),), 192),
        ("ml.m7i-flex.large", (), 2),
        ("ml.c4.8xlarge", (), 36),
        ("ml.c7g.medium", (), 1),
        ("ml.t3.medium", (), 2),
        ("ml.quantum.9xlarge", None, 36),
        ("other", None, None),
    ],
)
def test_instance_types(kind: str, found: tuple[Accelerators, ...] | None, cores: float | None) -> None:
    assert instances.accelerators(kind) == found
    assert instances.cpu_cores(kind) == cores


_TRAINED = ("Starting", "Downloading", "Training")


@pytest.mark.parametrize(
    ("words", "started", "holds"),
    [
        (["Pending"], None, False),
        (["Starting"], None, False),
        (["Starting", "Pending", "Starting"], None, False),
        (["Starting"], START, True),  # AWS bills from this time on
        (["Starting", "Downloading"], None, True),
        ([*_TRAINED, "Updating"], START, True),
        ([*_TRAINED, "Uploading"], START, True),
        ([*_TRAINED, "Restarting"], START, True),
        ([*_TRAINED, "Restarting", "Starting"], START, True),
        ([*_TRAINED, "Pending"], START, False),
        ([*_TRAINED, "Interrupted"], START, False),
        ([*_TRAINED, "Interrupted", "Starting"], START, False),
        ([*_TRAINED, "Interrupted", "Pending", "LaunchingMLInstances"], START, False),
        ([*_TRAINED, "Interrupted", "Restarting", "Starting"], START, False),
        ([*_TRAINED, "Interrupted", "Starting", "Downloading"], START, True),
    ],
)
def test_a_job_that_waits_for_capacity_holds_nothing(words: list[str], started: float | None, holds: bool) -> None:
    stages = [stage(word, number, number + 1) for number, word in enumerate(words)]
    found = _job(job("a", words[-1], TrainingStartTime=started, SecondaryStatusTransitions=stages))
    assert found.platform_status == words[-1]
    assert found.holds_resources is holds


@pytest.mark.parametrize(("before", "holds"), [("Pending", False), ("Interrupted", False), ("Training", True)])
def test_a_job_that_stops_holds_what_it_held(before: str, holds: bool) -> None:
    stages = [stage("Starting", 0, 5), stage(before, 5, 9), stage("Stopping", 9, None)]
    found = _job(job("a", "Stopping", "Stopping", SecondaryStatusTransitions=stages))
    assert (found.status, found.holds_resources) == (Status.STOPPING, holds)
