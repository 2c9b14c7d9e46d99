"""The v1 training API, off by default: jobs, their newest version, its pods, and what each pod and card uses.

Cost a cycle: one call for each 1,000 jobs of a workspace, two for each live job, and up to two for each of its pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfleet_exporter.errors import CloudError, NotFound
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.polling import Part, PerObjectCollector, Poll
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts import translate_v1 as v1
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.usage.task_metrics import add_cards, add_pod
from trainfleet_exporter.providers.usage.sheet import Sheet
from trainfleet_exporter.providers.usage.staleness import count
from trainfleet_exporter.transport.json_fields import counting_unusable

SOURCE = "metric_statistic"
_CALLS_OF_A_JOB = 200
"""The expected calls for one job. Its number of pods is not known before the read: enough time for a hundred."""
_LIST = "list of "
"""The prefix of the parts that count a workspace's jobs; a job's part is its id."""


class JobsV1Collector(PerObjectCollector):
    """The objects are the list of each workspace, for its counts, and the live jobs."""

    def __init__(self, shared: ModelArtsShared, interval: float, *, window: float) -> None:
        super().__init__("jobs_v1", interval, workers=shared.at_once)
        self._shared = shared
        self._window = window
        self._lists: dict[str, list[payloads.JobV1]] = {}
        self._live: dict[str, tuple[str, payloads.JobV1]] = {}
        self._unread: dict[str, CloudError] = {}
        """Lists that could not be read in this cycle, and why."""

    def objects(self) -> Sequence[str]:
        """Lists first."""
        return [*self._lists, *self._live]

    def is_current(self, object_id: str) -> bool:
        """Return whether it was found in this cycle."""
        return object_id in self._lists or object_id in self._live

    def calls(self, object_id: str) -> int:
        """A list was read when the cycle began."""
        return 1 if object_id in self._lists else _CALLS_OF_A_JOB

    async def begin(self, poll: Poll) -> None:
        """Read the lists."""
        lists: dict[str, list[payloads.JobV1]] = {}
        live: dict[str, tuple[str, payloads.JobV1]] = {}
        for workspace_id in await self._shared.ids.get():
            key = _LIST + workspace_id
            try:
                with counting_unusable() as lost:
                    listing = await self._shared.client.list_jobs_v1(workspace_id, deadline=poll.deadline)
            except CloudError as error:
                lists[key] = self._lists.get(key, [])  # what the last list held is asked about all the same
                self._unread[key] = error.with_traceback(None)  # which holds the answer
            else:
                _note_dropped(poll, {**lost, "malformed": listing.malformed + lost["malformed"]})
                lists[key] = list(listing.rows.values())
                self._unread.pop(key, None)
            for row in lists[key]:
                if v1.is_live(row):
                    shown_id = v1.job_id(row)
                    live.setdefault(shown_id, (workspace_id, row))
        self._lists, self._live = lists, live

    async def poll(self, part: Part) -> None:
        """Publish the counts of a list, or read one job."""
        if part.key in self._unread:
            raise self._unread[part.key]
        if part.key in self._lists:
            workspace_id = part.key.removeprefix(_LIST)
            since = self._shared.clock.now() - self._window
            await part.publish(v1.counts(workspace_id, self._lists[part.key], since=since))
            return
        workspace_id, row = self._live[part.key]
        job, version = v1.id_text(row.job_id), v1.id_text(row.version_id)
        try:
            versions = await self._shared.client.list_versions_v1(job, deadline=part.deadline)
            newest = v1.newest_version(versions, version)
            part.dropped("no_data", 0 if newest else 1)
            shown = v1.job(row, newest or payloads.VersionV1(), workspace_id=workspace_id)
            del versions, newest  # before the next call
            if not self._shared.wanted(shown):
                await part.publish([])
                return
            await part.publish([shown, *await self._pods(part, job, version, shown)])
        except NotFound as error:
            await part.not_found(error)

    async def _pods(self, part: Part, job: str, version: str, shown: Job) -> list[object]:
        api = self._shared.client
        names = await api.log_file_names_v1(job, version, deadline=part.deadline)
        pods, dropped = v1.pods(shown.job_id, names)
        del names
        _note_dropped(part, dropped)
        malformed = dropped["malformed"]
        if shown.status is not Status.RUNNING:
            return list(pods)
        sheet = Sheet(shown.job_id)
        used = 0
        with_cards = any(item.count for item in shown.accelerators) or not shown.accelerators
        for pod in pods:
            try:
                answer = await api.pod_metrics_v1(job, version, pod.pod_id, each=False, deadline=part.deadline)
                used += add_pod(sheet, pod.pod_id, answer)
                del answer
                count(part, sheet.dropped)
                if with_cards:
                    answer = await api.pod_metrics_v1(job, version, pod.pod_id, each=True, deadline=part.deadline)
                    add_cards(sheet, pod.pod_id, answer)
                    del answer
                    count(part, sheet.dropped)
            except NotFound as error:
                part.lacks(f"figures of pod {pod.pod_id}", error)  # it takes nothing else along
        if malformed or used < len(pods):
            sheet.spoil()
        return [*pods, *(sheet.of_job(SOURCE) or sheet.readings())]


def _note_dropped(where: Part | Poll, dropped: Mapping[str, int]) -> None:
    for reason, number in dropped.items():
        where.dropped(reason, number)
