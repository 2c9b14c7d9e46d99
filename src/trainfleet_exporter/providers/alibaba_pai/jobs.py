"""Jobs of DLC: ListJobs for live and ended ones, GetJob for pods and histories, ListEcsSpecs for sizes.

Cost of a poll and workspace: one call for each of the ten live statuses and each further 100 jobs in it, one each for
what was created and what ended since the last poll, and a few for jobs that are in none. GetJob: once for each live job
and cycle of `pods`, and once for each job that ended.

The same field comes in different types from list and detail: RequestGPU "8" and 8.0, RequestMemory "512Gi" and 512.0
(GiB), RestartTimes "1" and "1/10". Every field may be absent or null. Times are ISO 8601 texts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from trainfleet_exporter.errors import BadAnswer, CloudError, NotFound, RequestRefused
from trainfleet_exporter.fleet.collectors import EachJob, collector
from trainfleet_exporter.fleet.jobs import OVERLAP, Found
from trainfleet_exporter.fleet.lists import Listing
from trainfleet_exporter.fleet.quantities import total
from trainfleet_exporter.fleet.workspaces import WorkspaceRead, Workspaces
from trainfleet_exporter.model import (
    FINISHED,
    Accelerators,
    Job,
    JobCount,
    JobPods,
    Pod,
    RoleCount,
    RoleStatusCount,
    Status,
    Workspace,
)
from trainfleet_exporter.polling import FairQueue, Part, Poll, Topic
from trainfleet_exporter.providers.alibaba_pai import history
from trainfleet_exporter.providers.alibaba_pai.api import AGAIN, MAY_TAKE, NONE, Api, ListOf, Row, segment
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.values import amount, checked_code, gibibytes, number, quantity, utc_time, whole
from trainfleet_exporter.transport import PAGE
from trainfleet_exporter.transport.json_fields import counting_unusable, iso_time, unusable

# The answers, with the fields that are read.


class ResourceConfig(Row):
    """What each pod of a role requests, or amounts of a quota: cores, memory with its suffix, accelerators."""

    cpu: str | float | None = field(name="CPU", default=None)
    memory: str | float | None = None
    gpu: Any = field(name="GPU", default=None)  # what cannot be read is not absent
    gpu_type: str | None = field(name="GPUType", default=None)

    @property
    def gpus(self) -> float | None:
        """Requested GPUs: 0 if other amounts are given without GPUs, None without any, or if they cannot be read."""
        if self.gpu in (None, ""):
            return 0.0 if self.cpu or self.memory else None
        return quantity(self.gpu)


class JobSpec(Row):
    """One role of a job. `ecs_spec` is a machine type, on public resources."""

    type: str | None = None
    pod_count: float | None = None
    ecs_spec: str | None = None
    resource_config: ResourceConfig | None = None
    use_spot_instance: bool | None = None


class JobSettings(Row):
    tags: dict[str, object] | None = None


class PodRow(Row):
    pod_id: str | None = None
    type: str | None = None
    node_name: str | None = None
    ip: str | None = None
    pod_ip: str | None = None
    status: str | None = None
    sub_status: str | None = None
    gmt_create_time: str | None = None
    gmt_start_time: str | None = None
    gmt_finish_time: str | None = None
    history_pods: list[PodRow] | None = None  # its earlier incarnations


class JobRow(Row):
    """A row of ListJobs, or the answer of GetJob, which alone has restarts and pods. The duration is in seconds."""

    job_id: str | None = None
    display_name: str | None = None
    job_type: str | None = None
    workspace_id: str | None = None
    resource_id: str | None = None
    user_id: str | None = None
    username: str | None = None
    resource_type: str | None = None
    payment_type: str | None = None
    status: str | None = None
    sub_status: str | None = None
    reason_code: str | None = None
    priority: float | None = None
    gmt_create_time: str | None = None
    gmt_submitted_time: str | None = None
    gmt_running_time: str | None = None
    gmt_finish_time: str | None = None
    gmt_successed_time: str | None = None
    gmt_failed_time: str | None = None
    gmt_stopped_time: str | None = None
    duration: float | None = None
    restart_times: str | None = None
    request_cpu: str | float | None = field(name="RequestCPU", default=None)
    request_memory: str | float | None = None
    request_gpu: str | float | None = field(name="RequestGPU", default=None)
    node_count: float | None = None
    job_specs: list[JobSpec | None] | None = None
    settings: JobSettings | None = None
    status_history: list[history.StatusTransition | None] | None = None
    restart_record: list[history.RestartRecord | None] | None = None
    pods: list[PodRow | None] | UnsetType | None = UNSET
    """Null is an empty list; without the field nothing is known of them."""


class EcsSpec(Row):
    """A machine type. `memory` counts GiB by the documented sample (unproven)."""

    instance_type: str | None = None
    cpu: float | None = None
    memory: float | None = None
    gpu: float | None = None
    gpu_type: str | None = None


class WorkspaceRow(Row):
    workspace_id: str | None = None
    workspace_name: str | None = None
    status: str | None = None


JOBS = ListOf("dlc", "ListJobs", JobRow, "Jobs", "job_id")
ECS_SPECS = ListOf("dlc", "ListEcsSpecs", EcsSpec, "EcsSpecs", "instance_type")
WORKSPACES = ListOf("aiworkspace", "ListWorkspaces", WorkspaceRow, "Workspaces", "workspace_id")

# Words.

JOB_STATUS = {word: status for word, (status, _) in history.WORDS.items()}
OLD = ("Created", "Dequeued")
"""Understood in answers and not asked for: ListJobs no longer documents them."""
TERMINAL = ("Succeeded", "Failed", "Stopped")
"""Words of jobs that have ended and hold nothing."""
LIVE = (*(word for word in JOB_STATUS if word not in (*OLD, *TERMINAL, *history.RESERVING)), *history.RESERVING)
"""In the order of a job's life, so that a job which moves on during a sweep is met again rather than missed."""
STATES = (*((JOB_STATUS[word], word) for word in (*OLD, *LIVE)), (Status.RESTARTING, "Running"))
HOLDING = frozenset({Status.STARTING, Status.RUNNING, Status.RESTARTING, Status.STOPPING})
END_TIMES = {
    Status.SUCCEEDED: "gmt_successed_time",
    Status.FAILED: "gmt_failed_time",
    Status.STOPPED: "gmt_stopped_time",
}
"""The field with the end of a job that ended so. Those of earlier attempts may be there next to it."""
POD_STATUS = {"Pending": Status.QUEUED} | {
    word: Status(word.lower()) for word in ("Running", "Succeeded", "Failed", "Stopped")
}
EVICTED = {"Normal": False, "Evicted": True, "Preempted": True}
"""Whether a pod with this SubStatus was evicted; any other word does not say."""
WITHOUT_JOBS = frozenset({"INITIALIZING", "FAILURE", "DISABLED"})
"""Nothing runs in such workspaces, and asking for their jobs is refused."""
# From answers to the model.


