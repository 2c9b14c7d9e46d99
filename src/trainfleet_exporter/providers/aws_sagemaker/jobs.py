"""Training jobs by Search, which has complete descriptions of 100 jobs a call.

    Search ──► TrainingJob ──translate──► Job, Records ──Workspaces──► objects of the model

A poll makes one search for live jobs, and one for jobs that changed since the last poll and are not in progress: a call
for each 100 jobs found. It looks up jobs that are in neither, such as those that have ended and keep a warm pool.
Only Search has the tags of jobs, and the whole history in a list. If a policy denies Search, the poll fails.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingJob.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from itertools import chain, zip_longest
from math import inf
from typing import Any, NamedTuple

from msgspec import field
from msgspec.structs import replace

from trainfleet_exporter.errors import BadAnswer, CloudError
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.histories import Interval, JobFault, Records, Recovery
from trainfleet_exporter.fleet.past import life_of
from trainfleet_exporter.fleet.workspaces import WorkspaceRead, Workspaces
from trainfleet_exporter.model import FINISHED, Cause, Job, JobCount, Phase, Pod, Status, Workspace
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.providers.aws_sagemaker import api
from trainfleet_exporter.providers.aws_sagemaker.api import Answer, Calls, State, page_of
from trainfleet_exporter.providers.aws_sagemaker.config import WORKSPACE_ID, AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.instances import Group, accelerators_of, cpu_cores_of, total_of
from trainfleet_exporter.providers.past import Life, Spell
from trainfleet_exporter.providers.values import amount, code, readable, unix_time, whole
from trainfleet_exporter.transport.json_fields import iso_time

WORKSPACE = Workspace(WORKSPACE_ID, WORKSPACE_ID)
"""The only workspace: AWS has none."""

# Answers.


class InstanceGroup(Answer):
    instance_type: str | None = None
    instance_count: float | None = None


class InstancePreference(Answer):
    instance_type: str | None = None
    training_plan_arns: list[str | None] | None = None


class ResourceConfig(InstanceGroup):
    instance_groups: list[InstanceGroup | None] | None = None
    instance_preferences: list[InstancePreference | None] | None = None
    selected_instance_type: str | None = None
    selected_instance_count: float | None = None
    training_plan_arn: str | None = None


class SecondaryStatusTransition(State):
    start_time: float | None = None
    end_time: float | None = None


class Tag(Answer):
    key: str | None = None
    value: str | None = None


class WarmPool(State):
    resource_retained_billable_time_in_seconds: float | None = None


class TrainingJob(Answer):
    """A job of Search, or the response of DescribeTrainingJob, which has no tags."""

    training_job_name: str | None = None
    training_job_status: str | None = None
    secondary_status: str | None = None
    failure_reason: str | None = None
    tuning_job_arn: str | None = None
    labeling_job_arn: str | None = None
    auto_ml_job_arn: str | None = field(name="AutoMLJobArn", default=None)
    resource_config: ResourceConfig | None = None
    warm_pool_status: WarmPool | None = None
    creation_time: float | None = None
    last_modified_time: float | None = None
    training_start_time: float | None = None
    training_end_time: float | None = None
    secondary_status_transitions: list[SecondaryStatusTransition | None] | None = None
    enable_managed_spot_training: bool | None = None
    training_time_in_seconds: float | None = None
    tags: list[Tag | None] | None = None


class SearchRecord(Answer):
    training_job: TrainingJob | None = None


class TotalHits(Answer):
    value: float | None = None
    relation: str | None = None


class SearchPage(page_of("Results", SearchRecord)):  # type: ignore[misc]  # a class that is made
    total_hits: TotalHits | None = None  # the number of results of all pages, or a lower bound


# Words.

IN_PROGRESS = "InProgress"
ENDED = ("Completed", "Failed", "Stopped")
"""Each TrainingJobStatus of jobs that ended."""
WORDS: Mapping[str, tuple[Status, Phase | None, bool | None]] = {
    "Pending": (Status.QUEUED, "queued", False),
    "Starting": (Status.STARTING, "preparing", None),
    "LaunchingMLInstances": (Status.STARTING, "preparing", None),
    "PreparingTrainingStack": (Status.STARTING, "preparing", None),
    "Downloading": (Status.STARTING, "preparing", True),
    "DownloadingTrainingImage": (Status.STARTING, "preparing", True),
    "Training": (Status.RUNNING, "running", True),
    "Updating": (Status.RUNNING, "running", True),
    "Uploading": (Status.RUNNING, "finishing", True),
    "Restarting": (Status.RESTARTING, "recovering", None),
    "Interrupted": (Status.RESTARTING, "queued", False),
    "Stopping": (Status.STOPPING, None, None),
    "Completed": (Status.SUCCEEDED, None, None),
    "Failed": (Status.FAILED, None, None),
    "Stopped": (Status.STOPPED, None, None),
    "MaxRuntimeExceeded": (Status.STOPPED, None, None),
    "MaxWaitTimeExceeded": (Status.STOPPED, None, None),
    "Deleting": (Status.UNKNOWN, None, None),
}
"""By SecondaryStatus of a job in progress, which alone has a phase, else by TrainingJobStatus: the status, the phase,
and whether the job has instances. If that is None, it has those of before: a launch or a restart may have none yet."""
_NO_WORD = (Status.UNKNOWN, None, None)
STATES = [(status, word) for word, (status, _, _) in WORDS.items() if status not in FINISHED]
CAUSES: Mapping[str, Cause] = {"Interrupted": "preempted", "Restarting": "other"}
"""Causes by the secondary status that follows a fault. A restart after an interruption belongs to the same fault."""

# From answers to the model: pure functions. Values without a name become None.


class Stage(NamedTuple):
    """A secondary status of a job, with its beginning and its end (None while it lasts) in Unix seconds."""

    word: str
    status: Status
    phase: Phase | None
    start: float
    end: float | None
    holds: bool
    """Whether the job held instances: from the first download, training or TrainingStartTime to an interruption."""


def translate(row: TrainingJob) -> tuple[Job, Records | None] | None:
    """Return the job of a row and its history, which is None if the row has none; None without a name."""
    name, config, stages = row.training_job_name, row.resource_config or ResourceConfig(), stages_of(row)
    if not name:
        return None
    primary, secondary = row.training_job_status or "", row.secondary_status or ""
    word = secondary if primary == IN_PROGRESS else primary
    status, phase, _ = WORDS.get(word, _NO_WORD)
    if (phase is None) is (primary == IN_PROGRESS):
        status = Status.UNKNOWN
    ended, holds = status in FINISHED, _holds(row, status, stages)
    used, plan = _instances(config), _plan(config)
    asked = () if primary == "Deleting" else used  # only what has ended can be deleted
    parents = {"HyperParameterTuningJob": row.tuning_job_arn, "AutoMLJob": row.auto_ml_job_arn}
    parents["LabelingJob"] = row.labeling_job_arn
    payment = {None: "", True: "Spot", False: "OnDemand"}[row.enable_managed_spot_training]
    # The code at the start of a failure's text (`ClientError: ...`), or why SageMaker stopped it (MaxRuntimeExceeded).
    reason = secondary if primary == "Stopped" and secondary != primary else ""
    reason = row.failure_reason.partition(":")[0].strip() if row.failure_reason else reason
    # TrainingEndTime is when it left its instances: a spot job may wait for others until MaxWaitTimeExceeded.
    ends = [unix_time(row.training_end_time), *(stage.start for stage in stages if stage.status in FINISHED)]
    ends += [stage.end for stage in stages[-1:]]
    job = Job(
        job_id=name,
        name=name,
        job_type=next((word for word, arn in parents.items() if arn), "TrainingJob"),
        workspace_id=WORKSPACE_ID,
        pool_id=plan.rpartition("/")[2],
        resource_type=",".join(dict.fromkeys(group.kind for group in used if group.kind)),
        payment_type="TrainingPlan" if plan else payment,
        status=status,
        platform_status=word,
        reason=code(reason),
        holds_resources=holds,
        created=unix_time(row.creation_time),
        started=unix_time(row.training_start_time),
        finished=max([end for end in ends if end is not None], default=None) if ended else None,
        duration=amount(row.training_time_in_seconds),
        restarts=_restarts(row.secondary_status_transitions, stages),
        cpu_cores=cpu_cores_of(asked),
        nodes=total_of(asked, lambda group: 1.0),
        accelerators=accelerators_of(asked),
        tags=tuple((tag.key, tag.value or "") for tag in row.tags or () if tag is not None and tag.key),
    )
    pool = row.warm_pool_status or WarmPool()
    kept = amount(pool.resource_retained_billable_time_in_seconds)
    released = None if job.finished is None or kept is None else job.finished + kept
    return job, None if row.secondary_status_transitions is None else _records(stages, released)


def _holds(row: TrainingJob, status: Status, stages: Sequence[Stage]) -> bool | None:
    """Return whether a job holds instances: its own, or those of a warm pool."""
    if status is Status.UNKNOWN:
        return None
    if status in FINISHED:
        return row.warm_pool_status is not None and row.warm_pool_status.status in ("Available", "InUse")
    word, began = row.secondary_status or "", unix_time(row.training_start_time)
    _, _, has_instances = WORDS.get(word, _NO_WORD)
    if has_instances is not None:
        return has_instances
    if stages and (began or 0.0) < stages[-1].start:  # it began later than the last stage if one is unreadable
        return stages[-1].holds
    return began is not None or word == "Restarting"


def _instances(config: ResourceConfig) -> tuple[Group, ...]:
    """Return the instances of a job: groups, or one type that the job requested or SageMaker chose."""
    if config.instance_groups:
        groups = readable(config.instance_groups)
        if len(groups) < len(config.instance_groups):
            return (Group("", None),)
        return tuple(Group(group.instance_type or "", amount(group.instance_count)) for group in groups)
    chosen = config.selected_instance_type
    count = config.selected_instance_count if chosen else config.instance_count
    kind = chosen or config.instance_type
    return () if kind is None and count is None else (Group(kind or "", amount(count)),)


def _plan(config: ResourceConfig) -> str:
    """Return the ARN of a job's training plan: its own, or that of the chosen instance type; empty without one."""
    chosen = [each for each in readable(config.instance_preferences) if each.instance_type]
    arns = [each.training_plan_arns or () for each in chosen if each.instance_type == config.selected_instance_type]
    return next(filter(None, [*chain(*arns), config.training_plan_arn]), "")


