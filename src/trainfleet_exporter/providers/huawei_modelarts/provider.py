"""Huawei Cloud ModelArts as a platform: one project, with the collectors of all topics."""

from __future__ import annotations

from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import ProviderFacts, Status
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.huawei_modelarts.api import NAMES, PERMISSIONS
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.credentials import KEPT
from trainfleet_exporter.providers.huawei_modelarts.jobs import STATES, Jobs
from trainfleet_exporter.providers.huawei_modelarts.nodes import Nodes
from trainfleet_exporter.providers.huawei_modelarts.past import ModelArtsPast
from trainfleet_exporter.providers.huawei_modelarts.pools import Pools
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import SOURCE as TASK_METRICS
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import collector_of_task_metrics
from trainfleet_exporter.providers.huawei_modelarts.usage import SOURCE as AOM
from trainfleet_exporter.providers.huawei_modelarts.usage import Usage
from trainfleet_exporter.providers.huawei_modelarts.v1 import JobsV1
from trainfleet_exporter.providers.registry import BuildContext, Platform

_MEASURED = frozenset({Status.RUNNING})
"""The usage of other jobs is from their end."""


class HuaweiModelArts:
    """One project of ModelArts (providers.registry.Provider)."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext) -> None:
        self.name, self._config = config.name, config
        self._api = api = config.open_api(context)
        self.identity, self.endpoints = api.identity, api.endpoints
        chosen, every, usage = config.collectors, context.settings.poll_interval, config.collectors.usage
        fleet = Workspaces(config, context, STATES)
        jobs = Jobs(api, config, fleet)
        pools = Pools(api, fleet, has_jobs=chosen.jobs.enabled)
        topics: list[object] = [jobs, pools, Nodes(api, fleet, jobs, pools, has_jobs=chosen.jobs.enabled)]
        interval, in_bulk = usage.effective_interval(every), {AOM: True, TASK_METRICS: False}.get(usage.source)
        # By `auto`, it has to be found out whether AOM has a job.
        sources = JobSources(fleet, in_bulk=lambda job: in_bulk, measured=_MEASURED, interval=interval)
        if usage.asks_aom:
            topics.append(Usage(api, usage, context.settings, fleet, sources=sources, tasks_of=jobs.tasks_of))
        self.collectors: list[Collector] = [*collectors_of(topics, chosen, every)]
        if usage.enabled and usage.source != AOM:
            one_by_one = collector_of_task_metrics(api, fleet, interval, usage, sources, tasks_of=jobs.tasks_of)
            self.collectors.append(one_by_one)
        if chosen.jobs_v1.enabled:
            self.collectors.append(JobsV1(api, config, fleet, chosen.jobs_v1.effective_interval(every)))

    @property
    def facts(self) -> ProviderFacts:
        """The current facts of the provider: IAM may have to name its project."""
        platform, region = self._config.platform, self._config.region
        return ProviderFacts(platform=platform, region=region, project_id=self._api.project_id)

    async def aclose(self) -> None:
        await self._api.aclose()


PLATFORM = Platform(
    name="huawei_modelarts",
    config=HuaweiModelArtsConfig,
    build=HuaweiModelArts,
    permissions=PERMISSIONS,
    kept={NAMES: 3600.0, **KEPT},
    past=ModelArtsPast,
)