def workspace(row: WorkspaceRow) -> Workspace | None:
    """A workspace; None if it cannot have jobs."""
    has_jobs = row.workspace_id and row.status not in WITHOUT_JOBS
    return Workspace(row.workspace_id or "", row.workspace_name or "") if has_jobs else None


def job_status(word: str, sub_status: str | None = None) -> Status:
    """The common word for a DLC status. SubStatus refines Running only."""
    if word == "Running" and sub_status == "Restarting":
        return Status.RESTARTING
    return JOB_STATUS.get(word, Status.UNKNOWN)


class Size(Struct, frozen=True, gc=False):
    """The resources of one machine, or of the pods of a role."""

    cpu_cores: float | None = None
    memory_bytes: float | None = None
    gpus: float | None = None
    gpu_model: str = ""


def ecs_size(row: EcsSpec) -> Size:
    return Size(amount(row.cpu), gibibytes(row.memory), amount(row.gpu), row.gpu_type or "")


def needs_sizes(row: JobRow) -> bool:
    """Return whether only its machine types say what a job asked for."""
    specs = [spec for spec in row.job_specs or () if spec is not None and spec.ecs_spec]
    return True in [not (each := spec.resource_config) or not (each.cpu or each.memory or each.gpu) for spec in specs]


def role_size(spec: JobSpec | None, sizes: Mapping[str, Size]) -> Size:
    """The requested resources of a role's pods: its ResourceConfig, or else its machine type. If the role is
    unreadable, the amounts are unknown, also those of its job."""
    if spec is None:
        unusable({}, "malformed")
        return Size()
    config, each = spec.resource_config, sizes.get(spec.ecs_spec or "", Size())
    model = (config and config.gpu_type) or each.gpu_model
    if config is not None and (config.cpu or config.memory or config.gpu):
        each = Size(quantity(config.cpu), quantity(config.memory), config.gpus)
    count = whole(spec.pod_count)
    if count is None:
        return Size(gpu_model=model)
    amounts = (each.cpu_cores, each.memory_bytes, each.gpus)
    cpu_cores, memory_bytes, cards = [None if found is None else found * count for found in amounts]
    return Size(cpu_cores, memory_bytes, cards, model)


