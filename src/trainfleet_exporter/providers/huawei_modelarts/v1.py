"""The v1 training API, off by default: jobs, their newest version, its pods, and what each pod and card uses.

Cost a cycle: one call for each 1,000 jobs of a workspace, two for each live job, and up to two for each of its pods.

A job is shown as `<job_id>/<version_id>`; ids are numbers. Its status is an integer, whose JOBSTAT_ word is the
platform's own. Its log files have the names of its pods, whose states the API does not report. Times count
milliseconds and 0 is "never". Every field may be absent or null.

https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0044.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.fleet.lists import Listing, Page, read_whole_list
from trainfleet_exporter.fleet.usage import count
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import FINISHED, Accelerators, Job, JobCount, Pod, Status
from trainfleet_exporter.polling import FairQueue, Part, PerObjectCollector, Poll
from trainfleet_exporter.providers.huawei_modelarts.api import Api, segment
from trainfleet_exporter.providers.huawei_modelarts.jobs import (
    HOLDING,
    LONGEST_WINDOW,
    PartInfo,
    Role,
    accelerator_kind,
    accelerators,
    seconds,
)
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import ArrayReadings, JobParts, Metrics
from trainfleet_exporter.providers.values import amount, number, readable, unix_time, whole
from trainfleet_exporter.transport import BULK, PAGE
from trainfleet_exporter.transport.json_fields import counting_unusable

# The answers, with the fields that are read.


class JobRow(Struct, gc=False):
    """A row of the list of jobs, about the newest version of each."""

    job_id: str | int | None = None
    job_name: str | None = None
    version_id: str | int | None = None
    status: str | float | None = None
    create_time: float | None = None
    duration: float | None = None

    @property
    def shown_id(self) -> str:
        """The id under which the version is shown."""
        return f"{id_text(self.job_id)}/{id_text(self.version_id)}"


class JobsPage(Struct, gc=False):
    job_total_count: float | None = None
    jobs: list[JobRow | None] | None = None


class Version(Struct, gc=False):
    """A version of a job. `gpu_num` and `npu_info` are of one of its `worker_server_num` nodes."""

    version_id: str | int | None = None
    status: str | float | None = None
    create_time: float | None = None
    start_time: float | None = None
    duration: float | None = None
    worker_server_num: float | None = None
    gpu_num: float | None = None
    gpu_type: str | None = None
    npu_info: PartInfo | None = None
    pool_id: str | None = None
    user_name: str | None = None


class Versions(Struct, gc=False):
    versions: list[Version] | None = None


class LogFileNames(Struct, gc=False):
    log_file_list: list[str | None] | None = None


# Words.

JOB_STATUS = {
    0: (Status.UNKNOWN, "JOBSTAT_UNKNOWN"),
    1: (Status.CREATING, "JOBSTAT_INIT"),
    2: (Status.STARTING, "JOBSTAT_IMAGE_CREATING"),
    3: (Status.FAILED, "JOBSTAT_IMAGE_FAILED"),
    4: (Status.STARTING, "JOBSTAT_SUBMIT_TRYING"),
    5: (Status.FAILED, "JOBSTAT_SUBMIT_FAILED"),
    6: (Status.UNKNOWN, "JOBSTAT_DELETE_FAILED"),
    7: (Status.QUEUED, "JOBSTAT_WAITING"),
    8: (Status.RUNNING, "JOBSTAT_RUNNING"),
    9: (Status.STOPPING, "JOBSTAT_KILLING"),
    10: (Status.SUCCEEDED, "JOBSTAT_COMPLETED"),
    11: (Status.FAILED, "JOBSTAT_FAILED"),
    12: (Status.STOPPED, "JOBSTAT_KILLED"),
    13: (Status.STOPPED, "JOBSTAT_CANCELED"),
    14: (Status.FAILED, "JOBSTAT_LOST"),
    15: (Status.RUNNING, "JOBSTAT_SCALING"),
    16: (Status.FAILED, "JOBSTAT_SUBMIT_MODEL_FAILED"),
    17: (Status.FAILED, "JOBSTAT_DEPLOY_SERVICE_FAILED"),
    18: (Status.CREATING, "JOBSTAT_CHECK_INIT"),
    19: (Status.STARTING, "JOBSTAT_CHECK_RUNNING"),
    20: (Status.STARTING, "JOBSTAT_CHECK_RUNNING_COMPLETED"),
    21: (Status.FAILED, "JOBSTAT_CHECK_FAILED"),
}

# From answers to the model.

_time = partial(unix_time, per_second=1000)


def job_status(given: str | float | None) -> tuple[Status, str]:
    """The common word and the platform's own, such as JOBSTAT_RUNNING. Another one gets the same beginning."""
    if (code := whole(number(given))) is not None:
        return JOB_STATUS.get(code, (Status.UNKNOWN, f"JOBSTAT_{code}"))
    shown = given if isinstance(given, str) else f"{given:.0f}" if given is not None and given.is_integer() else ""
    return Status.UNKNOWN, shown and f"JOBSTAT_{shown.removeprefix('JOBSTAT_')}"