def _restarts(given: Sequence[object] | None, stages: Sequence[Stage]) -> int | None:
    """Count how often training began again after another status. None if a stage is unknown or unreadable."""
    runs = [False, *(stage.status is Status.RUNNING for stage in stages)]
    begun = sum(stage.word == "Training" and not before for stage, before in zip(stages, runs, strict=False))
    is_known = given is not None and len(given) == len(stages) and all(stage.word in WORDS for stage in stages)
    return max(0, begun - 1) if is_known else None


def stages_of(row: TrainingJob) -> list[Stage]:
    """Return the stages in order. Each lasts until its end or the next one, whichever comes first."""
    given = readable(row.secondary_status_transitions)
    found = [(start, item) for item in given if (start := unix_time(item.start_time)) is not None]
    found.sort(key=lambda each: (each[0], each[1].end_time is None))  # of one moment, what lasts is last
    billed_from, stages = unix_time(row.training_start_time) or inf, list[Stage]()
    held, interrupted = None, False
    for (start, item), after in zip_longest(found, [start for start, _ in found[1:]]):
        word = item.status or ""
        status, phase, has_instances = WORDS.get(word, _NO_WORD)
        if has_instances is not None:
            held = has_instances
        elif held is None and (word == "Restarting" or start >= billed_from):
            held = True
        interrupted = word == "Interrupted" or (interrupted and not has_instances)
        if interrupted and status is Status.STARTING:
            phase = "queued"
        ends = [end for end in (unix_time(item.end_time), after) if end is not None and end >= start]
        stages.append(Stage(word, status, phase, start, min(ends, default=None), held is True))
    return stages


