"""Training jobs by Search, which has complete descriptions of 100 jobs a call.

    Search ──► TrainingJob ──translate──► Job, Records ──ProviderJobs──► objects of the model

A poll makes two searches for live jobs, and one for jobs that changed since the last poll and are not in progress: a
call for each 100 jobs found. It looks up jobs that are in neither, such as those that have ended and keep a warm pool.
Only Search has the tags of jobs, and the whole history in a list. If a policy denies Search, the poll fails.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingJob.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import field

from trainfleet_exporter.errors import BadAnswer, CloudError, NotFound, RequestRefused
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.jobs import Found, ProviderJobs
from trainfleet_exporter.model import FINISHED, Cause, Job, JobCount, Phase, Pod, Status, Workspace
from trainfleet_exporter.polling import Part, Poll
from trainfleet_exporter.providers.aws_sagemaker import calls, instances
from trainfleet_exporter.providers.aws_sagemaker.calls import Answer, Calls, page_of
from trainfleet_exporter.providers.aws_sagemaker.config import WORKSPACE_ID, AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.instances import UnknownTypes
from trainfleet_exporter.providers.jobs.history import Interval, JobFault, Records, Recovery, code, readable
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.values import amount, unix_time, whole
from trainfleet_exporter.transport.json_fields import iso_time, unusable

WORKSPACE = Workspace(WORKSPACE_ID, WORKSPACE_ID)
"""The only workspace: AWS has none."""

# Answers.


class InstanceGroup(Answer):
    instance_type: str | None = None
    instance_count: float | None = None


class ResourceConfig(InstanceGroup):
    instance_groups: list[InstanceGroup | None] | None = None
    selected_instance_type: str | None = None
    selected_instance_count: float | None = None
    training_plan_arn: str | None = None


class SecondaryStatusTransition(Answer):
    status: str | None = None
    start_time: float | None = None
    end_time: float | None = None


class WarmPoolStatus(Answer):
    status: str | None = None


class Tag(Answer):
    key: str | None = None
    value: str | None = None


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
    warm_pool_status: WarmPoolStatus | None = None
    creation_time: float | None = None
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
    """`total_hits` is the number of results of all pages, or a lower bound."""

    total_hits: TotalHits | None = None


# Words.

IN_PROGRESS = "InProgress"
JOB_STATUS: Mapping[str, Status] = {
    "Stopping": Status.STOPPING,
    "Completed": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Stopped": Status.STOPPED,
}
"""By TrainingJobStatus. For a job in progress, SecondaryStatus decides. All other words are unknown."""
PROGRESS: Mapping[str, tuple[Status, Phase]] = {
    "Pending": (Status.QUEUED, "queued"),
    "Starting": (Status.STARTING, "preparing"),
    "LaunchingMLInstances": (Status.STARTING, "preparing"),
    "PreparingTrainingStack": (Status.STARTING, "preparing"),
    "Downloading": (Status.STARTING, "preparing"),
    "DownloadingTrainingImage": (Status.STARTING, "preparing"),
    "Training": (Status.RUNNING, "running"),
    "Updating": (Status.RUNNING, "running"),
    "Uploading": (Status.RUNNING, "finishing"),
    "Restarting": (Status.RESTARTING, "recovering"),
    "Interrupted": (Status.RESTARTING, "queued"),
}
"""By SecondaryStatus of a job in progress: its status, and its phase. A job that stops or has ended is in no phase."""
_WAITS = frozenset({"Pending", "Interrupted"})
"""The job waits for capacity."""
_STARTS = frozenset({"Starting", "LaunchingMLInstances", "PreparingTrainingStack"})
"""The job may not have instances yet. After an interruption, it waits for new ones."""
_HOLDS = PROGRESS.keys() - _WAITS - _STARTS
_RUNS = frozenset({"Training", "Uploading", "Updating"})
_WARM = frozenset({"Available", "InUse"})
"""Statuses of a warm pool in which an ended job still holds its instances."""
CAUSES: Mapping[str, Cause] = {"Interrupted": "preempted", "Restarting": "other"}
"""Causes by the secondary status that follows a fault. A restart after an interruption belongs to the same fault."""
_ENDS = frozenset({"Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded"})
"""The job ended otherwise than by training on."""
_STAGES = PROGRESS.keys() | JOB_STATUS.keys() | _ENDS
LIVE_STATES = (*((status, word) for word, (status, _) in PROGRESS.items()), (Status.STOPPING, "Stopping"))

# From answers to the model: pure functions. Values without a name become None.


class Stage(NamedTuple):
    """A secondary status, its beginning and its end (None while it lasts), in Unix seconds."""

    word: str
    start: float
    end: float | None


def translate(row: TrainingJob) -> tuple[Job, Records | None] | None:
    """Return the job of a row and its history, which is None if the row has none; None without a name."""
    if not row.training_job_name:
        return None
    stages = list(_stages(row.secondary_status_transitions or ()))
    records = None if row.secondary_status_transitions is None else _records(stages)
    return _job(row, row.training_job_name, stages), records


def hosts(nodes: float | None) -> list[str]:
    """Return the names of a job's instances: `algo-1`, `algo-2` and so on."""
    return [f"algo-{number}" for number in range(1, min(int(nodes or 0), 10_000) + 1)]