def is_live(row: JobRow) -> bool:
    """Return whether a job may still change: all that is not known to be over."""
    common, word = job_status(row.status)
    return common not in FINISHED and word != "JOBSTAT_DELETE_FAILED"  # what could not be deleted has ended before


def counts(workspace_id: str, rows: Iterable[JobRow], *, since: float) -> list[JobCount]:
    """The jobs of a workspace tallied by status, each status that the platform knows included. Those that are over
    count if they were created at `since` (Unix seconds) or later, or do not say when."""
    tally = Counter(dict.fromkeys(JOB_STATUS.values(), 0))
    states = [job_status(row.status) for row in rows if is_live(row) or (_time(row.create_time) or since) >= since]
    tally.update((common, word or "JOBSTAT_UNKNOWN") for common, word in states)
    return [JobCount(workspace_id, common, word, count) for (common, word), count in tally.items()]


def id_text(given: str | int | None) -> str:
    """An id as text; empty if it is absent."""
    return "" if given is None else str(given)


def job(row: JobRow, version: Version, *, workspace_id: str) -> Job:
    """One version of a job, from the jobs' row and the version's."""
    common, word = job_status(row.status if version.status is None else version.status)
    has_ended, nodes = common in FINISHED, amount(version.worker_server_num)
    return Job(
        job_id=row.shown_id,
        name=row.job_name or "",
        job_type="v1",
        workspace_id=workspace_id,
        pool_id=version.pool_id or "",
        user_name=version.user_name or "",
        status=common,
        platform_status=word,
        holds_resources=None if common is Status.UNKNOWN else common in HOLDING,
        created=_time(version.create_time) or _time(row.create_time),
        started=_time(version.start_time),
        duration=seconds(version.duration) or seconds(row.duration),
        nodes=None if has_ended else nodes,
        accelerators=() if has_ended else accelerators([Role(nodes, devices=_devices(version))]),
    )


def _devices(version: Version) -> Accelerators | None:
    """The accelerators of one node."""
    npus = version.npu_info
    if npus is not None and (units := amount(npus.unit_num)):
        return Accelerators("npu", npus.product_name or "", units)
    each, model = amount(version.gpu_num), version.gpu_type or ""
    return None if each is None else Accelerators(accelerator_kind(model) or "gpu", model if each else "", each)


def pods(shown_id: str, answer: LogFileNames) -> list[Pod]:
    """The pods of a version, each once."""
    names = readable([name or None for name in answer.log_file_list or ()])
    return [Pod(job_id=shown_id, pod_id=name) for name in dict.fromkeys(names)]


# The collector.

V1_PAGE = 1000
_CALLS_OF_A_JOB = 200
"""The expected calls for one job. Its number of pods is not known before the read: enough time for a hundred."""
_LIST = "list of "
"""The prefix of the parts of lists; a job's part is its id."""