def _records(stages: Sequence[Stage], released: float | None) -> Records:
    """Return the history: what time was spent on, faults, and the times from them to the next training or the end."""
    intervals = [Interval(each.phase, each.start, each.end, holds=each.holds) for each in stages if each.phase]
    faults, recoveries = list[JobFault](), list[Recovery]()
    began, before = None, ""
    for word, status, _, start, _, _ in stages:
        if word in CAUSES:
            if before not in CAUSES or (word == "Interrupted" and word != before):
                faults.append(JobFault(start, CAUSES[word], word))
            began = start if began is None else began
        elif began is not None and (word == "Training" or status in (Status.FAILED, Status.STOPPED)):
            recoveries.append(Recovery(began, "restart", "success" if word == "Training" else "failed", start - began))
            began = None
        before = word
    return Records(tuple(intervals) or None, tuple(faults), tuple(recoveries), released=released)


def job_life(row: TrainingJob, shown_tags: Collection[str]) -> Life | None:
    """Return the life of a job by its row, for backfill; None without a name."""
    if (translated := translate(row)) is None:
        return None
    (now, records), spells = translated, []
    for word, status, _, start, end, held in stages_of(row):
        if status in FINISHED:
            break
        until = min([moment for moment in (end, now.finished) if moment is not None], default=None)
        if until is None or until > start:
            spells.append(Spell(start, until, status, word, None if status is Status.UNKNOWN else held))
    released = records.released if records else None
    if now.finished is not None:
        since = max(now.finished, released or 0.0)
        if since > now.finished:
            spells.append(Spell(now.finished, since, now.status, now.platform_status, True))
        is_over = released is not None or row.warm_pool_status is None
        holds = now.holds_resources or (False if is_over else None)  # None: it held a pool, nothing says until when
        spells.append(Spell(since, None, now.status, now.platform_status, holds))
    job, _ = translate(replace(row, training_job_status=IN_PROGRESS, secondary_status="Training")) or translated
    life = life_of(job, now, spells, (records and records.intervals) or (), shown_tags)
    return replace(life, until=life.until and max(life.until, released or 0.0))