def job(
    row: JobRow, *, workspace_id: str = "", models: Mapping[str, str] = NONE, sizes: Mapping[str, Size] = NONE
) -> Job | None:
    """A row of ListJobs, or the answer of GetJob; None without an id.

    `workspace_id` is for rows that do not repeat it, `models` has the accelerator model of each quota, for jobs whose
    specs do not name theirs, and `sizes` what each machine type has.
    """
    if not row.job_id:
        return None
    word, pool_id = row.status or "", row.resource_id or ""
    status = job_status(word, row.sub_status)
    specs = [spec for spec in row.job_specs or () if spec is not None]
    roles = [role_size(spec, sizes) for spec in row.job_specs or ()]
    given = row.request_memory  # in lists a quantity, in GetJob a bare number that counts GiB (unproven)
    memory = quantity(given) if isinstance(given, str) else gibibytes(given)
    cards = _or_sum(quantity(row.request_gpu), roles, "gpus")
    payment = "Spot" if True in [spec.use_spot_instance for spec in specs] else "PrePaid" if pool_id else "PostPaid"
    tags = (row.settings.tags if row.settings else None) or {}
    is_over = status in FINISHED
    finished = utc_time(row.gmt_finish_time) or utc_time(getattr(row, END_TIMES[status])) if is_over else None
    return Job(
        job_id=row.job_id,
        name=row.display_name or "",
        job_type=row.job_type or "",
        workspace_id=row.workspace_id or workspace_id,
        pool_id=pool_id,
        user_id=row.user_id or "",
        user_name=row.username or "",
        resource_type=row.resource_type or "",
        payment_type=row.payment_type or payment,  # ListJobs filters by it and does not return it
        status=status,
        platform_status=word,
        reason=checked_code(row.reason_code),
        holds_resources=None if status is Status.UNKNOWN else status in HOLDING or word in history.RESERVING,
        priority=whole(row.priority),
        created=utc_time(row.gmt_create_time),
        submitted=utc_time(row.gmt_submitted_time),
        started=utc_time(row.gmt_running_time),
        finished=finished,
        duration=amount(row.duration),
        restarts=restart_times(row.restart_times, 0),
        cpu_cores=_or_sum(quantity(row.request_cpu), roles, "cpu_cores"),
        memory_bytes=_or_sum(memory, roles, "memory_bytes"),
        nodes=amount(row.node_count),
        accelerators=gpus(cards, _model(roles, models.get(pool_id, "")) if cards else ""),
        tags=tuple([(key, value) for key, value in tags.items() if isinstance(value, str)]),
    )


def restart_times(given: str | None, place: int) -> int | None:
    """RestartTimes, "1" in lists and "1/10" in GetJob: at place 0 those used, at place 2 those allowed."""
    return whole(number((given or "").partition("/")[place]))


def gpus(count: float | None, model: str) -> tuple[Accelerators, ...]:
    """PAI reports only GPUs. Other accelerators would be under GPU, too, with a different GPUType."""
    return () if count is None else (Accelerators("gpu", model, count),)


def _or_sum(given: float | None, roles: Sequence[Size], name: str) -> float | None:
    """What is given, or the sum over the roles, if it is known for each."""
    return total([getattr(role, name) for role in roles], is_ratio=False) if given is None else given


def _model(roles: Sequence[Size], of_pool: str) -> str:
    # A role without accelerators may run on a machine that has another role's model or none: it names nothing.
    models = {role.gpu_model for role in roles if role.gpu_model and role.gpus != 0}
    # The total of a job whose roles run on different models cannot be split by what a list row says.
    return models.pop() if len(models) == 1 else "" if models else of_pool