class JobsV1(PerObjectCollector):
    """The objects are the live jobs. The list of each workspace, which finds them, is a part with its counts."""

    def __init__(self, api: Api, config: ProviderConfig, fleet: Workspaces, interval: float) -> None:
        super().__init__("jobs_v1", interval, workers=max(1, fleet.at_once - 1))
        self._get, self._turns = partial(api.get, version=1), FairQueue()
        self._fleet, self._window = fleet, min(config.job_window, LONGEST_WINDOW)
        self._listed: dict[str, list[JobRow]] = {}
        """By workspace, the live jobs of its last list that could be read."""
        self._live: dict[str, tuple[str, JobRow]] = {}

    def objects(self) -> Sequence[str]:
        """The jobs, and the lists so that they are kept."""
        return [*(_LIST + workspace_id for workspace_id in self._listed), *self._live]

    def is_current(self, object_id: str) -> bool:
        """Return whether it was found in this cycle. A list was read when the cycle began."""
        return object_id in self._live

    def calls(self, object_id: str) -> int:
        return _CALLS_OF_A_JOB

    async def begin(self, poll: Poll) -> None:
        """Read the lists. What the last list had is asked about all the same if it cannot be read now."""
        self._listed = {key: self._listed.get(key, []) for key in await self._fleet.ids.get()}

        async def read(part: Part) -> None:
            listing = await self._list(workspace_id := part.key.removeprefix(_LIST), part.deadline)
            part.dropped("malformed", listing.malformed)
            rows, since = listing.rows.values(), self._fleet.clock.now() - self._window
            self._listed[workspace_id] = [row for row in rows if is_live(row)]
            await part.publish(counts(workspace_id, rows, since=since))

        await self._turns.read_each(poll, [_LIST + key for key in self._listed], read, at_once=self._fleet.at_once)
        lists = reversed(self._listed.items())  # of a job in several, the first one counts
        self._live = {row.shown_id: (workspace_id, row) for workspace_id, rows in lists for row in rows}

    async def _list(self, workspace_id: str, deadline: float) -> Listing[JobRow]:
        operation = "ListTrainingJobsV1"

        async def read_page(number: int) -> Page[JobRow]:
            query = {"per_page": str(V1_PAGE), "page": str(number + 1), "workspace_id": workspace_id, "order": "asc"}
            page = await self._get(operation, "training-jobs", JobsPage, query, deadline=deadline, limits=PAGE)
            return Page(whole(page.job_total_count), page.jobs)

        return await read_whole_list(read_page, id_of=lambda row: id_text(row.job_id), operation=operation)

    async def poll(self, part: Part) -> None:
        """Read one job: the version that its row names, or one that says nothing if the answer does not have it."""
        workspace_id, row = self._live[part.key]
        path, version_id = f"training-jobs/{segment(id_text(row.job_id))}/versions", id_text(row.version_id)
        try:
            answer = await self._get("ListTrainingJobVersions", path, Versions, deadline=part.deadline, limits=BULK)
            named = [each for each in answer.versions or () if id_text(each.version_id) == version_id]
            part.dropped("no_data", 0 if named else 1)
            shown = job(row, named[-1] if named else Version(), workspace_id=workspace_id)
            path += f"/{segment(version_id)}"
            await part.publish([shown, *await self._pods(path, part, shown)] if self._fleet.wanted(shown) else [])
        except NotFound as error:
            await part.not_found(error)

    async def _pods(self, path: str, part: Part, shown: Job) -> list[object]:
        """The pods of a version, and what they use if it runs."""
        with counting_unusable() as lost:
            answer = await self._get("ListLogFileNames", f"{path}/log/file-names", LogFileNames, deadline=part.deadline)
        part.dropped("no_data", answer.log_file_list is None and not lost)
        found = pods(shown.job_id, answer)
        if shown.status is not Status.RUNNING:
            return list(found)
        parts = JobParts(shown, [pod.pod_id for pod in found])
        if not all(answer.log_file_list or ()):
            parts.counts["pod"] = None
        readings = ArrayReadings(shown.job_id, parts)
        with_cards = any(item.count for item in shown.accelerators) or not shown.accelerators
        for pod in found:
            try:
                readings.add_pod(pod.pod_id, await self._metrics(path, pod.pod_id, "all", part))
                if with_cards:
                    readings.add_cards(pod.pod_id, await self._metrics(path, pod.pod_id, "each", part))
            except NotFound as error:
                part.lacks(f"figures of pod {pod.pod_id}", error)  # it takes nothing else along
        usage = readings.shown("metric_statistic")
        count(part, readings.dropped)
        return [*found, *usage]

    async def _metrics(self, path: str, pod: str, of: str, part: Part) -> Metrics:
        """The metric statistic of a pod (`all`), or of each of its cards (`each`)."""
        path, query = f"{path}/pod/{segment(pod)}/metric-statistic", {"statistic_type": of}
        options: Mapping[str, Any] = {"query": query, "may_be_empty": True, "limits": BULK}
        return await self._get("ShowPodMetricStatistic", path, Metrics, deadline=part.deadline, **options)