def _job(row: TrainingJob, name: str, stages: Sequence[Stage]) -> Job:
    primary, secondary = row.training_job_status or "", row.secondary_status or ""
    progress, _ = PROGRESS.get(secondary, (Status.UNKNOWN, ""))
    status = progress if primary == IN_PROGRESS else JOB_STATUS.get(primary, Status.UNKNOWN)
    ended, holds = status in FINISHED, _holds(row, status, stages)
    config = row.resource_config or ResourceConfig()
    used = _instances(config)
    asked = () if ended and not holds else used
    parents = (
        ("HyperParameterTuningJob", row.tuning_job_arn),
        ("AutoMLJob", row.auto_ml_job_arn),
        ("LabelingJob", row.labeling_job_arn),
    )
    payment = {None: "", True: "Spot", False: "OnDemand"}[row.enable_managed_spot_training]
    end = unix_time(row.training_end_time) or max([each.end or each.start for each in stages], default=None)
    return Job(
        job_id=name,
        name=name,
        job_type=next((word for word, arn in parents if arn), "TrainingJob"),
        workspace_id=WORKSPACE_ID,
        pool_id=(config.training_plan_arn or "").rpartition("/")[2],  # the name of the plan
        resource_type=",".join(dict.fromkeys(instance_type for instance_type, _ in used if instance_type)),
        payment_type="TrainingPlan" if config.training_plan_arn else payment,
        status=status,
        platform_status=secondary if primary == IN_PROGRESS else primary,
        reason=_reason(row, primary, secondary),
        holds_resources=holds,
        created=unix_time(row.creation_time),
        started=unix_time(row.training_start_time),
        finished=end if ended else None,
        duration=amount(row.training_time_in_seconds),
        restarts=_restarts(row),
        cpu_cores=instances.cpu_cores_of(asked),
        nodes=instances.count_of(asked),
        accelerators=instances.accelerators_of(asked),
        tags=tuple((tag.key, tag.value or "") for tag in row.tags or () if tag is not None and tag.key),
    )


def _holds(row: TrainingJob, status: Status, stages: Sequence[Stage]) -> bool | None:
    """Return whether a job holds instances: those of a warm pool, or its own from the first download or training on.

    TrainingStartTime survives an interruption, after which a job has no instances until it downloads or trains again.
    """
    if status is Status.UNKNOWN:
        return None
    if status in FINISHED:
        return row.warm_pool_status is not None and row.warm_pool_status.status in _WARM
    for word in (row.secondary_status or "", *(stage.word for stage in reversed(stages))):
        if word in _HOLDS or word in _WAITS:
            return word in _HOLDS
    return unix_time(row.training_start_time) is not None


def _instances(config: ResourceConfig) -> tuple[instances.Group, ...]:
    """Return the instances of a job: groups, or one type that the job requested or SageMaker chose."""
    if config.instance_groups:
        groups = readable(config.instance_groups)
        if len(groups) < len(config.instance_groups):
            return (("", None),)
        return tuple((group.instance_type or "", amount(group.instance_count)) for group in groups)
    chosen = config.selected_instance_type
    count = config.selected_instance_count if chosen else config.instance_count
    kind = chosen or config.instance_type
    return () if kind is None and count is None else ((kind or "", amount(count)),)


def _reason(row: TrainingJob, primary: str, secondary: str) -> str:
    """Return the code at the start of a failure's text (`ClientError: ...`), or the cause of a stop
    (`MaxRuntimeExceeded`)."""
    if row.failure_reason:
        return code(row.failure_reason.partition(":")[0].strip())
    return code(secondary) if primary == "Stopped" and secondary != primary else ""


def _restarts(row: TrainingJob) -> int | None:
    """Count the runs after the first: how often training began again after another status. None if one is unknown."""
    words = [item.status for item in row.secondary_status_transitions or () if item is not None]
    if row.secondary_status_transitions is None or not _STAGES.issuperset(words):
        return None
    runs, is_running = 0, False
    for word in words:
        runs += word == "Training" and not is_running
        is_running = word in _RUNS
    return max(0, runs - 1)


