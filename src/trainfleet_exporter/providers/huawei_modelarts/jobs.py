"""Jobs of ModelArts' v2 API: workspaces, live jobs and their ends, counts of finished jobs, the quota of jobs.

Cost of a poll and workspace: one search for each 50 live jobs, one for each 50 jobs that have ended and were created
since ten minutes before the last poll, and one for each ten jobs that are no longer live. How these ended is looked up
by their ids: a search has no filter for the time of an end. For the counts of finished jobs, four searches for one row.

Times count milliseconds and 0 is "never", unless a docstring says otherwise. Every field may be absent or null.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListTrainingJobs.html
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from sys import intern
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trainfleet_exporter.errors import BadAnswer, CloudError, RequestRefused
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.jobs import OVERLAP
from trainfleet_exporter.fleet.lists import Listing, Page, read_whole_list
from trainfleet_exporter.fleet.quantities import total
from trainfleet_exporter.fleet.workspaces import WorkspaceRead, Workspaces
from trainfleet_exporter.model import (
    FINISHED,
    Accelerator,
    Accelerators,
    Job,
    JobCount,
    JobPods,
    Pod,
    ProviderQuota,
    Status,
    Workspace,
)
from trainfleet_exporter.polling import FairQueue, Part, Poll
from trainfleet_exporter.providers.huawei_modelarts.api import Api
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.history import WAITING, JobStatus, RunningRecord, records
from trainfleet_exporter.providers.values import amount, code, gibibytes, number, readable, unix_time, whole
from trainfleet_exporter.transport import PAGE
from trainfleet_exporter.transport.json_fields import iso_time

# The answers, with the fields that are read.


class WorkspaceRow(Struct, gc=False):
    id: str | None = None
    name: str | None = None


class WorkspacesPage(Struct, gc=False):
    total_count: float | None = None
    workspaces: list[WorkspaceRow | None] | None = None


class Tag(Struct, gc=False):
    key: str | None = None
    value: str | None = None


class JobMetadata(Struct, gc=False):
    """The identity of a job. Annotations are texts."""

    id: str | None = None
    name: str | None = None
    workspace_id: str | None = None
    create_time: float | None = None
    user_name: str | None = None
    annotations: dict[str, str | float | None] | None = None
    tags: list[Tag] | None = None


class PartInfo(Struct, gc=False):
    """The CPU cores, the accelerators, or the memory of one node (in `unit`)."""

    core_num: float | None = None
    unit_num: float | None = None
    product_name: str | None = None
    size: float | None = None
    unit: str | None = None


class FlavorInfo(Struct, gc=False):
    """The resources of one node."""

    cpu: PartInfo | None = None
    gpu: PartInfo | None = None
    npu: PartInfo | None = None
    memory: PartInfo | None = None


class AllocatedResources(Struct, gc=False):
    """The resources of the main container on one node. `mem_size` counts GiB."""

    cpu_core_num: float | None = None
    mem_size: float | None = None
    accelerator_num: float | None = None
    accelerator_type: str | None = None


class Flavor(Struct, gc=False):
    """A kind of node: the flavor of a job, or what one role of a job asks for."""

    flavor_type: str | None = None
    flavor_info: FlavorInfo | None = None
    main_container_allocated_resources: AllocatedResources | None = None


class Resource(Struct, gc=False):
    """The requested resources of a job. `flavor_detail` is that of public pools, `pool_id` of dedicated ones."""

    policy: str | None = None
    node_count: float | None = None
    pool_id: str | None = None
    flavor_detail: Flavor | None = None
    main_container_allocated_resources: AllocatedResources | None = None


class SchedulePolicy(Struct, gc=False):
    """Priority 0 to 3."""

    priority: float | None = None


class JobSpec(Struct, gc=False):
    resource: Resource | None = None
    schedule_policy: SchedulePolicy | None = None
    tags: list[Tag] | None = None


class JobRole(Struct, gc=False):
    """One role of a heterogeneous job."""

    role: str | None = None
    task_resource: Flavor | None = None


class JobRow(Struct, gc=False):
    """A row of ListTrainingJobs."""

    kind: str | None = None
    metadata: JobMetadata | None = None
    status: JobStatus | None = None
    spec: JobSpec | None = None
    tasks: list[JobRole | None] | None = None
    tags: list[Tag] | None = None

    @property
    def id(self) -> str:
        """Empty if the row has none."""
        return (self.metadata and self.metadata.id) or ""


class JobsPage(Struct, gc=False):
    """`total` is how many jobs match in all."""

    total: float | None = None
    items: list[JobRow | None] | None = None


class Quota(Struct, gc=False):
    """The limit and the number of a resource. A quota of -1 is "no limit", of which there is none."""

    resource: str | None = None
    quota: float | None = None
    used: float | None = None


class Quotas(Struct, gc=False):
    quotas: list[Quota] | None = None


# Words.

JOB_STATUS = {
    "Creating": Status.CREATING,
    "Pending": Status.QUEUED,
    "Running": Status.RUNNING,
    "Terminating": Status.STOPPING,
    "Completed": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Abnormal": Status.FAILED,
    "Terminated": Status.STOPPED,
}
LIVE = tuple(phase for phase, status in JOB_STATUS.items() if status not in FINISHED)
TERMINAL = tuple(phase for phase, status in JOB_STATUS.items() if status in FINISHED)
STATES = tuple((JOB_STATUS[phase], phase) for phase in LIVE)
HOLDING = frozenset({Status.STARTING, Status.RUNNING, Status.RESTARTING, Status.STOPPING})
RETRIES = "fault-tolerance/job-retry-num"
"""The annotation with the number of restarts that a job is allowed."""

# From answers to the model.


def job(row: JobRow, workspace_id: str = "") -> Job | None:
    """A job, in this workspace unless its row names one; None without an id."""
    metadata, state, spec = row.metadata or JobMetadata(), row.status or JobStatus(), row.spec or JobSpec()
    if not metadata.id:
        return None
    resource, phase, runs = spec.resource or Resource(), state.phase or "", state.running_records
    status, roles = JOB_STATUS.get(phase, Status.UNKNOWN), list(_roles(row))
    return Job(
        job_id=metadata.id,
        name=metadata.name or "",
        job_type=row.kind or "",
        workspace_id=metadata.workspace_id or workspace_id,
        pool_id=resource.pool_id or "",
        user_name=metadata.user_name or "",
        resource_type=(resource.flavor_detail and resource.flavor_detail.flavor_type) or "",
        payment_type=resource.policy or "",
        status=status,
        platform_status=phase,
        reason=code(last.end_reason) if runs and (last := runs[-1]) is not None else "",
        holds_resources=None if status is Status.UNKNOWN else status in HOLDING,
        priority=whole(spec.schedule_policy.priority) if spec.schedule_policy else None,
        created=unix_time(metadata.create_time, per_second=1000),
        started=unix_time(state.start_time, per_second=1000),
        finished=last_end(runs) if status in FINISHED else None,
        duration=seconds(state.duration),
        # Runs after the first. start_type does not mark them: a run on another node has that of a first one.
        restarts=len(runs) - 1 if runs else None,
        cpu_cores=total([role.on_all(role.cpu) for role in roles], is_ratio=False),
        memory_bytes=gibibytes(total([role.on_all(role.memory_gib) for role in roles], is_ratio=False)),  # by habit
        nodes=amount(resource.node_count),
        accelerators=accelerators(roles),
        tags=_tags(row, metadata, spec),
    )


def seconds(milliseconds: float | None) -> float | None:
    """The seconds of a duration; 0 is "never"."""
    given = amount(milliseconds)
    return given / 1000 if given else None


def last_end(runs: Iterable[RunningRecord | None] | None) -> float | None:
    """The end of the last run, and of what was tried after it (Unix seconds); jobs have no field for their own end."""
    dated = [(unix_time(run.start_at) or 0.0, run) for run in runs or () if run is not None]
    _, last = max(reversed(dated), key=itemgetter(0), default=(0.0, RunningRecord()))
    tried = [each.recover_end_at for each in last.recover_records or () if each is not None]
    ends = [unix_time(at) for at in (last.end_at, *tried)]
    return max(filter(None, ends)) if ends[0] else None


def _tags(row: JobRow, metadata: JobMetadata, spec: JobSpec) -> tuple[tuple[str, str], ...]:
    found = {key: value for key, value in (metadata.annotations or {}).items() if isinstance(value, str)}
    for tags in (row.tags, metadata.tags, spec.tags):
        found.update((tag.key, tag.value or "") for tag in tags or () if tag.key)
    return tuple(found.items())


def accelerator_kind(name: str) -> Accelerator | None:
    """Return the kind that a resource key or a flavor's word means: `huawei.com/ascend-1980`, `nvidia.com/gpu`,
    `tnt004`, `GPU`."""
    word = name.lower()
    if "ascend" in word or "npu" in word or "snt" in word:
        return "npu"
    # tnt004 is the documented example of a GPU's key (Tesla T4); flavors name others in the same way.
    return "gpu" if "gpu" in word or "nvidia" in word or word.startswith(("tnt", "vnt", "pnt")) else None


class Role(Struct, gc=False):
    """The requested resources of each of several nodes. None is unknown."""

    nodes: float | None = None
    cpu: float | None = None
    memory_gib: float | None = None
    devices: Accelerators | None = None

    def on_all(self, each: float | None) -> float | None:
        """What all nodes have together."""
        return None if self.nodes is None or each is None else self.nodes * each


def _roles(row: JobRow) -> Iterator[Role]:
    """The roles of a job. Heterogeneous jobs list theirs; the names of its tasks say how many nodes each has.

    An unreadable role has an unknown number of nodes, and if the name of a task is unreadable, so has every role.
    """
    if not row.tasks:
        resource = (row.spec or JobSpec()).resource or Resource()
        yield _role(resource.main_container_allocated_resources, resource.flavor_detail, amount(resource.node_count))
        return
    names = dict.fromkeys((row.status or JobStatus()).tasks or ())
    counts = Counter(role_of(name) for name in names if isinstance(name, str) and name and None not in names)
    yield from (Role() for role in row.tasks if role is None)
    for role in readable(row.tasks):
        flavor = role.task_resource or Flavor()
        yield _role(flavor.main_container_allocated_resources, flavor, counts.get(role.role or ""))


def _role(container: AllocatedResources | None, flavor: Flavor | None, nodes: float | None) -> Role:
    """What one node has: the main container's allocation, or else what its flavor says."""
    container, flavor = container or AllocatedResources(), flavor or Flavor()
    info, kind = flavor.flavor_info or FlavorInfo(), flavor.flavor_type or ""
    found = Role(nodes, amount(container.cpu_core_num), amount(container.mem_size))
    if found.cpu is None and info.cpu is not None:
        found.cpu = amount(info.cpu.core_num)
    if found.memory_gib is None and info.memory is not None and (info.memory.unit or "GB").upper() in {"GB", "GIB"}:
        found.memory_gib = amount(info.memory.size)
    model, count = container.accelerator_type or "", amount(container.accelerator_num)
    if count is not None:
        of = accelerator_kind(model) or accelerator_kind(kind)
        found.devices = Accelerators(of or "gpu", model if count else "", count) if of or not count else None
    elif info.npu is not None and (units := amount(info.npu.unit_num)):
        found.devices = Accelerators("npu", info.npu.product_name or "", units)
    elif info.gpu is not None and (units := amount(info.gpu.unit_num)):
        found.devices = Accelerators("gpu", info.gpu.product_name or "", units)
    elif kind.upper() == "CPU":
        found.devices = Accelerators("gpu", "", 0.0)
    return found