def pods(row: JobRow) -> list[object]:
    """The pods of a job, counted by role, and one by one.

    HistoryPods are earlier incarnations: they count as replaced, never as pods. Of rows with one id, the newest counts.
    """
    requested, found = Counter[str](), dict[str, Pod]()
    for spec in row.job_specs or ():
        if spec is None:  # it may be of any role
            unusable({}, "malformed")
            requested.clear()
            break
        if (wanted := whole(spec.pod_count)) is not None:
            requested[spec.type or ""] += wanted
    given = None if isinstance(row.pods, UnsetType) else row.pods or []
    if given is None:
        unusable({}, "no_data")
    replaced = Counter(dict.fromkeys(() if given is None else requested, 0))
    dated = sorted(filter(None, reversed(given or ())), key=lambda item: item.gmt_create_time or "")
    newest = {item.pod_id: item for item in dated}
    for item in given or ():
        if item is None or not item.pod_id:
            unusable({}, "malformed")
        elif item is not newest[item.pod_id]:
            unusable({}, "duplicate")
        else:
            pod = found[item.pod_id] = _pod(row.job_id or "", item.pod_id, item)
            replaced.update({pod.role: 0})
            replaced.update(earlier.type or pod.role for earlier in item.history_pods or ())
    states = Counter((pod.role, pod.status) for pod in found.values())
    detail = JobPods(
        job_id=row.job_id or "",
        restarts_allowed=restart_times(row.restart_times, 2),
        requested=tuple(RoleCount(role, count) for role, count in requested.items()),
        replaced=tuple(RoleCount(role, count) for role, count in replaced.items()),
        present=tuple(
            RoleStatusCount(role, status, states[role, status])
            for role in replaced
            for status in (*POD_STATUS.values(), Status.UNKNOWN)
        ),
    )
    return [detail, *found.values()]


def _pod(job_id: str, pod_id: str, item: PodRow) -> Pod:
    # A pod counts as evicted if an incarnation of it was.
    said = [EVICTED.get(item.sub_status or "")]
    said += [EVICTED.get(earlier.sub_status) for earlier in item.history_pods or () if earlier.sub_status]
    is_unknown = None in said and True not in said
    return Pod(
        job_id=job_id,
        pod_id=pod_id,
        role=item.type or "",
        node_name=item.node_name or "",
        pod_ip=item.ip or item.pod_ip or "",
        status=POD_STATUS.get(item.status or "", Status.UNKNOWN),
        evicted=None if is_unknown else True in said,
        evictions=None if is_unknown else said.count(True),
        created=utc_time(item.gmt_create_time),
        started=utc_time(item.gmt_start_time),
        finished=utc_time(item.gmt_finish_time),
    )


# The collectors.

EVER = "2000-01-01T00:00:00Z"
"""A StartTime before every job. Without one, ListJobs sees only what was created in the last 7 days."""
_ONE_BY_ONE, _AT_ONCE = 10, 50
"""Up to so many missing jobs are looked up by GetJob, which is exact; more of them in lists of so many ids."""
_LAST_HISTORIES = 20
"""Ended jobs of a workspace whose last history is read in one poll; the ledger has the others without it."""


async def list_jobs(
    api: Api, workspace_id: str, query: Mapping[str, str], *, deadline: float, kind: str = ""
) -> Listing[JobRow]:
    """DLC ListJobs, oldest first, all pages. `query` must hold StartTime, except for ids: without it only 7 days are
    seen. `kind` as in Call."""
    asked = {"WorkspaceId": workspace_id, **query, "SortBy": "GmtCreateTime", "Order": "asc"}
    return await api.list_all(JOBS, "/api/v1/jobs", asked, deadline=deadline, limits=PAGE, kind=kind)


async def get_job(api: Api, job_id: str, *, deadline: float) -> JobRow:
    """DLC GetJob: one job with its pods and history."""
    row = await api.get("dlc", "GetJob", f"/api/v1/jobs/{segment(job_id)}", JobRow, deadline=deadline)
    if row.job_id != job_id:
        raise BadAnswer("the answer is about another job", operation="GetJob")
    return row


async def list_workspaces(api: Api, *, deadline: float) -> Listing[WorkspaceRow]:
    """AIWorkSpace ListWorkspaces: those that the identity is a member of. It leaves others out silently."""
    return await api.list_all(WORKSPACES, "/api/v1/workspaces", deadline=deadline)