def _stages(given: Sequence[SecondaryStatusTransition | None]) -> Iterator[Stage]:
    """Sort the stages. A status without an end lasts until the next one, and the last one until now."""
    found = [
        Stage(item.status or "", start, unix_time(item.end_time))
        for item in readable(given)
        if (start := unix_time(item.start_time)) is not None
    ]
    found.sort(key=lambda stage: stage.start)
    starts: list[float | None] = [stage.start for stage in found]
    for stage, following in zip(found, [*starts, None][1:], strict=True):
        if stage.end is not None and stage.end < stage.start:
            unusable(stage.end, "out_of_range")
        else:
            yield stage._replace(end=following if stage.end is None else stage.end)


def _records(stages: Sequence[Stage]) -> Records:
    """Return the history: what time was spent on, faults, and the times from them to the next training or the end."""
    intervals: list[Interval] = []
    faults: list[JobFault] = []
    recoveries: list[Recovery] = []
    interrupted, before = False, ""
    began: float | None = None
    for word, start, end in stages:
        interrupted = word == "Interrupted" or (interrupted and word not in _HOLDS)
        if word in PROGRESS:
            phase = "queued" if interrupted and word in _STARTS else PROGRESS[word][1]
            intervals.append(Interval(phase, start, end))
        if word in CAUSES:
            if before not in CAUSES:
                faults.append(JobFault(start, CAUSES[word], word))
            began = start if began is None else began
        elif began is not None and (word == "Training" or word in _ENDS):
            recoveries.append(Recovery(began, "restart", "success" if word == "Training" else "failed", start - began))
            began = None
        before = word
    return Records(intervals=tuple(intervals) or None, faults=tuple(faults), recoveries=tuple(recoveries))


# Calls and collectors.

Filter = tuple[str, str, str]
"""Property, operator and value of a search."""
_LIVE: Sequence[Sequence[Filter]] = (
    (("TrainingJobStatus", "Equals", IN_PROGRESS),),
    tuple(("TrainingJobStatus", "NotEquals", word) for word in (IN_PROGRESS, "Completed", "Failed", "Stopped")),
)
"""The searches for live jobs. The second one finds those that stop, and those with a new status."""
_LONGEST_WARM_POOL = 21_600.0
"""Seconds; the largest KeepAlivePeriodInSeconds. Jobs that ended before cannot hold a warm pool."""
_ENDED = f"ended jobs of {WORKSPACE_ID}"
_HISTORIES = "histories"
"""The part with counts over all jobs: waits by pool."""
_FOR_ENDS = 0.8
"""The share of the remaining time that may go into finding out how jobs ended; the rest is for showing it."""


