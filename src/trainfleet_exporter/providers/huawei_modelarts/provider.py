"""Huawei Cloud ModelArts as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.division import Division
from trainfleet_exporter.providers.history import History
from trainfleet_exporter.providers.huawei_modelarts.aom import NAMES, QUERY, RANGE, AomApi, AomDialect
from trainfleet_exporter.providers.huawei_modelarts.api import ModelArtsApi
from trainfleet_exporter.providers.huawei_modelarts.collectors.job_counts import job_counts
from trainfleet_exporter.providers.huawei_modelarts.collectors.jobs import jobs, jobs_elsewhere
from trainfleet_exporter.providers.huawei_modelarts.collectors.jobs_v1 import JobsV1
from trainfleet_exporter.providers.huawei_modelarts.collectors.nodes import nodes
from trainfleet_exporter.providers.huawei_modelarts.collectors.pool_usage import pools_usage
from trainfleet_exporter.providers.huawei_modelarts.collectors.pool_workloads import pool_workloads
from trainfleet_exporter.providers.huawei_modelarts.collectors.pools import pools
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.collectors.task_metrics import task_metrics_usage
from trainfleet_exporter.providers.huawei_modelarts.collectors.usage import AomUsage
from trainfleet_exporter.providers.huawei_modelarts.collectors.workspaces import workspaces
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.dialect import HuaweiDialect
from trainfleet_exporter.providers.huawei_modelarts.handover import Handover
from trainfleet_exporter.providers.huawei_modelarts.identity import open_identity
from trainfleet_exporter.providers.huawei_modelarts.tables import EXPERIMENTAL, SOURCES
from trainfleet_exporter.providers.jobs.filters import job_filter
from trainfleet_exporter.providers.jobs.registry import JobRegistry
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.providers.way_out import open_transport

_ELSEWHERE_POLLS = 2
"""So many intervals pass between two looks at the jobs that other shards show."""


class HuaweiModelArts:
    """One project of ModelArts (providers.registry.Provider)."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext) -> None:
        self.name = config.name
        self._place = (config.platform, config.region)
        self._settings = context.settings
        self._transport = open_transport(config, context)
        # AOM tells of all jobs of the project at once.
        asks_aom = config.collectors.usage.asks_aom and context.share.is_home
        apis = ("modelarts", "iam", *(("aom",) if asks_aom else ()))
        self.endpoints: Mapping[str, str] = {api: config.endpoint(api) for api in apis}
        self.identity = open_identity(config, self._transport, context)
        self.endpoints = {**self.endpoints, **self.identity.endpoints}
        clients = {
            api: self._transport.client(self.endpoints[api], HuaweiDialect(api, self.identity))
            for api in ("modelarts", "iam")
        }
        self.identity.use(clients["iam"])
        api = ModelArtsApi(clients["modelarts"], self.identity)
        division = Division(context.share, above=config.sharding.split_workspaces_above, count=api.count_created)
        book = JobRegistry(job_filter(config.jobs), mine=division.is_mine if division.splits_workspaces else None)
        shared = Shared(api, book, division)
        self.collectors: Sequence[Collector] = tuple(self._collectors(config, shared))

    @property
    def facts(self) -> ProviderFacts:
        """What is known of the provider now: its project may be told by IAM only."""
        platform, region = self._place
        return ProviderFacts(platform=platform, region=region, project_id=self.identity.project_id)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.identity.aclose()
        await self._transport.aclose()

    def _collectors(self, config: HuaweiModelArtsConfig, shared: Shared) -> list[Collector]:
        chosen, every = config.collectors, self._settings.poll_interval
        workers = config.limits.concurrency
        configured = None if config.workspaces == "all" else config.workspaces
        found: list[Collector] = [workspaces(shared, configured=configured, interval=every)]
        if chosen.jobs.enabled:
            retention = self._settings.finished_job_retention
            interval = chosen.jobs.effective_interval(every)
            found.append(jobs(shared, interval=interval, retention=retention, began=time.time(), at_once=workers))
        if chosen.job_counts.enabled:
            interval = chosen.job_counts.effective_interval(every)
            found.append(job_counts(shared, interval=interval, window=config.job_window, at_once=workers))
        tells_of_all = chosen.pool_workloads.enabled or config.collectors.usage.asks_aom
        if chosen.jobs.enabled and tells_of_all and shared.division.is_home and not shared.division.is_whole:
            slower = max(_ELSEWHERE_POLLS * every, chosen.usage.effective_interval(every))
            found.append(jobs_elsewhere(shared, interval=slower, at_once=workers))
        if chosen.usage.enabled and (shared.division.is_home or not chosen.usage.asks_aom):
            found += self._usage(config, shared)
        asks_pools = shared.division.is_home or chosen.pool_usage.enabled or chosen.nodes.enabled
        if chosen.pools.enabled and asks_pools:
            found.append(pools(shared, interval=chosen.pools.effective_interval(every), at_once=workers))
        if chosen.pool_workloads.enabled and shared.division.is_home:
            interval = chosen.pool_workloads.effective_interval(every)
            with_jobs = chosen.jobs.enabled
            found.append(pool_workloads(shared, interval=interval, at_once=workers, has_jobs=with_jobs))
        if chosen.pool_usage.enabled:
            interval, oldest = chosen.pool_usage.effective_interval(every), self._settings.max_data_age
            found.append(pools_usage(shared, interval=interval, max_data_age=oldest, at_once=workers))
        if chosen.nodes.enabled:
            found.append(nodes(shared, interval=chosen.nodes.effective_interval(every), at_once=workers))
        if chosen.jobs_v1.enabled:
            interval = chosen.jobs_v1.effective_interval(every)
            found.append(JobsV1(shared, window=config.job_window).collector(interval=interval, workers=workers))
        return found

    def _usage(self, config: HuaweiModelArtsConfig, shared: Shared) -> list[Collector]:
        """The sweep over AOM, the cycle over task metrics, or both with a handover between them."""
        chosen, workers = config.collectors.usage, config.limits.concurrency
        interval = chosen.effective_interval(self._settings.poll_interval)
        cycle = partial(task_metrics_usage, shared, interval=interval, max_jobs=chosen.max_jobs, workers=workers)
        if not chosen.asks_aom:
            return [cycle()]
        client = self._transport.client(self.endpoints["aom"], AomDialect("aom", self.identity))
        handover = Handover(interval=interval)
        sweep = AomUsage(
            shared,
            AomApi(client, self.identity, instance=chosen.aom_instance),
            handover,
            chosen=chosen.metrics.choices(),
            deny=self._settings.metrics.deny,
            alone=chosen.source == "aom",
            max_data_age=self._settings.max_data_age,
            at_once=workers,
        ).collector(interval=interval)
        return [sweep] if chosen.source == "aom" else [sweep, cycle(handover=handover)]


def _history(config: HuaweiModelArtsConfig, context: BuildContext) -> History:
    from trainfleet_exporter.providers.huawei_modelarts.history import ModelArtsHistory  # noqa: PLC0415 - not the daemon's

    return ModelArtsHistory(config, context)


_SEARCH, _DETAILS = "modelarts:trainJob:list", "modelarts:trainJob:get"

PLATFORM = Platform(
    name="huawei_modelarts",
    config=HuaweiModelArtsConfig,
    build=HuaweiModelArts,
    sources=SOURCES,
    experimental=EXPERIMENTAL,
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
        "KeystoneCreateUserTokenByPassword": 23.5 * 3600,
        "AssumeAgencyWithOIDC": 1800.0,
        "GetMetadataToken": 23 * 3600.0,
        "GetSecurityKey": 23 * 3600.0,
        "KeystoneListProjects": float("inf"),
    },
    splits=True,
    history=_history,
)