# Calls and collectors.

Filter = tuple[str, str, str]
"""Property, operator and value of a search."""
LIVE: Sequence[Filter] = tuple(("TrainingJobStatus", "NotEquals", word) for word in ENDED)
"""The live jobs: those in progress, those that stop, and those with a new status."""
_LONGEST_WARM_POOL = 21_600.0
"""Seconds; the largest KeepAlivePeriodInSeconds. Jobs that ended before cannot hold a warm pool."""


async def search(
    calls: Calls, filters: Sequence[Filter], *, deadline: float, kind: str = ""
) -> AsyncIterator[TrainingJob | None]:
    """Yield the rows of all pages of Search, the oldest first (of a `kind`, see Call: by change); None for no jobs."""
    by = "LastModifiedTime" if kind else "CreationTime"
    asked = {**_asked(filters), "SortBy": by, "SortOrder": "Ascending", "MaxResults": api.PAGE_SIZE}
    async for row in calls.rows("Search", asked, SearchPage, deadline=deadline, kind=kind):
        yield None if row is None else row.training_job


def changed_since(unix: float) -> Sequence[Filter]:
    """Return the filters of jobs that are not in progress and that changed since a Unix time."""
    return _since("LastModifiedTime", unix), ("TrainingJobStatus", "NotEquals", IN_PROGRESS)


