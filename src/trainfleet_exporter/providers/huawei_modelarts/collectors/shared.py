"""What the collectors of one ModelArts provider share: the API, the workspaces, jobs with their tasks, and pools."""

from __future__ import annotations

from collections.abc import Mapping

from trainfleet_exporter.providers.book import JobBook
from trainfleet_exporter.providers.huawei_modelarts.api import ModelArtsApi
from trainfleet_exporter.providers.knowledge import FirstPoll, Knowledge

DEFAULT_WORKSPACE = "0"


class Shared(Knowledge):
    """The provider's knowledge that outlives a poll."""

    def __init__(self, api: ModelArtsApi, book: JobBook) -> None:
        super().__init__(book)
        self.api = api
        self.tasks: dict[str, Mapping[str, tuple[str, ...]]] = {}
        """By workspace, the task names of each live job, as its latest row told them."""
        self.pool_ids: tuple[str, ...] = ()
        """By the last lists that could be read."""
        self.pools_known = False
        """Whether the latest poll of pools could read those of some workspace (or there is none)."""
        self.pools_polled = FirstPoll()

    def tasks_of(self, job_id: str) -> tuple[str, ...]:
        """The task names of a live job."""
        return next((jobs[job_id] for jobs in self.tasks.values() if job_id in jobs), ())
