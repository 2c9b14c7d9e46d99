"""Huawei Cloud ModelArts as a platform: one project, with the collectors of all topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import ProviderFacts, Status
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.history import Past
from trainfleet_exporter.providers.huawei_modelarts.client import NAMES, PERMISSIONS, Api
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.credentials import KEPT
from trainfleet_exporter.providers.huawei_modelarts.jobs import STATES, Jobs
from trainfleet_exporter.providers.huawei_modelarts.nodes import Nodes
from trainfleet_exporter.providers.huawei_modelarts.pools import Pools
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import collector_of_task_metrics
from trainfleet_exporter.providers.huawei_modelarts.usage import Usage
from trainfleet_exporter.providers.huawei_modelarts.v1 import JobsV1
from trainfleet_exporter.providers.registry import BuildContext, Platform

_MEASURED = frozenset({Status.RUNNING})
"""The usage of other jobs is from their end."""
_IN_BULK = {"aom": True, "task_metrics": False, "auto": None}
"""By the config's source, whether AOM has a job. By `auto`, it has to be found out."""


class HuaweiModelArts:
    """One project of ModelArts (providers.registry.Provider)."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext) -> None:
        self.name = config.name
        self._api = Api(config, context)
        self.identity, self.endpoints = self._api.identity, self._api.endpoints
        self._config, self._settings = config, context.settings
        self._fleet = Workspaces(config, context, STATES)
        chosen, every = config.collectors, context.settings.poll_interval
        v1_interval = chosen.jobs_v1.effective_interval(every)
        jobs = Jobs(self._api, config, self._fleet)
        pools = Pools(self._api, self._fleet, has_jobs=chosen.jobs.enabled)
        nodes = Nodes(self._api, self._fleet, jobs, pools, has_jobs=chosen.jobs.enabled)
        self.collectors: Sequence[Collector] = (
            *collectors_of([jobs], chosen, every),
            *(self._usage(jobs) if chosen.usage.enabled else ()),
            *collectors_of([pools, nodes], chosen, every),
            *([JobsV1(self._api, config, self._fleet, v1_interval)] if chosen.jobs_v1.enabled else ()),
        )

    @property
    def facts(self) -> ProviderFacts:
        """The current facts of the provider: IAM may have to name its project."""
        platform, region = self._config.platform, self._config.region
        return ProviderFacts(platform=platform, region=region, project_id=self.identity.project_id)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def _usage(self, jobs: Jobs) -> Iterator[Collector]:
        """AOM, task metrics, or both."""
        chosen, every = self._config.collectors, self._settings.poll_interval
        interval, in_bulk = chosen.usage.effective_interval(every), _IN_BULK[chosen.usage.source]
        sources = JobSources(self._fleet, in_bulk=lambda job: in_bulk, measured=_MEASURED, interval=interval)
        if in_bulk is not False:
            usage = Usage(self._api, chosen.usage, self._settings, self._fleet, sources=sources, tasks_of=jobs.tasks_of)
            yield from collectors_of([usage], chosen, every)
        if in_bulk is not True:
            yield collector_of_task_metrics(
                self._api,
                self._fleet,
                interval,
                tasks_of=jobs.tasks_of,
                sources=sources,
                waits=in_bulk is None,
                max_jobs=chosen.usage.max_jobs,
            )


def _past(config: HuaweiModelArtsConfig, context: BuildContext) -> Past:
    from trainfleet_exporter.providers.huawei_modelarts.past import ModelArtsPast  # noqa: PLC0415 - not the daemon's

    return ModelArtsPast(config, context)


PLATFORM = Platform(
    name="huawei_modelarts",
    config=HuaweiModelArtsConfig,
    build=HuaweiModelArts,
    permissions=PERMISSIONS,
    kept={NAMES: 3600.0, **KEPT},
    past=_past,
)
