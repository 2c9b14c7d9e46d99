"""Usage by DLC GetMetrics: CloudMonitor's metrics for who has no right to CloudMonitor, job by job.

Cost a cycle: one call for each job and metric, at most `max_jobs` jobs, the newest first. The catalogue is asked for
once a day all the same, since nothing else tells units; where that is refused, only what counts percent by its name is
read, and what the config names with its unit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from trainfleet_exporter.errors import CloudError, NotFound
from trainfleet_exporter.model import Job, UsageSource
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.catalogue import DLC
from trainfleet_exporter.providers.alibaba_pai.cloudmonitor import CloudMonitor
from trainfleet_exporter.providers.alibaba_pai.collectors.cap import Cap
from trainfleet_exporter.providers.alibaba_pai.collectors.catalogues import Catalogue
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.alibaba_pai.columns import Column, columns, kept_of
from trainfleet_exporter.providers.alibaba_pai.datapoints import Collected, Owner, Whose
from trainfleet_exporter.providers.alibaba_pai.entities import Entities
from trainfleet_exporter.providers.alibaba_pai.metric_map import (
    JOB_FAMILIES,
    Choice,
    Family,
    Feed,
    Unfed,
    assumed,
    exposed,
    feeds,
    tell,
)
from trainfleet_exporter.providers.jobs.collectors import PerJobCollector

_AGAIN = 6 * 3600.0
"""How long to wait after the catalogue was refused: who chose this source may well have no right to it."""


class _Feeds:
    """The metrics to ask for, as far as they are known."""

    def __init__(self, monitor: CloudMonitor, families: Sequence[Family], choices: Mapping[str, Choice]) -> None:
        self._catalogue = Catalogue(monitor, DLC)
        self._families = families
        self._choices = choices
        self._reading = asyncio.Lock()
        self._next_try = float("-inf")
        self._unfed: Collection[Unfed] = ()
        self._told: set[Unfed] = set()
        self.known: Mapping[str, Feed] = {}

    async def have(self, part: Part) -> Mapping[str, Feed]:
        """The feeds by metric. That the catalogue could not be read is told, and no failure of the part."""
        async with self._reading:
            now = asyncio.get_running_loop().time()
            try:
                if now >= self._next_try and await self._catalogue.have(part):
                    self._learn(part)
                else:
                    part.still_lost({"malformed": len(self._unfed)})
            except CloudError as error:
                self._next_try = now + _AGAIN
                part.lacks("catalogue of metrics", error)
                self._learn(part)
        return self.known

    def _learn(self, part: Part) -> None:
        catalogue = self._catalogue.known
        if catalogue is None:
            catalogue = assumed(self._families, self._choices)
        self.known, self._unfed = feeds(catalogue, self._families, self._choices)
        tell("GetMetrics", self._unfed, self._told)
        part.dropped("malformed", len(self._unfed))


class DlcMetricsCollector(PerJobCollector):
    """The jobs that `serves` says are this source's. `choices` and `deny` are the config's."""

    def __init__(
        self,
        shared: PaiShared,
        interval: float,
        monitor: CloudMonitor,
        *,
        serves: Callable[[Job | None], bool],
        choices: Mapping[str, Choice],
        deny: Sequence[str],
        max_jobs: int,
    ) -> None:
        super().__init__("dlc_metrics", shared, interval)
        self._client = shared.client
        self._max_data_age = shared.max_data_age
        self._serves = serves
        self._cap = Cap("usage (GetMetrics)", max_jobs)
        self._entities: dict[str, Entities] = {}
        self._feeds = _Feeds(monitor, exposed(JOB_FAMILIES, deny), choices)
        shared.jobs.watch(self._forget)

    def serves(self, job: Job) -> bool:
        """Whether the job is this source's."""
        return self._serves(job)

    def objects(self) -> Sequence[str]:
        """The jobs, the newest first."""
        live = [job for job in self._jobs.live_jobs() if self._serves(job)]
        return self._cap.ids(sorted(live, key=lambda job: -(job.created or 0.0)))

    def calls(self, object_id: str) -> int:
        """One for each metric."""
        return len(self._feeds.known)

    async def poll(self, part: Part) -> None:
        """Read all metrics of one job."""
        now = time.time()
        max_age = max(self._max_data_age, 2 * part.interval)
        job = self._jobs.live()[part.key]
        without_gpu = bool(job.accelerators) and all(item.count == 0 for item in job.accelerators)
        shown: list[Column] = []
        known_pods = self._entities.setdefault(part.key, Entities())
        known_pods.trim()
        for feed in (await self._feeds.have(part)).values():
            if without_gpu and _is_of_accelerators(feed):
                continue
            collected = Collected(feed, Whose(_owner_of(part.key)), known_pods, now=now, max_age=max_age, series=True)
            try:
                pages = self._client.get_metrics(part.key, feed, start=now - max_age, end=now, deadline=part.deadline)
                await collected.take_pages(pages)
            except NotFound as error:
                await part.not_found(error)  # the next sweep says what became of the job
                return
            part.dropped("no_data", 0 if collected.points else 1)
            shown += (await columns(collected)).columns
            for reason, count in collected.dropped.items():
                part.dropped(reason, count)
            if not shown and not collected.points:
                break  # every running job uses some CPU: one without a CPU reading does not report yet
        await _publish(part, part.key, shown, now=now, max_data_age=self._max_data_age)

    def _forget(self) -> None:
        for job_id in self._entities.keys() - self._jobs.live().keys():
            del self._entities[job_id]


async def _publish(part: Part, job_id: str, shown: Sequence[Column], *, now: float, max_data_age: float) -> None:
    async def kept(moment: float) -> tuple[Sequence[object], float | None]:
        max_age = max(max_data_age, 2 * part.interval)  # as it is then: the cycle may be stretched meanwhile
        fresh = await kept_of(shown, moment - max_age)
        if not fresh:
            return [], None
        source = UsageSource(job_id, "dlc_metrics", max(max(column.newest) for column in fresh))
        # A touch later than the limit, so that the reading is surely beyond it then.
        stale_at = min(column.first for column in fresh) + max_age + 0.001
        return [*(column.readings for column in fresh), source], stale_at

    objects, stale_at = await kept(now)
    await part.publish(objects, stale_at=stale_at, rebuild=kept)


def _owner_of(job_id: str) -> Owner:
    """Points that do not say whose they are, are of the job that was asked for."""
    return lambda point: job_id if point.job_id in (None, "", job_id) else ""


def _is_of_accelerators(feed: Feed) -> bool:
    return all(target.family.level == "device" or "accelerator" in target.family.field for target in feed.targets)
