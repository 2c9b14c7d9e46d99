"""Huawei Cloud ModelArts as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.history import Past
from trainfleet_exporter.providers.huawei_modelarts.api import HuaweiDialect
from trainfleet_exporter.providers.huawei_modelarts.client import ModelArtsClient
from trainfleet_exporter.providers.huawei_modelarts.collectors.job_counts import JobCountsCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.jobs import Jobs
from trainfleet_exporter.providers.huawei_modelarts.collectors.jobs_v1 import JobsV1Collector
from trainfleet_exporter.providers.huawei_modelarts.collectors.maintenance import MaintenanceCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.pool_users import PoolUsersCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.pool_workloads import PoolWorkloadsCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.pools import NodesCollector, PoolsCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.collectors.usage import AomCollector
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.credentials import KEPT, open_identity
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import NAMES, QUERY, RANGE, AomApi, AomDialect, AomSource
from trainfleet_exporter.providers.huawei_modelarts.usage.pool_monitor import PoolUsageCollector
from trainfleet_exporter.providers.huawei_modelarts.usage.task_metrics import TaskMetricsCollector
from trainfleet_exporter.providers.key_search import KeyHttp
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.providers.transport_factory import open_transport
from trainfleet_exporter.providers.usage.arbitration import SourceArbitration


class HuaweiModelArts:
    """One project of ModelArts (providers.registry.Provider)."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext) -> None:
        self.name = config.name
        self._place = (config.platform, config.region)
        self._settings = context.settings
        self._transport = open_transport(config, context)
        apis = ("modelarts", "iam", *(("aom",) if config.collectors.usage.asks_aom else ()))
        endpoints = {api: config.endpoint(api) for api in apis}
        self.endpoints: Mapping[str, str] = endpoints
        self._key_http = KeyHttp(self._transport, context, config.endpoint, endpoints)
        self.identity = open_identity(
            config.name,
            config.credentials,
            self._key_http,
            config.variables,
            region=config.region,
            project_id=config.project_id or "",
        )
        clients = {
            api: self._transport.client(self.endpoints[api], HuaweiDialect(api, self.identity, context.clock))
            for api in ("modelarts", "iam")
        }
        self.identity.use(clients["iam"])
        shared = ModelArtsShared(config, context, ModelArtsClient(clients["modelarts"], self.identity))
        self.collectors: Sequence[Collector] = tuple(self._collectors(config, shared))

    @property
    def facts(self) -> ProviderFacts:
        """The current facts of the provider: IAM may have to name its project."""
        platform, region = self._place
        return ProviderFacts(platform=platform, region=region, project_id=self.identity.project_id)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._key_http.aclose()
        await self._transport.aclose()

    def _collectors(self, config: HuaweiModelArtsConfig, shared: ModelArtsShared) -> Iterator[Collector]:
        chosen, every = config.collectors, self._settings.poll_interval
        yield from collectors_of([Jobs(shared)], chosen, every)
        if chosen.job_counts.enabled:
            interval = chosen.job_counts.effective_interval(every)
            yield JobCountsCollector(shared, interval, window=config.job_window)
        yield from self._usage(config, shared)
        if chosen.pools.enabled:
            yield PoolsCollector(shared, chosen.pools.effective_interval(every))
        if chosen.pool_workloads.enabled:
            interval = chosen.pool_workloads.effective_interval(every)
            yield PoolWorkloadsCollector(shared, interval, has_jobs=chosen.jobs.enabled)
        if chosen.pool_usage.enabled:
            yield PoolUsageCollector("pool_usage", shared, chosen.pool_usage.effective_interval(every), shared.pools)
        if chosen.pool_users.enabled:
            yield PoolUsersCollector("pool_users", shared, chosen.pool_users.effective_interval(every), shared.pools)
        if chosen.nodes.enabled:
            yield NodesCollector("nodes", shared, chosen.nodes.effective_interval(every), shared.pools)
        if chosen.maintenance.enabled:
            yield MaintenanceCollector(shared, chosen.maintenance.effective_interval(every))
        if chosen.jobs_v1.enabled:
            yield JobsV1Collector(shared, chosen.jobs_v1.effective_interval(every), window=config.job_window)

    def _usage(self, config: HuaweiModelArtsConfig, shared: ModelArtsShared) -> Iterator[Collector]:
        """AOM, task metrics, or both with a arbitration between them."""
        chosen = config.collectors.usage
        interval = chosen.effective_interval(self._settings.poll_interval)
        if not chosen.enabled:
            return
        if not chosen.asks_aom:
            yield TaskMetricsCollector(shared, interval, max_jobs=chosen.max_jobs)
            return
        client = self._transport.client(self.endpoints["aom"], AomDialect("aom", self.identity, shared.clock))
        arbitration = SourceArbitration(interval=interval, clock=shared.clock)
        api = AomApi(client, self.identity, instance=chosen.aom_instance)
        source = AomSource(
            api,
            chosen=chosen.metrics.choices(),
            deny=self._settings.metrics.deny,
            profiles=chosen.profiling,
        )
        yield AomCollector(shared, interval, source, arbitration, alone=chosen.source == "aom")
        if chosen.source != "aom":
            yield TaskMetricsCollector(shared, interval, max_jobs=chosen.max_jobs, arbitration=arbitration)


def _past(config: HuaweiModelArtsConfig, context: BuildContext) -> Past:
    from trainfleet_exporter.providers.huawei_modelarts.past import ModelArtsPast  # noqa: PLC0415 - not the daemon's

    return ModelArtsPast(config, context)


_SEARCH, _DETAILS = "modelarts:trainJob:list", "modelarts:trainJob:get"

PLATFORM = Platform(
    name="huawei_modelarts",
    config=HuaweiModelArtsConfig,
    build=HuaweiModelArts,
    permissions={
        "ListWorkspaces": "modelarts:workspace:list",
        "ListTrainingJobs": _SEARCH,
        "ShowTrainingJobMetrics": _DETAILS,
        "ShowTrainingQuotas": "modelarts:trainJob:getQuotas",
        "ListPools": "modelarts:pool:list",
        "ShowPoolMonitor": "modelarts:pool:get",
        "ListTrainingJobsV1": _SEARCH,
        "ListTrainingJobVersions": "modelarts:trainJobVersion:list",
        "ListLogFileNames": "modelarts:trainJobLog:list",
        QUERY: "aom:metric:list",
        RANGE: "aom:metric:list",
        NAMES: "aom:metric:list",
    },
    kept={
        NAMES: 3600.0,  # a day, once every source of the table was found
        **KEPT,
    },
    past=_past,
)
