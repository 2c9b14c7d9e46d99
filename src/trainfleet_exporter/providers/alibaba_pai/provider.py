"""Alibaba PAI as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainfleet_exporter.config import Global
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.alibaba_pai.api import PaiApi, PaiDialect
from trainfleet_exporter.providers.alibaba_pai.collectors.job_counts import job_counts
from trainfleet_exporter.providers.alibaba_pai.collectors.jobs import jobs
from trainfleet_exporter.providers.alibaba_pai.collectors.pods import pods
from trainfleet_exporter.providers.alibaba_pai.collectors.pools import pools
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.alibaba_pai.collectors.usage import job_metrics_usage
from trainfleet_exporter.providers.alibaba_pai.collectors.workspaces import workspaces
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.book import JobBook
from trainfleet_exporter.providers.filters import job_filter
from trainfleet_exporter.providers.registry import Platform
from trainfleet_exporter.providers.way_out import open_transport
from trainfleet_exporter.transport import Attempt

_VERSIONS = {"dlc": "2020-12-03", "paistudio": "2022-01-12", "aiworkspace": "2021-02-04"}


class AlibabaPai:
    """One account and region of PAI (providers.registry.Provider)."""

    def __init__(self, config: AlibabaPaiConfig, settings: Global, observe: Callable[[Attempt], None]) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        self._settings = settings
        self._transport = open_transport(config, observe)
        credentials = config.credentials_source()
        clients = {
            api: self._transport.client(config.endpoint(api), PaiDialect(api, version, credentials))
            for api, version in _VERSIONS.items()
        }
        shared = Shared(api=PaiApi(**clients), book=JobBook(job_filter(config.jobs)))
        self.collectors: Sequence[Collector] = tuple(self._collectors(config, shared))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _collectors(self, config: AlibabaPaiConfig, shared: Shared) -> list[Collector]:
        chosen, every = config.collectors, self._settings.poll_interval
        workers = config.limits.concurrency
        found: list[Collector] = [
            workspaces(
                shared,
                configured=None if config.workspaces == "all" else config.workspaces,
                interval=every,
            ),
        ]
        if chosen.jobs.enabled:
            found.append(
                jobs(
                    shared,
                    interval=chosen.jobs.interval or every,
                    retention=self._settings.finished_job_retention,
                    began=time.time(),
                    at_once=workers,
                )
            )
        if chosen.job_counts.enabled:
            found.append(
                job_counts(
                    shared,
                    interval=chosen.job_counts.interval or every,
                    window=config.job_window,
                    at_once=workers,
                )
            )
        if chosen.pods.enabled:
            found.append(
                pods(
                    shared,
                    interval=chosen.pods.interval or every,
                    max_jobs=chosen.pods.max_jobs,
                    workers=workers,
                )
            )
        if chosen.usage.enabled:
            found.append(
                job_metrics_usage(
                    shared,
                    interval=chosen.usage.interval or every,
                    max_data_age=self._settings.max_data_age,
                    only_served=chosen.usage.source == "auto",
                    workers=workers,
                )
            )
        if chosen.pools.enabled:
            found.append(pools(shared, interval=chosen.pools.interval or every))
        return found


PLATFORM = Platform(name="alibaba_pai", config=AlibabaPaiConfig, build=AlibabaPai)