def _since(name: str, unix: float) -> Filter:
    """Return the filter of a time: UTC without a zone, whole seconds."""
    return name, "GreaterThanOrEqualTo", iso_time(unix).removesuffix("Z")


def _asked(filters: Sequence[Filter]) -> dict[str, Any]:
    found = [dict(zip(("Name", "Operator", "Value"), each, strict=True)) for each in filters]
    return {"Resource": "TrainingJob", "SearchExpression": {"Filters": found}}


def hosts(nodes: float | None) -> list[str]:
    """Return the names of a job's instances: `algo-1`, `algo-2` and so on."""
    return [f"algo-{number}" for number in range(1, min(int(nodes or 0), 10_000) + 1)]


class Jobs:
    def __init__(self, config: AwsSageMakerConfig, sagemaker: Calls, fleet: Workspaces) -> None:
        self._calls, self._fleet, self._window = sagemaker, fleet, config.job_window
        self.jobs_expired = fleet.expired

    @collector("jobs")
    async def jobs(self, poll: Poll) -> None:
        def pods(job: Job) -> list[Pod]:
            return [Pod(job_id=job.job_id, pod_id=host, role="algo") for host in hosts(job.nodes)]

        await self._fleet.poll_jobs(poll, lambda read: self._search(read, LIVE), self._read_ends, pods)

    @collector("job_counts")
    async def job_counts(self, poll: Poll) -> None:
        """Ended jobs by status, in three calls. Search only estimates large numbers: such a status is left out."""
        async with poll.part(WORKSPACE_ID) as part:
            counts = []
            since = _since("CreationTime", self._fleet.clock.now() - self._window)
            for word in ENDED:
                asked = {**_asked([("TrainingJobStatus", "Equals", word), since]), "MaxResults": 1}
                page = await self._calls.call("Search", asked, SearchPage, deadline=part.deadline)
                if page.rows is None:
                    raise BadAnswer("the answer has no list", operation="Search")
                hits = page.total_hits
                count = whole(hits.value) if hits is not None and hits.relation == "EqualTo" else None
                if count is None:
                    part.dropped("no_data")
                else:
                    counts.append(JobCount(WORKSPACE_ID, WORDS[word][0], word, count))
            await part.publish(counts)

    async def _read_ends(self, read: WorkspaceRead) -> None:
        """The first list has all warm pools. If there is no time for all pages, the next poll goes on."""
        since = read.tracker.ends_since(read.now) - (0.0 if read.tracker.ends_until else _LONGEST_WARM_POOL)
        try:
            await self._search(read, changed_since(since), kind="finished")
            read.known_until = read.now
        except CloudError as error:
            read.part.failed(read.ends, error)
        await read.look_up(lambda names: self._look_up(read, names[0]))

    async def _search(self, read: WorkspaceRead, filters: Sequence[Filter], kind: str = "") -> None:
        """Add the jobs of all pages. If a job moved between pages, its later row counts."""
        async for row in search(self._calls, filters, deadline=read.lists_until or read.part.deadline, kind=kind):
            read.known_until = unix_time(row.last_modified_time) if row is not None else read.known_until
            translated = None if row is None else translate(row)
            if translated is None:
                read.part.dropped("malformed")
            else:
                read.found[translated[0].job_id] = translated

    async def _look_up(self, read: WorkspaceRead, name: str) -> None:
        """Add a job by its description, which has no tags: those of the list count."""
        asked, was = {"TrainingJobName": name}, read.tracker.last_known(name)
        row = await self._calls.call("DescribeTrainingJob", asked, TrainingJob, deadline=read.until)
        if row.training_job_name != name or (translated := translate(row)) is None:
            raise BadAnswer("the answer is about another job", operation="DescribeTrainingJob")
        job, records = translated
        tags = was.tags if was is not None and was.created == job.created else ()
        read.found[name] = replace(job, tags=tags), records
