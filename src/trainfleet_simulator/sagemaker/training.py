"""The simulated training jobs of SageMaker: search, description, and the history of their secondary status.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Search.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SearchExpression.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import eq, ne
from typing import Any, NamedTuple

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import arn
from trainfleet_simulator.sagemaker.drafts import SPOT
from trainfleet_simulator.sagemaker.parameters import PAGED, Lists, check, invalid, not_found, one_of
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import DAY, PLANTED_SECRETS

_STATES = {
    "Creating": ("InProgress", "Starting"),
    "Queuing": ("InProgress", "Pending"),
    "EnvPreparing": ("InProgress", "Downloading"),
    "Running": ("InProgress", "Training"),
    "Restarting": ("InProgress", "Restarting"),
    "SucceededReserving": ("InProgress", "Uploading"),
    "Stopping": ("Stopping", "Stopping"),
    "Succeeded": ("Completed", "Completed"),
    "Failed": ("Failed", "Failed"),
    "Stopped": ("Stopped", "Stopped"),
}
"""By the world's state, the status and the secondary status."""
STATUS = {state: status for state, (status, _) in _STATES.items()}
_INTERRUPTED_FOR = 12  # seconds until new spot instances are launched


class Transition(NamedTuple):
    """One secondary status, with its start and its end (None while it lasts), in Unix seconds."""

    status: str
    start: int
    end: int | None


def transitions(job: Job, now: int) -> list[Transition]:
    """Return every secondary status of a job up to now, oldest first."""
    starts: list[tuple[str, int]] = []
    ends = [since for _, since in job.statuses[1:]]
    for (status, since), end in zip(job.statuses, [*ends, now], strict=True):
        if status == "Restarting" and job.draft.payment == SPOT:
            starts.append(("Interrupted", since))
            if since + _INTERRUPTED_FOR <= end:
                starts.append(("Restarting", since + _INTERRUPTED_FOR))
        else:
            starts.append((_stopped(job) if status == "Stopped" else _STATES[status][1], since))
    final = job.finished
    return [
        Transition(status, start, end)
        for (status, start), end in zip(starts, [*(start for _, start in starts[1:]), final], strict=True)
    ]


def secondary_status(job: Job, now: int) -> str:
    """Return the latest secondary status."""
    if job.status == "Restarting":
        return transitions(job, now)[-1].status
    return _stopped(job) if job.status == "Stopped" else _STATES[job.status][1]


def modified(job: Job, now: int) -> int:
    """Return the Unix time of the last change of its secondary status, or of anything else about it."""
    return max(job.modified, transitions(job, now)[-1].start if job.status == "Restarting" else job.statuses[-1][1])


def _stopped(job: Job) -> str:
    """Return the word for a stopped job. Jobs that SageMaker itself stopped have a separate word."""
    return job.reason[0] if job.reason in (catalog.MAX_RUNTIME, catalog.MAX_WAIT) else "Stopped"


def job_name(job: Job) -> str:
    """Return SageMaker's name of a job."""
    return f"{job.draft.name}-{job.job_id}"


def job_id_of(name: str) -> str:
    """Return the world's id of the job with this name."""
    return name.rpartition("-")[2]


def started(job: Job) -> int | None:
    """Return the Unix time at which AWS began to bill its first instances."""
    return next((since for status, since in job.statuses if status == "EnvPreparing"), None)


def description(job: Job, now: int) -> dict[str, Any]:
    """Return the response of DescribeTrainingJob. Search returns the same, and Tags."""
    name, steps = job_name(job), transitions(job, now)
    row = {
        "TrainingJobName": name,
        "TrainingJobArn": arn("training-job", name),
        "ModelArtifacts": {"S3ModelArtifacts": f"s3://sim-models/{name}/output/model.tar.gz"},
        "TrainingJobStatus": STATUS[job.status],
        "SecondaryStatus": steps[-1].status,
        "HyperParameters": {"hub-token": PLANTED_SECRETS[1]},
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": _resources(job),
        "StoppingCondition": {"MaxRuntimeInSeconds": 28 * DAY},
        "CreationTime": float(job.created),
        "SecondaryStatusTransitions": [_transition(step) for step in steps],
        "EnableManagedSpotTraining": job.draft.payment == SPOT,
        "Environment": {"WANDB_API_KEY": PLANTED_SECRETS[0]},
        **_times(job),
    }
    if job.status == "Failed":
        row["FailureReason"] = f"{job.reason[0]}: {job.reason[1]}, command: train.py --hub-token {PLANTED_SECRETS[1]}"
    return row


def record(job: Job, now: int) -> dict[str, Any]:
    """Return a SearchRecord."""
    tags = [{"Key": key, "Value": value} for key, value in job.draft.tags]
    return {"TrainingJob": description(job, now) | {"Tags": tags}}