async def list_machines(api: Api, deadline: float) -> Listing[Size]:
    """DLC ListEcsSpecs: what each machine type has. SortBy is left out: the service refuses every documented value.
    So is ResourceType: spot jobs run on machine types of ECS and of Lingjun."""
    found = await api.list_all(ECS_SPECS, "/api/v1/ecsspecs", deadline=deadline)
    return Listing({name: ecs_size(row) for name, row in found.rows.items()}, found.malformed)


class Jobs:
    """The collectors of workspaces and jobs. `quotas` have the models of accelerators."""

    def __init__(self, api: Api, config: AlibabaPaiConfig, fleet: Workspaces, quotas: Topic[Mapping[str, Any]]) -> None:
        self._api, self._config, self._fleet, self._quotas = api, config, fleet, quotas
        self.jobs_expired, self._count_turns = fleet.expired, FairQueue()
        fleet.histories.phase_of = lambda job: (
            "recovering" if job.status is Status.RESTARTING else history.PHASES.get(job.platform_status)
        )
        self._sizes, self._sizes_due, self._reading_sizes = dict[str, Size](), float("-inf"), asyncio.Lock()

    @collector("workspaces")
    async def workspaces(self, poll: Poll) -> None:
        await self._fleet.read_list(poll, lambda deadline: list_workspaces(self._api, deadline=deadline), workspace)

    @collector("jobs")
    async def jobs(self, poll: Poll) -> None:
        """Live jobs by their statuses; then those that ended since the last poll, and those that are in neither."""
        if self._config.collectors.pools.enabled and not self._quotas.value:
            await self._fleet.wait_briefly(poll.deadline, self._quotas)  # or rules add up a job under two models
        await self._fleet.poll_jobs(poll, self._read_live, self._read_ends)

    async def _read_live(self, read: WorkspaceRead) -> None:
        for word in LIVE:
            rows = (await self._list(read, {"Status": word, "StartTime": EVER}, read.part.deadline)).rows
            for row in rows.values():
                row.status = row.status or word  # rows may lack the status that they were listed by
            read.found |= await self._translate(read, rows.values())

    async def _read_ends(self, read: WorkspaceRead) -> None:
        await self._read_ended(read)
        try:  # of the latest jobs in any status, what the lists did not say: other statuses, and later ones
            since = iso_time(read.now - max(OVERLAP, 2 * read.part.interval))
            with counting_unusable() as fields:
                rows = (await self._list(read, {"StartTime": since}, read.lists_until)).rows
                known = {key: read.found[key][0] for key in rows.keys() & read.found.keys()}
                said = {key: LIVE if it.status in FINISHED else (it.platform_status,) for key, it in known.items()}
                news = [row for key, row in rows.items() if row.status and row.status not in said.get(key, TERMINAL)]
                news = [row for row in news if row.gmt_finish_time or row.status not in TERMINAL]  # an end has its time
                if not news:
                    fields.clear()  # the other lists have counted them
            read.found |= await self._translate(read, news)
        except CloudError as error:
            read.part.lacks(read.ends, error)
        missing = set(read.pending) - read.found.keys()
        in_lists = len(missing) > _ONE_BY_ONE
        look_up = partial(self._look_up_list if in_lists else self._look_up, read)
        await read.look_up(look_up, at_once=_AT_ONCE if in_lists else 1)
        ended = [job.job_id for job, _ in read.found.values() if read.tracker.has_just_ended(job)]
        await self._read_last(read, [key for key in ended if in_lists or key not in missing][:_LAST_HISTORIES])

    async def _read_ended(self, read: WorkspaceRead) -> None:
        """Read the jobs that ended since the last such list."""
        since = iso_time(read.tracker.ends_since(read.now))
        times = {"TimeRangeField": "GmtFinishTime", "StartTime": since, "EndTime": iso_time(read.now)}
        try:
            rows = (await self._list(read, times, read.lists_until, kind="finished")).rows
        except RequestRefused as error:  # the service may not know this query; ids can be looked up
            read.part.lacks(read.ends, error)
        except CloudError as error:
            read.part.failed(read.ends, error)
        else:  # if the service takes the time range for that of creation, the list has other jobs as well
            ended = [row for row in rows.values() if job_status(row.status or "") in FINISHED]
            read.found |= await self._translate(read, ended)
            read.known_until = read.now

    async def _look_up(self, read: WorkspaceRead, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            row, was = await get_job(self._api, job_id, deadline=read.until), read.tracker.last_known(job_id)
            row.username = row.username or (was.user_name if was else None)  # only lists name the user
            self._note_detail(row)
            read.found |= await self._translate(read, [row])

    async def _look_up_list(self, read: WorkspaceRead, job_ids: Sequence[str]) -> None:
        listing = await self._list(read, {"JobIds": ",".join(job_ids), "StartTime": EVER}, read.until)
        if listing.malformed:  # a malformed row may be that of a missing job
            read.lost += [job_id for job_id in job_ids if job_id not in listing.rows]
        read.found |= await self._translate(read, [listing.rows[key] for key in job_ids if key in listing.rows])

    async def _translate(self, read: WorkspaceRead, rows: Iterable[JobRow]) -> Found:
        """The jobs of some rows, with their histories."""
        found, rows = Found(), list(rows)
        if any(map(needs_sizes, rows)):
            await self._have_sizes(read.part)
        models = {quota_id: each.model for quota_id, each in self._quotas.value.items()}
        for row in rows:
            if each := job(row, workspace_id=read.part.key, models=models, sizes=self._sizes):
                found[each.job_id] = each, history.records_of(row.status_history)
        return found

    async def _list(
        self, read: WorkspaceRead, query: Mapping[str, str], deadline: float, *, kind: str = ""
    ) -> Listing[JobRow]:
        listing = await list_jobs(self._api, read.part.key, query, deadline=deadline, kind=kind)
        read.part.dropped("malformed", listing.malformed)
        return listing

    async def _read_last(self, read: WorkspaceRead, job_ids: Iterable[str]) -> None:
        """GetJob for the end of histories, if details of jobs are polled. One that fails is not tried again."""
        for job_id in job_ids if self._config.collectors.pods.enabled else ():
            try:
                self._note_detail(await get_job(self._api, job_id, deadline=read.until))
            except NotFound:
                continue
            except CloudError as error:
                read.part.lacks(read.ends, error)
                return

    def _note_detail(self, row: JobRow) -> None:
        restarts = (row.status, row.sub_status) == ("Running", "Restarting")  # in place: not in StatusHistory
        details = history.details_of(row.status_history, row.restart_record, is_restarting=restarts)
        phase = "recovering" if restarts else history.PHASES.get(row.status or "")
        self._fleet.histories.note_detail(row.job_id or "", details, phase, self._fleet.clock.now())

    async def _have_sizes(self, part: Part) -> None:
        """Read the machine types if they are due. Without them, jobs are shown without their requested resources."""
        async with self._reading_sizes:
            if (now := asyncio.get_running_loop().time()) < self._sizes_due:
                return
            try:
                with counting_unusable() as lost:
                    listing = await list_machines(self._api, min(part.deadline, now + MAY_TAKE))
            except CloudError as error:
                self._sizes_due = now + AGAIN
                part.lacks("machine types", error)
                return
            self._sizes_due = now + (6 * 3600.0 if listing.rows and not (listing.malformed or lost) else AGAIN)
            part.dropped("malformed", listing.malformed)
            self._sizes = listing.rows or self._sizes

    @collector("job_counts")
    async def job_counts(self, poll: Poll) -> None:
        """Finished jobs by status, of those that were created within the window: three calls a workspace."""

        async def read(part: Part) -> None:
            counts, since = [], iso_time(self._fleet.clock.now() - self._config.job_window)
            for word in TERMINAL:
                query = {"WorkspaceId": part.key, "Status": word, "StartTime": since}
                count = await self._api.count(JOBS, "/api/v1/jobs", query, deadline=part.deadline)
                counts.append(JobCount(part.key, JOB_STATUS[word], word, count))
            await part.publish(counts)

        ids = await self._fleet.ids.get()
        poll.keep_only(ids)
        await self._count_turns.read_each(poll, ids, read, at_once=self._fleet.at_once)

    def pods(self, interval: float) -> EachJob:
        """Pods and histories of live jobs (GetJob): those that hold resources before waiting ones, new before old."""
        return EachJob("pods", self._fleet, interval, self._read_pods, max_jobs=self._config.collectors.pods.max_jobs)

    async def _read_pods(self, part: Part) -> None:
        try:
            answer = await get_job(self._api, part.key, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)  # the next poll of jobs finds out how it ended
            return
        self._note_detail(answer)
        await part.publish(pods(answer))
