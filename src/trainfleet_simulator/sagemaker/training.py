"""The simulated training jobs of SageMaker: search, description, and the history of their secondary status.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Search.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SearchExpression.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import eq, ge, ne
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from trainfleet_simulator.exchange import Answer, Body, Call, utc_text
from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import SPOT, arn
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


def modified(job: Job, now: int) -> int:
    """Return the Unix time of the last change of its secondary status, or of anything else about it."""
    return max(job.modified, transitions(job, now)[-1].start)


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
    found = {} if begun is None else {"TrainingStartTime": float(begun)}
    found |= {} if ended is None else {"TrainingEndTime": float(ended)}
    return found | ({} if begun is None or ended is None else {"TrainingTimeInSeconds": ended - begun})


def _transition(step: Transition) -> dict[str, Any]:
    row = {"Status": step.status, "StartTime": float(step.start)}
    return row if step.end is None else row | {"EndTime": float(step.end)}


# Search.

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?")
_PROPERTIES: Mapping[str, Callable[[Job, int], str]] = {
    "CreationTime": lambda job, _: utc_text(job.created),
    "LastModifiedTime": lambda job, now: utc_text(modified(job, now)),
    "TrainingJobName": lambda job, _: job_name(job),
    "TrainingJobStatus": lambda job, _: STATUS[job.status],
}
_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {"Equals": eq, "NotEquals": ne, "GreaterThanOrEqualTo": ge}


class Paged(Body, rename="pascal"):
    """A request for a page."""

    next_token: str = ""
    max_results: Annotated[int, Meta(ge=1, le=100)] = 10


class _Filter(Body, rename="pascal"):
    name: Literal["CreationTime", "LastModifiedTime", "TrainingJobName", "TrainingJobStatus"]
    value: str
    operator: Literal["Equals", "NotEquals", "GreaterThanOrEqualTo"] = "Equals"

    def __post_init__(self) -> None:
        """Raises ValueError if a time is invalid, or the operator is not for this property."""
        is_time = self.name.endswith("Time")
        if is_time != (self.operator == "GreaterThanOrEqualTo") or (is_time and not _TIME.fullmatch(self.value)):
            raise ValueError(f"{self.name} {self.operator} {self.value} is invalid")

    def fits(self, job: Job, now: int) -> bool:
        return _OPERATORS[self.operator](_PROPERTIES[self.name](job, now), self.value)


class _Expression(Body, rename="pascal"):
    filters: Annotated[list[_Filter], Meta(min_length=1)]


class _Search(Paged, rename="pascal", kw_only=True):
    resource: Literal["TrainingJob"]
    search_expression: _Expression | None = None
    sort_by: Literal["CreationTime", "LastModifiedTime"] = "LastModifiedTime"
    sort_order: Literal["Ascending", "Descending"] = "Descending"


class _Named(Body, rename="pascal"):
    training_job_name: str


def search(call: Call) -> Answer:
    """Search: complete descriptions of the jobs that match an expression, the latest first."""
    asked, now = call.read(_Search), call.world.now
    filters = asked.search_expression.filters if asked.search_expression else []
    by, falling = _PROPERTIES[asked.sort_by], asked.sort_order == "Descending"

    def find() -> list[Job]:
        found = [job for job in call.world.jobs.values() if all(one.fits(job, now) for one in filters)]
        return sorted(found, key=lambda job: (by(job, now), job.job_id), reverse=falling)

    jobs, token, total = call.page(asked.next_token, asked.max_results, find)
    hits = {"TotalHits": {"Value": total, "Relation": "EqualTo"}}
    return Answer({"Results": [record(job, now) for job in jobs], **token, **hits})


def describe(call: Call) -> Answer:
    """DescribeTrainingJob: the complete description of one job."""
    name = call.read(_Named).training_job_name
    job = call.world.shown(job_id_of(name))
    if job is None or job_name(job) != name:
        raise call.refused("not_found")
    return Answer(description(job, call.world.now))