def accelerators(roles: Iterable[Role]) -> tuple[Accelerators, ...]:
    """By kind and model, over all roles; none where it is not known of every role."""
    counts: defaultdict[tuple[Accelerator, str], float] = defaultdict(float)
    for role in roles:
        if role.nodes is None or role.devices is None:
            return ()
        counts[role.devices.kind, role.devices.model] += role.nodes * role.devices.count
    real = {key: count for key, count in counts.items() if count} or counts
    return tuple(Accelerators(kind, model, count) for (kind, model), count in real.items())


class JobTasks(Struct, frozen=True, gc=False):
    """The names of a job's tasks, how often it was started and ended, and may be restarted after a failure."""

    names: tuple[str, ...] = ()
    runs: int = 0
    ends: int = 0
    restarts_allowed: int | None = None


def tasks(row: JobRow) -> JobTasks:
    """The tasks of a job. Their names are the same few in most jobs, and so are the objects."""
    annotations, state = (row.metadata or JobMetadata()).annotations or {}, row.status or JobStatus()
    names = dict.fromkeys(intern(name) for name in state.tasks or () if isinstance(name, str) and name)
    runs = state.running_records or ()
    ends = sum(run is not None and unix_time(run.end_at) is not None for run in runs)
    return JobTasks(tuple(names), len(runs), ends, whole(number(annotations.get(RETRIES))))


