"""Finished jobs by phase (`total` of a search for one row), and the quota of jobs: calls do not grow with the jobs.

Four calls a workspace and poll, and one for the project.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import BadAnswer, NotFound, RequestRefused
from trainfleet_exporter.model import JobCount
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.collectors import PerWorkspaceCollector
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.translate_pools import training_quota
from trainfleet_exporter.transport.json_fields import iso_time

_LONGEST_WINDOW = 30 * 86400.0
"""Seconds. A search by creation time spans 31 days at most."""
_QUOTA = "quota"
"""The part of the project's quota; the other parts are workspaces."""


class JobCountsCollector(PerWorkspaceCollector[ModelArtsShared]):
    """A part for each workspace, and one for the quota.

    Jobs count that were created within the last `window` seconds, 30 days at most.
    """

    def __init__(self, shared: ModelArtsShared, interval: float, *, window: float) -> None:
        super().__init__("job_counts", shared, interval)
        self._window = min(window, _LONGEST_WINDOW)
        self._quota_is_served = False

    async def keys(self) -> Sequence[str]:
        """The workspaces and the quota."""
        return [*await super().keys(), _QUOTA]

    async def read(self, part: Part) -> None:
        """Count the jobs of one workspace, or read the quota."""
        if part.key == _QUOTA:
            await self._read_quota(part)
            return
        now = self._shared.clock.now()
        created = (iso_time(now - self._window), iso_time(now))
        counts = []
        for phase in translate.TERMINAL_PHASES:
            filters = [("phase", "in", (phase,)), ("create_time", "between", created)]
            count = await self._shared.client.count_jobs(part.key, filters, deadline=part.deadline)
            counts.append(JobCount(part.key, translate.job_status(phase), phase, count))
        await part.publish(counts)

    async def _read_quota(self, part: Part) -> None:
        try:
            answer = await self._shared.client.training_quotas(deadline=part.deadline)
        except (RequestRefused, NotFound) as error:
            if error.status != 404 or self._quota_is_served:
                raise
            await part.publish([])  # not served in this region
            return
        quota = training_quota(answer)
        if quota is None:
            raise BadAnswer("the answer has no quota of jobs", operation="ShowTrainingQuotas")
        self._quota_is_served = True
        await part.publish([quota])
