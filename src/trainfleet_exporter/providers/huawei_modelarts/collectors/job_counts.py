"""Finished jobs by phase (`total` of a search for one row), and the quota of jobs: calls do not grow with the jobs.

Four calls a workspace and poll, and one for the project.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainfleet_exporter.errors import BadAnswer, NotFound, RequestRefused
from trainfleet_exporter.model import JobCount
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.pool_details import training_quota
from trainfleet_exporter.providers.sweeps import each_sweep
from trainfleet_exporter.quantities import iso_time

_LONGEST_WINDOW = 30 * 86400.0
"""A search by creation time spans 31 days at most."""
_QUOTA = "quota"
"""The part that is of the project, not of a workspace."""


def job_counts(shared: Shared, *, interval: float, window: float, at_once: int) -> Sweep:
    """The collector. Jobs count that were created within the last `window` seconds, 30 days at most."""

    async def keys() -> Sequence[str]:
        own = await shared.own_workspaces()
        return [*own, _QUOTA] if shared.division.is_home else own

    async def read(part: Part) -> None:
        if part.key == _QUOTA:
            await read_quota(part)
            return
        now = time.time()
        created = (iso_time(now - min(window, _LONGEST_WINDOW)), iso_time(now))
        counts = []
        for phase in translate.TERMINAL_PHASES:
            filters = [("phase", "in", (phase,)), ("create_time", "between", created)]
            count = await shared.api.count_jobs(part.key, filters, deadline=part.deadline)
            counts.append(JobCount(part.key, translate.PHASE_STATUS[phase], phase, count))
        await part.publish(counts)

    served = False

    async def read_quota(part: Part) -> None:
        nonlocal served
        try:
            answer = await shared.api.training_quotas(deadline=part.deadline)
        except (RequestRefused, NotFound) as error:
            if error.status != 404 or served:
                raise
            await part.publish([])  # not served in this region
            return
        quota = training_quota(answer)
        if quota is None:
            raise BadAnswer("the answer has no quota of jobs", operation="ShowTrainingQuotas")
        served = True
        await part.publish([quota])

    return each_sweep("job_counts", interval=interval, at_once=at_once, keys=keys, read=read)