def role_of(task: str) -> str:
    """The role in a task's name: `worker` of `worker-0`."""
    return task.rpartition("-")[0] or task


# The calls.

Filter: TypeAlias = tuple[str, str, Sequence[str]]
"""(key, operator, values) of a search."""
JOBS_PAGE, WORKSPACES_PAGE = 50, 1000
_SEARCH = "ListTrainingJobs"


async def list_workspaces(api: Api, deadline: float) -> Listing[WorkspaceRow]:
    """GET /v1/{project}/workspaces: those that the identity may enter; the default one in a region that does not serve
    workspaces. `offset` is a page's number."""
    operation = "ListWorkspaces"
    given: Mapping[str, Any] = {"version": 1, "unserved": WorkspacesPage(1.0, [WorkspaceRow("0", "default")])}

    async def read_page(number: int) -> Page[WorkspaceRow]:
        query = {"offset": str(number), "limit": str(WORKSPACES_PAGE), "filter_accessible": "true"}
        page = await api.get(operation, "workspaces", WorkspacesPage, query, deadline=deadline, **given)
        return Page(whole(page.total_count), page.workspaces)

    return await read_whole_list(read_page, id_of=attrgetter("id"), operation=operation)


async def search_jobs(
    api: Api, workspace_id: str, filters: Sequence[Filter], *, deadline: float, **hosts: Sequence[str]
) -> Listing[JobRow]:
    """Search all pages.

    `host_ips` selects jobs of the last 31 days on at most ten nodes. Only then do rows say where tasks run.
    """

    async def read_page(number: int) -> Page[JobRow]:
        page = await _search(api, workspace_id, filters, {"offset": number, "limit": JOBS_PAGE, **hosts}, deadline)
        return Page(whole(page.total), page.items)

    return await read_whole_list(read_page, id_of=attrgetter("id"), operation=_SEARCH)


