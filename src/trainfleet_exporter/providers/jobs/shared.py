"""The shared state of one provider's collectors: settings, workspaces and jobs."""

from __future__ import annotations

import time

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.polling import Topic
from trainfleet_exporter.providers.jobs.filters import job_filter
from trainfleet_exporter.providers.jobs.histories import JobHistories
from trainfleet_exporter.providers.jobs.registry import JobRegistry
from trainfleet_exporter.providers.registry import BuildContext


class Shared:
    """Kept as long as the provider. A cloud derives from it and adds its client."""

    def __init__(self, config: ProviderConfig, context: BuildContext) -> None:
        self._began = time.time()
        self.histories = JobHistories(self._began)
        """The time and the faults of jobs."""
        self.record_end = context.record_end
        """Receives each job that has ended."""
        self.retention = context.settings.finished_job_retention
        """Seconds for which a finished job keeps its series."""
        self.max_data_age = context.settings.max_data_age
        """Seconds after which a dated reading is too old."""
        self.at_once = config.limits.concurrency
        """How many calls of one collector may be in flight."""
        self.configured_workspaces = None if config.workspaces == "all" else config.workspaces
        """The ids that the config names; None for all that the cloud lists."""
        self.workspaces: Topic[tuple[str, ...]] = Topic("workspaces", ())
        """Published by the collector of workspaces: the ids of those to poll."""
        self.jobs = JobRegistry(job_filter(config.jobs))

    @property
    def began(self) -> float:
        """Unix seconds. Jobs that ended before are not counted as finished, nor faults of before as faults."""
        return self._began + self.ahead

    @property
    def ahead(self) -> float:
        """By how many seconds the clock of the cloud is ahead of this machine's, as far as that is known."""
        return 0.0

    def now(self) -> float:
        """Return the time in Unix seconds, as the cloud has it."""
        return time.time() + self.ahead
