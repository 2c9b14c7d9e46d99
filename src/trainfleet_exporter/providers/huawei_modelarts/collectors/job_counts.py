"""Finished jobs by phase (`total` of a search for one row): four calls a workspace, however many jobs."""

from __future__ import annotations

import time

from trainfleet_exporter.model import JobCount
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.sweeps import each_sweep
from trainfleet_exporter.quantities import iso_time

_LONGEST_WINDOW = 30 * 86400.0
"""A search by creation time spans 31 days at most."""


def job_counts(shared: Shared, *, interval: float, window: float, at_once: int) -> Sweep:
    """The collector. Jobs count that were created within the last `window` seconds, 30 days at most."""

    async def read(part: Part) -> None:
        now = time.time()
        created = (iso_time(now - min(window, _LONGEST_WINDOW)), iso_time(now))
        counts = []
        for phase in translate.TERMINAL_PHASES:
            filters = [("phase", "in", (phase,)), ("create_time", "between", created)]
            count = await shared.api.count_jobs(part.key, filters, deadline=part.deadline)
            counts.append(JobCount(part.key, translate.PHASE_STATUS[phase], phase, count))
        await part.publish(counts)

    return each_sweep("job_counts", interval=interval, at_once=at_once, keys=shared.workspaces, read=read)
