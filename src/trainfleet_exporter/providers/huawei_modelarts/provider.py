"""Huawei Cloud ModelArts as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainfleet_exporter.config import Global
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.book import JobBook
from trainfleet_exporter.providers.filters import job_filter
from trainfleet_exporter.providers.huawei_modelarts.api import HuaweiDialect, ModelArtsApi
from trainfleet_exporter.providers.huawei_modelarts.auth import Identity
from trainfleet_exporter.providers.huawei_modelarts.collectors.job_counts import job_counts
from trainfleet_exporter.providers.huawei_modelarts.collectors.jobs import jobs
from trainfleet_exporter.providers.huawei_modelarts.collectors.jobs_v1 import JobsV1
from trainfleet_exporter.providers.huawei_modelarts.collectors.pool_workloads import pool_workloads
from trainfleet_exporter.providers.huawei_modelarts.collectors.pools import pools
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.collectors.usage import task_metrics_usage
from trainfleet_exporter.providers.huawei_modelarts.collectors.workspaces import workspaces
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.registry import Platform
from trainfleet_exporter.providers.way_out import open_transport
from trainfleet_exporter.transport import Attempt


class HuaweiModelArts:
    """One project of ModelArts (providers.registry.Provider)."""

    def __init__(self, config: HuaweiModelArtsConfig, settings: Global, observe: Callable[[Attempt], None]) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region, project_id=config.project_id or "")
        self._settings = settings
        self._transport = open_transport(config, observe)
        identity = Identity(config.current_credential, region=config.region, project_id=config.project_id)
        identity.use(self._transport.client(config.endpoint("iam"), HuaweiDialect("iam", identity)))
        client = self._transport.client(config.endpoint("modelarts"), HuaweiDialect("modelarts", identity))
        shared = Shared(ModelArtsApi(client, identity), JobBook(job_filter(config.jobs)))
        self.collectors: Sequence[Collector] = tuple(self._collectors(config, shared))

    async def aclose(self) -> None:
        """Close the connections."""
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
        if chosen.usage.enabled:
            interval = chosen.usage.effective_interval(every)
            found.append(task_metrics_usage(shared, interval=interval, workers=workers))
        if chosen.pools.enabled:
            found.append(pools(shared, interval=chosen.pools.effective_interval(every), at_once=workers))
        if chosen.pool_workloads.enabled:
            interval = chosen.pool_workloads.effective_interval(every)
            found.append(pool_workloads(shared, interval=interval, at_once=workers))
        if chosen.jobs_v1.enabled:
            interval = chosen.jobs_v1.effective_interval(every)
            found.append(JobsV1(shared, window=config.job_window).collector(interval=interval, workers=workers))
        return found


PLATFORM = Platform(name="huawei_modelarts", config=HuaweiModelArtsConfig, build=HuaweiModelArts)
