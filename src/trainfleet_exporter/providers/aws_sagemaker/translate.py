"""From the payloads of SageMaker's training jobs to the model: pure functions. Values without a name become None.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingJob.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from trainfleet_exporter.model import FINISHED, Accelerator, Accelerators, Job, Pod, Status, Workspace
from trainfleet_exporter.providers.aws_sagemaker import payloads
from trainfleet_exporter.providers.aws_sagemaker.instances import accelerators, cpu_cores
from trainfleet_exporter.providers.jobs.history import code, readable
from trainfleet_exporter.providers.values import amount, unix_time

DEFAULT_WORKSPACE = "default"
WORKSPACE = Workspace(DEFAULT_WORKSPACE, DEFAULT_WORKSPACE)
"""The only workspace: AWS has none."""
IN_PROGRESS = "InProgress"
JOB_STATUS: Mapping[str, Status] = {
    "Stopping": Status.STOPPING,
    "Completed": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Stopped": Status.STOPPED,
}
"""By TrainingJobStatus. For the others, SecondaryStatus decides."""
PROGRESS: Mapping[str, Status] = {
    "Starting": Status.STARTING,
    "Pending": Status.STARTING,
    "LaunchingMLInstances": Status.STARTING,
    "PreparingTrainingStack": Status.STARTING,
    "Downloading": Status.STARTING,
    "DownloadingTrainingImage": Status.STARTING,
    "Training": Status.RUNNING,
    "Uploading": Status.RUNNING,
    "Updating": Status.RUNNING,
    "Restarting": Status.RESTARTING,
    "Interrupted": Status.RESTARTING,
}
"""By SecondaryStatus of a job in progress."""
LIVE_STATUSES = (IN_PROGRESS, "Stopping")
TERMINAL_STATUSES = ("Completed", "Failed", "Stopped")
_HOLDING = frozenset({Status.RUNNING, Status.RESTARTING, Status.STOPPING})
_WARM = frozenset({"Available", "InUse"})
"""Statuses of a warm pool in which an ended job still holds its instances."""
_WAITS = frozenset({"Pending", "Interrupted"})
"""Secondary statuses of a job that waits for capacity."""
_RUNS = frozenset({"Training", "Uploading", "Updating"})
_STAGES = PROGRESS.keys() | JOB_STATUS.keys() | {"MaxRuntimeExceeded", "MaxWaitTimeExceeded"}
"""Every word of SecondaryStatus."""
_POD_ROLE = "algo"
"""Instances are hosts `algo-1`, `algo-2` and so on."""
_MOST_PODS = 10_000
_NO_CONFIG = payloads.ResourceConfig()


def job_status(primary: str, secondary: str = "") -> Status:
    """Return the common status of a job's two statuses."""
    if primary == IN_PROGRESS:
        return PROGRESS.get(secondary, Status.UNKNOWN)
    return JOB_STATUS.get(primary, Status.UNKNOWN)


class Instances(Struct, frozen=True, gc=False):
    """Instances of one type. Unknown values are None."""

    type: str
    count: float | None


def instances(row: payloads.Job) -> tuple[Instances, ...]:
    """Return the instances of a job: groups, or one type that the job requested or SageMaker chose."""
    config = row.resource_config or _NO_CONFIG
    if config.instance_groups:
        groups = readable(config.instance_groups)
        if len(groups) < len(config.instance_groups):
            return (Instances("", None),)
        return tuple(Instances(group.instance_type or "", amount(group.instance_count)) for group in groups)
    chosen = config.selected_instance_type
    count = config.selected_instance_count if chosen else config.instance_count
    kind = chosen or config.instance_type
    return () if kind is None and count is None else (Instances(kind or "", amount(count)),)


def job(row: payloads.Job) -> Job | None:
    """Translate a job of Search or DescribeTrainingJob."""
    if not row.training_job_name:
        return None
    primary, secondary = row.training_job_status or "", row.secondary_status or ""
    status = job_status(primary, secondary)
    ended = status in FINISHED
    holds = _holds(row, status)
    used = instances(row)
    asked = () if ended and not holds else used
    config = row.resource_config or _NO_CONFIG
    return Job(
        job_id=row.training_job_name,
        name=row.training_job_name,
        job_type=_job_type(row),
        workspace_id=DEFAULT_WORKSPACE,
        pool_id=plan_name(config.training_plan_arn),
        resource_type=",".join(dict.fromkeys(group.type for group in used if group.type)),
        payment_type=_payment_type(row, config),
        status=status,
        platform_status=secondary if primary == IN_PROGRESS else primary,
        reason=_reason(row, primary, secondary),
        holds_resources=None if status is Status.UNKNOWN else holds,
        created=unix_time(row.creation_time),
        started=unix_time(row.training_start_time),
        finished=_finished(row) if ended else None,
        duration=amount(row.duration),
        restarts=_restarts(row),
        cpu_cores=_total([(group.count, cpu_cores(group.type)) for group in asked]),
        nodes=_total([(group.count, 1.0) for group in asked]),
        accelerators=_accelerators(asked),
        tags=tuple((tag.key, tag.value or "") for tag in row.tags or () if tag is not None and tag.key),
    )


