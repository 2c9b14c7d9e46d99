"""The common state of the collectors of one ModelArts provider."""

from __future__ import annotations

from collections.abc import Mapping

from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Accelerator
from trainfleet_exporter.polling import Topic
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.client import ModelArtsClient
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.translate import JobTasks
from trainfleet_exporter.providers.registry import BuildContext

DEFAULT_WORKSPACE = "0"
_STATES = tuple((translate.job_status(phase), phase) for phase in translate.LIVE_PHASES)


class ModelArtsShared(Workspaces):
    """Kept as long as the provider."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext, client: ModelArtsClient) -> None:
        super().__init__(config, context, _STATES)
        self.client = client
        self.pools: Topic[Mapping[str, frozenset[Accelerator]]] = Topic("pools", {})
        """Published by the collector of pools: the kinds of accelerators of each pool, by its id."""
        self.tasks: dict[str, JobTasks] = {}
        """The tasks of each live job by its latest row."""
        self.watchers.append(self._forget_tasks)

    def tasks_of(self, job_id: str) -> tuple[str, ...]:
        """The task names of a live job."""
        return self.tasks[job_id].names if job_id in self.tasks else ()

    def _forget_tasks(self) -> None:
        self.tasks = {job_id: tasks for job_id, tasks in self.tasks.items() if job_id in self.live}
