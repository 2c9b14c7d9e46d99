"""Training jobs as SageMaker returns them: the short form of a list, and the complete description.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html
"""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import arn
from trainfleet_simulator.sagemaker.drafts import SPOT
from trainfleet_simulator.sagemaker.statuses import STATUS, Transition, modified, transitions
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import DAY, PLANTED_SECRETS

_MAX_RUNTIME = 28 * DAY  # seconds


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
    name, spot = job_name(job), job.draft.payment == SPOT
    steps = transitions(job, now)
    row = {
        "TrainingJobName": name,
        "TrainingJobArn": arn("training-job", name),
        "ModelArtifacts": {"S3ModelArtifacts": f"s3://sim-models/{name}/output/model.tar.gz"},
        "TrainingJobStatus": STATUS[job.status],
        "SecondaryStatus": steps[-1].status,
        "HyperParameters": {"epochs": "3", "hub-token": PLANTED_SECRETS[1]},
        "AlgorithmSpecification": {
            "TrainingImage": f"{catalog.ACCOUNT_ID}.dkr.ecr.{catalog.REGION}.amazonaws.com/train:1.0",
            "TrainingInputMode": "File",
            "EnableSageMakerMetricsTimeSeries": False,
        },
        "RoleArn": f"arn:aws:iam::{catalog.ACCOUNT_ID}:role/{job.draft.user.name}-training",
        "InputDataConfig": [
            {
                "ChannelName": "training",
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://sim-data/train"}},
            }
        ],
        "OutputDataConfig": {"KmsKeyId": "", "S3OutputPath": "s3://sim-models"},
        "ResourceConfig": _resources(job),
        "StoppingCondition": {"MaxRuntimeInSeconds": _MAX_RUNTIME}
        | ({"MaxWaitTimeInSeconds": _MAX_RUNTIME} if spot else {}),
        "CreationTime": float(job.created),
        "LastModifiedTime": float(modified(job, now)),
        "SecondaryStatusTransitions": [_transition(step) for step in steps],
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": spot,
        "Environment": {"NCCL_DEBUG": "INFO", "WANDB_API_KEY": PLANTED_SECRETS[0]},
        "RetryStrategy": {"MaximumRetryAttempts": job.draft.restarts_allowed},
        **_times(job, steps),
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


def _times(job: Job, steps: list[Transition]) -> dict[str, Any]:
    """Return the times on instances. Their seconds are known at the end. Interruptions are not billed."""
    begun, ended = started(job), job.finished
    found: dict[str, Any] = {}
    if begun is not None:
        found["TrainingStartTime"] = float(begun)
    if ended is not None:
        found["TrainingEndTime"] = float(ended)
    if begun is not None and ended is not None:
        paused = sum((step.end or ended) - step.start for step in steps if step.status in {"Interrupted", "Restarting"})
        found |= {"TrainingTimeInSeconds": ended - begun, "BillableTimeInSeconds": ended - begun - paused}
    return found


def _transition(step: Transition) -> dict[str, Any]:
    row = {"Status": step.status, "StartTime": float(step.start), "StatusMessage": step.message}
    return row if step.end is None else row | {"EndTime": float(step.end)}