def pods(job_id: str, nodes: float | None) -> list[Pod]:
    """Return the instances of a job as pods, with their names and without their states."""
    return [Pod(job_id=job_id, pod_id=name, role=_POD_ROLE) for name in hosts(nodes)]


def hosts(nodes: float | None) -> list[str]:
    """Return the names of a job's instances."""
    return [f"{_POD_ROLE}-{number}" for number in range(1, min(int(nodes or 0), _MOST_PODS) + 1)]


def plan_name(arn: str | None) -> str:
    """Return the name of a training plan from its ARN."""
    return (arn or "").rpartition("/")[2]


def _holds(row: payloads.Job, status: Status) -> bool:
    """Return whether a job holds instances: those of a warm pool, or its own, which AWS bills when training starts."""
    if status in FINISHED:
        return row.warm_pool_status is not None and row.warm_pool_status.status in _WARM
    if row.training_job_status == IN_PROGRESS and row.secondary_status in _WAITS:
        return False
    if status is Status.STARTING:
        return unix_time(row.training_start_time) is not None
    return status in _HOLDING


def _job_type(row: payloads.Job) -> str:
    if row.tuning_job_arn:
        return "HyperParameterTuningJob"
    if row.auto_ml_job_arn:
        return "AutoMLJob"
    return "LabelingJob" if row.labeling_job_arn else "TrainingJob"


def _payment_type(row: payloads.Job, config: payloads.ResourceConfig) -> str:
    if config.training_plan_arn:
        return "TrainingPlan"
    if row.enable_managed_spot_training is None:
        return ""
    return "Spot" if row.enable_managed_spot_training else "OnDemand"


def _reason(row: payloads.Job, primary: str, secondary: str) -> str:
    """Return the code at the start of a failure's text (`ClientError: ...`), or the cause of a stop
    (`MaxRuntimeExceeded`)."""
    if row.failure_reason:
        return code(row.failure_reason.partition(":")[0].strip())
    return code(secondary) if primary == "Stopped" and secondary != primary else ""


def _finished(row: payloads.Job) -> float | None:
    """Return the end of training. For a job that was stopped before training, it is the end of its last status."""
    end = unix_time(row.training_end_time)
    if end is None:
        times = [unix_time(item.end_time) or unix_time(item.start_time) for item in _transitions(row)]
        end = max([time for time in times if time is not None], default=None)
    return end


def _restarts(row: payloads.Job) -> int | None:
    """Count the runs after the first: how often training began again after another status. None if one is unknown."""
    stages = _transitions(row)
    if row.secondary_status_transitions is None or any(item.status not in _STAGES for item in stages):
        return None
    runs, is_running = 0, False
    for item in stages:
        runs += item.status == "Training" and not is_running
        is_running = item.status in _RUNS
    return max(0, runs - 1)


def _transitions(row: payloads.Job) -> list[payloads.Transition]:
    return [item for item in row.secondary_status_transitions or () if item is not None]


def _total(amounts: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Return the sum over groups: instances times the amount of one instance. None if an amount is unknown."""
    found = [count * each for count, each in amounts if count is not None and each is not None]
    return math.fsum(found) if found and len(found) == len(amounts) else None


def _accelerators(groups: Sequence[Instances]) -> tuple[Accelerators, ...]:
    """Return the accelerators of all groups by kind and model; empty if those of a group are unknown."""
    counts: dict[tuple[Accelerator, str], float] = {}
    for group in groups:
        each = accelerators(group.type)
        if each is None or group.count is None:
            return ()
        counts[each.kind, each.model] = counts.get((each.kind, each.model), 0.0) + group.count * each.count
    real = {key: count for key, count in counts.items() if count} or counts
    return tuple(Accelerators(kind, model, count) for (kind, model), count in real.items())
