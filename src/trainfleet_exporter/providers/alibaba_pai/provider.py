"""Alibaba PAI as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.alibaba_pai.api import PaiApi
from trainfleet_exporter.providers.alibaba_pai.cloudmonitor import CloudMonitor
from trainfleet_exporter.providers.alibaba_pai.collectors.dlc_metrics import dlc_metrics
from trainfleet_exporter.providers.alibaba_pai.collectors.job_counts import job_counts
from trainfleet_exporter.providers.alibaba_pai.collectors.job_metrics import job_metrics
from trainfleet_exporter.providers.alibaba_pai.collectors.jobs import jobs, jobs_elsewhere
from trainfleet_exporter.providers.alibaba_pai.collectors.nodes import nodes
from trainfleet_exporter.providers.alibaba_pai.collectors.pods import pods
from trainfleet_exporter.providers.alibaba_pai.collectors.pool_workloads import pool_workloads
from trainfleet_exporter.providers.alibaba_pai.collectors.pools import pools
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.alibaba_pai.collectors.usage import cloudmonitor_usage
from trainfleet_exporter.providers.alibaba_pai.collectors.usage_sources import Sources
from trainfleet_exporter.providers.alibaba_pai.collectors.workspaces import workspaces
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.dialect import VERSIONS, PaiDialect
from trainfleet_exporter.providers.alibaba_pai.identity import KEPT, open_source, ways_of
from trainfleet_exporter.providers.alibaba_pai.tables import EXPERIMENTAL, SOURCES
from trainfleet_exporter.providers.division import Division
from trainfleet_exporter.providers.history import History
from trainfleet_exporter.providers.jobs.filters import job_filter
from trainfleet_exporter.providers.jobs.registry import JobRegistry
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.providers.way_out import open_transport

# Where there are two, the vendor's own pages disagree on which of them counts: both are to be granted.
_PERMISSIONS = {
    "ListWorkspaces": "paiworkspace:ListWorkspaces",
    "ListJobs": "paidlc:ListJobs and pai:ListJobs",
    "ListEcsSpecs": "paidlc:ListEcsSpecs and pai:ListEcsSpecs",
    "GetJob": "paidlc:GetJob and pai:GetJob",
    "GetJobMetrics": "paidlc:GetJobMetrics and pai:GetJobMetrics",
    "GetMetrics": "paidlc:GetMetrics and pai:GetMetrics",
    "ListQuotas": "pai:ListQuotas",
    "ListQuotaWorkloads": "pai:ListQuotaWorkloads",
    "ListNodes": "pai:ListNodes",
    "DescribeMetricList": "cms:DescribeMetricList and cms:QueryMetricList",
    "DescribeMetricLast": "cms:DescribeMetricLast and cms:QueryMetricLast",
    "AssumeRole": "sts:AssumeRole",
    "DescribeMetricMetaList": "cms:DescribeMetricMetaList and cms:QueryMetricMeta",
}
_FREE_CALLS = {"cloudmonitor": 1_000_000}
"""DescribeMetricLast and DescribeMetricList a month, shared by all that reads metrics in the account."""


_ELSEWHERE_POLLS = 2
"""So many intervals pass between two looks at the jobs that other shards show."""


class AlibabaPai:
    """One account and region of PAI (providers.registry.Provider)."""

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        self._settings = context.settings
        self._transport = open_transport(config, context)
        self._ways = ways_of(config, self._transport, context)
        self.identity = open_source(config.credentials.source, self._ways)
        chosen = config.collectors.usage
        asks_cloudmonitor = chosen.enabled and chosen.source != "job_metrics"
        if chosen.by_cloudmonitor and not context.share.is_home:
            asks_cloudmonitor = False  # it tells of all jobs of the account at once
        self.endpoints: Mapping[str, str] = {
            api: config.endpoint(api) for api in VERSIONS if api != "cloudmonitor" or asks_cloudmonitor
        }
        clients = {
            api: self._transport.client(url, PaiDialect(api, VERSIONS[api], self.identity))
            for api, url in self.endpoints.items()
        }
        self.endpoints = {**self.endpoints, **self._ways.endpoints}
        api = PaiApi(dlc=clients["dlc"], paistudio=clients["paistudio"], aiworkspace=clients["aiworkspace"])
        division = Division(context.share, above=config.sharding.split_workspaces_above, count=api.count_created)
        book = JobRegistry(job_filter(config.jobs), mine=division.is_mine if division.splits_workspaces else None)
        shared = Shared(api=api, book=book, division=division)
        found = self._collectors(config, shared)
        if chosen.enabled:
            monitor = CloudMonitor(clients["cloudmonitor"]) if asks_cloudmonitor else None
            found += self._usage_collectors(config, shared, monitor)
        self.collectors: Sequence[Collector] = tuple(found)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._ways.aclose()
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
        if chosen.pools.enabled:
            found.append(pools(shared, interval=chosen.pools.interval or every))
        tells_of_all = chosen.pool_workloads.enabled or (chosen.usage.enabled and chosen.usage.by_cloudmonitor)
        if chosen.jobs.enabled and tells_of_all and shared.division.is_home and not shared.division.is_whole:
            slower = max(_ELSEWHERE_POLLS * every, chosen.usage.interval or every)
            found.append(jobs_elsewhere(shared, interval=slower, at_once=workers))
        if chosen.pool_workloads.enabled and shared.division.is_home:
            interval, with_jobs = chosen.pool_workloads.interval or every, chosen.jobs.enabled
            found.append(pool_workloads(shared, interval=interval, at_once=workers, has_jobs=with_jobs))
        if chosen.nodes.enabled:
            found.append(nodes(shared, interval=chosen.nodes.interval or every, at_once=workers))
        return found

    def _usage_collectors(
        self, config: AlibabaPaiConfig, shared: Shared, monitor: CloudMonitor | None
    ) -> list[Collector]:
        """The collectors that the configured source needs; `monitor` is None where CloudMonitor is not asked."""
        chosen = config.collectors.usage
        sources = Sources(chosen.source, shared.book)
        interval = chosen.interval or self._settings.poll_interval
        max_data_age, workers = self._settings.max_data_age, config.limits.concurrency
        choices = chosen.metrics.choices()
        found: list[Collector] = []
        if monitor is not None and chosen.by_cloudmonitor:
            found.append(
                cloudmonitor_usage(
                    shared,
                    monitor,
                    interval=interval,
                    max_data_age=max_data_age,
                    serves=sources.serving("cloudmonitor"),
                    choices=choices,
                    deny=self._settings.metrics.deny,
                    with_pools=config.collectors.pools.enabled,
                    at_once=workers,
                )
            )
        elif monitor is not None:
            found.append(
                dlc_metrics(
                    shared,
                    monitor,
                    interval=interval,
                    max_data_age=max_data_age,
                    serves=sources.serving("dlc_metrics"),
                    choices=choices,
                    deny=self._settings.metrics.deny,
                    max_jobs=chosen.max_jobs,
                    workers=workers,
                )
            )
        if chosen.source in ("auto", "job_metrics"):
            found.append(
                job_metrics(
                    shared,
                    interval=interval,
                    max_data_age=max_data_age,
                    serves=sources.serving("job_metrics"),
                    max_jobs=chosen.max_jobs,
                    workers=workers,
                )
            )
        return found


def _history(config: AlibabaPaiConfig, context: BuildContext) -> History:
    from trainfleet_exporter.providers.alibaba_pai.history import PaiHistory  # noqa: PLC0415 - the daemon has no need

    return PaiHistory(config, context)


PLATFORM = Platform(
    name="alibaba_pai",
    config=AlibabaPaiConfig,
    build=AlibabaPai,
    sources=SOURCES,
    experimental=EXPERIMENTAL,
    permissions=_PERMISSIONS,
    kept={**KEPT, "DescribeMetricMetaList": 86400.0, "ListEcsSpecs": 6 * 3600.0},
    free_calls=_FREE_CALLS,
    splits=True,
    history=_history,
)