class Jobs:
    """The collectors of jobs."""

    def __init__(
        self, config: AwsSageMakerConfig, context: BuildContext, sagemaker: Calls, types: UnknownTypes
    ) -> None:
        self.known = ProviderJobs(config, context, WORKSPACE_ID)
        self._calls = sagemaker
        self._types = types
        self._clock = context.clock
        self._window = config.job_window

    @collector("jobs")
    async def jobs(self, poll: Poll) -> None:
        """Publish the live jobs, then find out how others ended, so that no live job waits for it."""
        known, now = self.known, self._clock.now()
        poll.keep_only([WORKSPACE_ID, _HISTORIES])
        found: Found = {}
        with known.listed.polling():
            async with poll.part(WORKSPACE_ID) as part:
                for filters in _LIVE:
                    found |= await self._search(part, filters, part.deadline)
                now, missing = self._clock.now(), known.tracker.missing(found)
                await self._show(part, found, now, pending=missing)
                known.listed.publish(value=True)
        if known.listed.is_known:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + _FOR_ENDS * (poll.deadline - loop.time())
            async with poll.part(_ENDED, deadline=deadline) as ends:
                await self._find_ends(part, ends, found, missing, now)
        known.histories.keep_only(known.tracker.known_ids(), now)
        if known.listed.is_known and (counted := known.histories.fleet(now)):
            async with poll.part(_HISTORIES) as histories:
                await histories.publish(counted)
        self._types.count(poll, ",".join([job.resource_type for job in known.tracker.live.values()]).split(","))

    def jobs_expired(self, key: str) -> None:
        """Forget the live jobs."""
        if key == WORKSPACE_ID:
            self.known.expire()

    @collector("job_counts")
    async def job_counts(self, poll: Poll) -> None:
        """Count the ended jobs by status: three calls for any number of jobs.

        Search only estimates large numbers: such a status is left out.
        """
        async with poll.part(WORKSPACE_ID) as part:
            counts = []
            since = "CreationTime", "GreaterThanOrEqualTo", _search_time(self._clock.now() - self._window)
            for word in ("Completed", "Failed", "Stopped"):
                asked = {**_search([("TrainingJobStatus", "Equals", word), since]), "MaxResults": 1}
                page = await self._calls.call("Search", asked, SearchPage, deadline=part.deadline)
                if page.rows is None:
                    raise BadAnswer("the answer has no list", operation="Search")
                hits = page.total_hits
                count = whole(hits.value) if hits is not None and hits.relation == "EqualTo" else None
                if count is None:
                    part.dropped("no_data")
                else:
                    counts.append(JobCount(WORKSPACE_ID, JOB_STATUS[word], word, count))
            await part.publish(counts)

    async def _find_ends(self, part: Part, ends: Part, found: Found, missing: Sequence[str], now: float) -> None:
        """Find out how jobs ended, and publish the `part` of jobs again if that is new.

        A call that fails is a failure of `ends`: the live jobs stay published.
        """
        tracker = self.known.tracker
        since = tracker.ends_since(now)
        lost: list[str] = []
        listed: Found | None = None
        try:
            first = {} if tracker.ends_until is not None else await self._changed(ends, since - _LONGEST_WARM_POOL)
            held = {name: each for name, each in first.items() if each[0].holds_resources}
            listed = held | await self._changed(ends, since)
        except RequestRefused as error:  # the service may not know this query; ids can be looked up
            ends.lacks(_ENDED, error)
        except CloudError as error:
            ends.failed(_ENDED, error)
        found |= listed or {}
        for name in [name for name in missing if name not in found]:
            try:
                found |= await self._look_up(name, ends.deadline)
            except CloudError as error:
                ends.failed(_ENDED, error)
                lost.append(name)
        if missing or any(tracker.shown(name) != job for name, (job, _) in (listed or {}).items()):
            await self._show(part, found, now, lost=lost)
        if listed is not None:
            tracker.ends_until = now
        self.known.report_ends(found, now)

    async def _show(self, part: Part, found: Found, now: float, **of_update: Sequence[str]) -> None:
        self.known.tracker.update({name: job for name, (job, _) in found.items()}, now, **of_update)
        await part.publish([WORKSPACE, *self.known.objects(found, now, states=LIVE_STATES, details=_pods)])

    async def _look_up(self, name: str, deadline: float) -> Found:
        """Return a job; nothing if it does not exist."""
        try:
            row = await self._calls.call(
                "DescribeTrainingJob", {"TrainingJobName": name}, TrainingJob, deadline=deadline
            )
        except NotFound:
            return {}
        if row.training_job_name != name or (translated := translate(row)) is None:
            raise BadAnswer("the answer is about another job", operation="DescribeTrainingJob")
        return {name: translated}

    async def _changed(self, part: Part, since: float) -> Found:
        """Return the jobs that are not in progress and that changed since a Unix time."""
        changed = "LastModifiedTime", "GreaterThanOrEqualTo", _search_time(since)
        filters = (changed, ("TrainingJobStatus", "NotEquals", IN_PROGRESS))
        return await self._search(part, filters, part.deadline, kind="finished")

    async def _search(self, part: Part, filters: Sequence[Filter], deadline: float, kind: str = "") -> Found:
        """Return the jobs of all pages. If a job moved between pages, it has two rows, and the later one counts."""
        found: Found = {}
        asked = {**_search(filters), "SortBy": "CreationTime", "SortOrder": "Ascending", "MaxResults": calls.PAGE_SIZE}
        async for rows in self._calls.pages("Search", asked, SearchPage, deadline=deadline, kind=kind):
            for row in rows:
                translated = None if row is None or row.training_job is None else translate(row.training_job)
                if translated is None:
                    part.dropped("malformed")
                else:
                    found[translated[0].job_id] = translated
            del rows  # to free memory before the next call
        return found


def _pods(job: Job) -> Iterable[object]:
    """Return the instances of a job as pods, without their states."""
    return [Pod(job_id=job.job_id, pod_id=host, role="algo") for host in hosts(job.nodes)]


def _search(filters: Sequence[Filter]) -> dict[str, Any]:
    found = [{"Name": name, "Operator": operator, "Value": value} for name, operator, value in filters]
    return {"Resource": "TrainingJob", "SearchExpression": {"Filters": found}}


def _search_time(unix: float) -> str:
    """Format a Unix time as a filter value of Search: UTC without a zone, whole seconds."""
    return iso_time(unix).removesuffix("Z")