def _resources(job: Job) -> dict[str, Any]:
    roles, draft = job.draft.roles, job.draft
    config: dict[str, Any] = {"VolumeSizeInGB": 200}
    if len(roles) == 1:
        config |= {"InstanceType": roles[0].machine, "InstanceCount": roles[0].count}
    else:
        config["InstanceGroups"] = [
            {"InstanceType": role.machine, "InstanceCount": role.count, "InstanceGroupName": role.type}
            for role in roles
        ]
    return config | ({"TrainingPlanArn": arn("training-plan", draft.pool_id)} if draft.pool_id else {})


def _times(job: Job) -> dict[str, Any]:
    """Return the times on instances. Their seconds are known at the end."""
    begun, ended = started(job), job.finished
    found: dict[str, Any] = {}
    if begun is not None:
        found["TrainingStartTime"] = float(begun)
    if ended is not None:
        found["TrainingEndTime"] = float(ended)
    if begun is not None and ended is not None:
        found["TrainingTimeInSeconds"] = ended - begun
    return found


def _transition(step: Transition) -> dict[str, Any]:
    row = {"Status": step.status, "StartTime": float(step.start)}
    return row if step.end is None else row | {"EndTime": float(step.end)}


# Search.

Test = Callable[[Job, int], bool]
"""Whether a job fits, at a time."""

_TIMES: Mapping[str, Callable[[Job, int], int]] = {
    "CreationTime": lambda job, _: job.created,
    "LastModifiedTime": modified,
}
_TEXTS: Mapping[str, Callable[[Job, int], str]] = {
    "TrainingJobName": lambda job, _: job_name(job),
    "TrainingJobStatus": lambda job, _: STATUS[job.status],
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?")
_OF_TEXT: Mapping[str, Callable[[str, str], bool]] = {"Equals": eq, "NotEquals": ne}
_FILTER = {"Name": "text", "Operator": "text", "Value": "text"}
_SEARCH = {**PAGED, "Resource": "text", "SearchExpression": "object", "SortBy": "text", "SortOrder": "text"}


class Training:
    """The operations."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists

    def search(self, call: Call) -> Answer:
        """Search: complete descriptions of the jobs that match an expression, the latest first."""
        given = check(call.body, _SEARCH, "Resource")
        if given["Resource"] != "TrainingJob":
            raise invalid("only training jobs are simulated")
        test = _test_of(given["SearchExpression"]) if "SearchExpression" in given else lambda job, now: True
        by = _TIMES[one_of(given, "SortBy", tuple(_TIMES), "LastModifiedTime")]
        falling = one_of(given, "SortOrder", ("Ascending", "Descending"), "Descending") == "Descending"
        now = call.world.now

        def find() -> list[Job]:
            found = [job for job in call.world.jobs.values() if test(job, now)]
            return sorted(found, key=lambda job: (by(job, now), job.job_id), reverse=falling)

        jobs, token, total = self._lists.page(call, find)
        hits = {"TotalHits": {"Value": total, "Relation": "EqualTo"}}
        return Answer({"Results": [record(job, now) for job in jobs], **token, **hits})

    @staticmethod
    def describe(call: Call) -> Answer:
        """DescribeTrainingJob: the complete description of one job."""
        name = check(call.body, {"TrainingJobName": "text"}, "TrainingJobName")["TrainingJobName"]
        job = call.world.shown(job_id_of(name))
        if job is None or job_name(job) != name:
            raise not_found()
        return Answer(description(job, call.world.now))


def _test_of(given: Any) -> Test:
    """Return the test of a SearchExpression, whose filters are joined by And. Raises ApiError."""
    tests = [_filter(one) for one in check(given, {"Filters": "list"}).get("Filters", [])]
    if not tests:
        raise invalid("You must provide at least one subexpression, filter, or nested filter")
    return lambda job, now: all(test(job, now) for test in tests)


def _filter(given: Any) -> Test:
    one = check(given, _FILTER, "Name", "Value")
    name, wanted = one["Name"], one["Value"]
    if name in _TIMES:
        one_of(one, "Operator", ("GreaterThanOrEqualTo",), "Equals")
        moment, when = _TIMES[name], _seconds(wanted)
        return lambda job, now: moment(job, now) >= when
    if name not in _TEXTS:
        raise invalid(f"Unknown property name: {name}")
    text, fits = _TEXTS[name], _OF_TEXT[one_of(one, "Operator", tuple(_OF_TEXT), "Equals")]
    return lambda job, now: fits(text(job, now), wanted)


def _seconds(text: str) -> int:
    """Parse a time of a filter into Unix seconds."""
    if not _TIME.fullmatch(text):
        raise invalid(f"Value {text} is not a date-time of the form YYYY-mm-dd'T'HH:MM:SS")
    return int(datetime.fromisoformat(text.rstrip("Z")).replace(tzinfo=UTC).timestamp())