async def _search(
    api: Api, workspace_id: str, filters: Sequence[Filter], page: Mapping[str, Any], deadline: float
) -> JobsPage:
    """POST /v2/{project}/training-job-searches: one page, oldest first. `offset` is a page's number."""
    found = [{"key": key, "operator": operator, "value": list(values)} for key, operator, values in filters]
    asked = {"workspace_id": workspace_id, "filters": found, "sort_by": "create_time", "order": "asc", **page}
    given: Mapping[str, Any] = {"method": "POST", "body": json.dumps(asked).encode(), "limits": PAGE}
    return await api.get(_SEARCH, "training-job-searches", JobsPage, deadline=deadline, **given)


# The collectors.

Places: TypeAlias = Mapping[str, tuple[str, str]]
"""By task, the name of its node and its own address."""
_BY_ID_AT_ONCE = 10
"""The number of values in one filter."""
LONGEST_WINDOW = 30 * 86400.0
"""Seconds. A search by creation time spans 31 days at most."""
_QUOTA = "quota"
"""The part of the project's quota; the other parts of the counts are workspaces."""


class Jobs:
    """The collectors of workspaces and jobs."""

    def __init__(self, api: Api, config: HuaweiModelArtsConfig, fleet: Workspaces) -> None:
        self._api, self._fleet, self.jobs_expired = api, fleet, fleet.expired
        self._tasks: dict[str, JobTasks] = {}
        """Those of each live job by its latest row."""
        self.places: dict[tuple[str, str], Mapping[str, tuple[int, Places]]] = {}
        """By pool, workspace and job, the number of its runs when its tasks were found on nodes, and where."""
        self._window = min(config.job_window, LONGEST_WINDOW)
        self._count_turns = FairQueue()
        fleet.watchers.append(self._forget_tasks)

    def tasks_of(self, job_id: str) -> tuple[str, ...]:
        """Return the names of the tasks of a live job."""
        return self._tasks[job_id].names if job_id in self._tasks else ()

    @collector("workspaces")
    async def workspaces(self, poll: Poll) -> None:
        """Those that the identity may enter."""
        read = partial(list_workspaces, self._api)
        await self._fleet.read_list(poll, read, lambda row: Workspace(row.id, row.name or "") if row.id else None)

    @collector("jobs")
    async def jobs(self, poll: Poll) -> None:
        """One search for all live phases; then those that are in it no longer."""
        await self._fleet.poll_jobs(poll, self._read_live, self._read_ends, self._details)

    async def _read_live(self, read: WorkspaceRead) -> None:
        await self._read(read, [("phase", "in", LIVE)], read.part.deadline)

    async def _read_ends(self, read: WorkspaceRead) -> None:
        """Those that were created lately, which no poll may have seen live; then those that live no longer."""
        since = max(read.tracker.ends_since(read.now), self._fleet.clock.began - OVERLAP)
        created = "create_time", "between", (iso_time(since), iso_time(read.now))
        try:
            await self._read(read, [("phase", "in", TERMINAL), created], read.lists_until)
            read.known_until = read.now
        except RequestRefused as error:  # the service may not know this query; ids can be looked up
            read.part.lacks(read.ends, error)
        except CloudError as error:
            read.part.failed(read.ends, error)
        await read.look_up(lambda ids: self._read(read, [("id", "in", ids)], read.until), at_once=_BY_ID_AT_ONCE)

    async def _read(self, read: WorkspaceRead, wanted: Sequence[Filter], deadline: float) -> None:
        listing = await search_jobs(self._api, read.part.key, wanted, deadline=deadline)
        key, _, values = wanted[0]
        read.part.dropped("malformed", listing.malformed)
        for job_id, row in listing.rows.items():
            found = job(row, read.part.key) if key != "id" or job_id in values else None
            ended = read.tracker.ended.get(job_id, (None,))[0]
            if found is None or (ended and (ended.status, ended.created) == (found.status, found.created)):
                continue  # what has ended does not change
            was, before = read.tracker.last_known(job_id) or found, self._tasks.get(job_id)
            self._tasks[job_id] = now = tasks(row)
            history = records(row.status or JobStatus(), found.status, found.created)
            waited = was.status in WAITING and (was.created, was.restarts) == (found.created, found.restarts)
            if found.status in FINISHED and waited and (before or now).ends == now.ends:
                # It ended in the queue: it waited after its last run, and the end of that is not its own.
                found, history = replace(found, finished=None), replace(history, intervals=None)
            read.found[job_id] = found, history
        if key == "id" and listing.malformed:  # a malformed row may be that of a missing job
            read.lost += [job_id for job_id in values if job_id not in read.found]

    def _details(self, job: Job) -> Iterator[object]:
        """A job's tasks, each as a pod: their names, roles and nodes, but no states. And its allowed restarts."""
        known = self._tasks.get(job.job_id, JobTasks())
        runs, found = self.places.get((job.pool_id, job.workspace_id), {}).get(job.job_id, (0, {}))
        places = found if runs == known.runs else {}  # started again since then, it may run on other nodes
        for task in known.names:
            node, address = places.get(task, ("", ""))
            yield Pod(job_id=job.job_id, pod_id=task, role=intern(role_of(task)), node_name=node, pod_ip=address)
        if known.restarts_allowed is not None:
            yield JobPods(job_id=job.job_id, restarts_allowed=known.restarts_allowed)

    def _forget_tasks(self) -> None:
        self._tasks = {job_id: tasks for job_id, tasks in self._tasks.items() if job_id in self._fleet.live}

    @collector("job_counts")
    async def job_counts(self, poll: Poll) -> None:
        """Finished jobs by phase, of those that were created within the window; and the quota of the project."""
        keys = [*await self._fleet.ids.get(), _QUOTA]
        poll.keep_only(keys)
        await self._count_turns.read_each(poll, keys, self._count, at_once=self._fleet.at_once)

    async def _count(self, part: Part) -> None:
        if part.key == _QUOTA:
            await self._read_quota(part)
            return
        now, counts = self._fleet.clock.now(), []
        created = "create_time", "between", (iso_time(now - self._window), iso_time(now))
        for phase in TERMINAL:
            filters = [("phase", "in", (phase,)), created]
            page = await _search(self._api, part.key, filters, {"offset": 0, "limit": 1}, part.deadline)
            if (count := whole(page.total)) is None:
                raise BadAnswer("the answer has no total", operation=_SEARCH)
            counts.append(JobCount(part.key, JOB_STATUS[phase], phase, count))
        await part.publish(counts)

    async def _read_quota(self, part: Part) -> None:
        operation, path, query, unserved = "ShowTrainingQuotas", "training-quotas", {"resource": "job-num"}, Quotas()
        answer = await self._api.get(operation, path, Quotas, query, deadline=part.deadline, unserved=unserved)
        rows = [row for row in answer.quotas or () if row.resource == "job-num"]
        if not rows and answer is not unserved:
            raise BadAnswer("the answer has no quota of jobs", operation=operation)
        await part.publish([ProviderQuota(limit=whole(row.quota), used=whole(row.used)) for row in rows[:1]])
