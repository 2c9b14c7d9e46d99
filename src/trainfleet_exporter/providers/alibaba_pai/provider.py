"""Alibaba PAI as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.alibaba_pai.api import VERSIONS, PaiDialect
from trainfleet_exporter.providers.alibaba_pai.client import PaiClient
from trainfleet_exporter.providers.alibaba_pai.collectors.job_counts import JobCountsCollector
from trainfleet_exporter.providers.alibaba_pai.collectors.jobs import PaiJobReader
from trainfleet_exporter.providers.alibaba_pai.collectors.pods import PodsCollector
from trainfleet_exporter.providers.alibaba_pai.collectors.pool_users import PoolUsersCollector
from trainfleet_exporter.providers.alibaba_pai.collectors.pool_workloads import PoolWorkloadsCollector
from trainfleet_exporter.providers.alibaba_pai.collectors.pools import NodesCollector, PoolsCollector
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared, PaiWorkspacesCollector
from trainfleet_exporter.providers.alibaba_pai.collectors.usage import SOURCE as CLOUDMONITOR
from trainfleet_exporter.providers.alibaba_pai.collectors.usage import CloudMonitorCollector
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.credentials import KEPT, load
from trainfleet_exporter.providers.alibaba_pai.usage.cloudmonitor import CloudMonitor, Feeds
from trainfleet_exporter.providers.alibaba_pai.usage.job_metrics import SOURCE as JOB_METRICS
from trainfleet_exporter.providers.alibaba_pai.usage.job_metrics import JobMetricsCollector
from trainfleet_exporter.providers.alibaba_pai.usage.metrics import DLC, JOB_FAMILIES, POOL_FAMILIES, QUOTA
from trainfleet_exporter.providers.history import History
from trainfleet_exporter.providers.jobs.collectors import JobsCollector
from trainfleet_exporter.providers.key_search import KeyHttp, open_credential
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.providers.transport_factory import open_transport
from trainfleet_exporter.providers.usage.arbitration import Decided
from trainfleet_exporter.providers.usage.table import exposed

# If there are two, the vendor's own pages disagree on which one counts: grant both.
_PERMISSIONS = {
    "ListWorkspaces": "paiworkspace:ListWorkspaces",
    "ListJobs": "paidlc:ListJobs and pai:ListJobs",
    "ListEcsSpecs": "paidlc:ListEcsSpecs and pai:ListEcsSpecs",
    "GetJob": "paidlc:GetJob and pai:GetJob",
    "GetJobMetrics": "paidlc:GetJobMetrics and pai:GetJobMetrics",
    "ListQuotas": "pai:ListQuotas",
    "ListQuotaWorkloads": "pai:ListQuotaWorkloads",
    "ListQuotaActiveUserUsages": "pai:ListQuotaActiveUserUsages",
    "ListNodes": "pai:ListNodes",
    "DescribeMetricList": "cms:DescribeMetricList and cms:QueryMetricList",
    "DescribeMetricLast": "cms:DescribeMetricLast and cms:QueryMetricLast",
    "AssumeRole": "sts:AssumeRole",
    "DescribeMetricMetaList": "cms:DescribeMetricMetaList and cms:QueryMetricMeta",
}
_FREE_CALLS = {"cloudmonitor": 1_000_000}
"""DescribeMetricLast and DescribeMetricList a month, shared by all that reads metrics in the account."""


class AlibabaPai:
    """One account and region of PAI (providers.registry.Provider)."""

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        self._settings = context.settings
        self._transport = open_transport(config, context)
        chosen = config.collectors.usage
        asks_cloudmonitor = chosen.enabled and chosen.by_cloudmonitor
        endpoints = {api: config.endpoint(api) for api in VERSIONS if api != "cloudmonitor" or asks_cloudmonitor}
        self.endpoints: Mapping[str, str] = endpoints
        self._key_http = KeyHttp(self._transport, context, config.endpoint, endpoints)
        self.identity = open_credential(config.name, config.credentials, load, self._key_http, config.variables)
        clients = {
            api: self._transport.client(url, PaiDialect(api, VERSIONS[api], self.identity))
            for api, url in endpoints.items()
        }
        client = PaiClient(dlc=clients["dlc"], paistudio=clients["paistudio"], aiworkspace=clients["aiworkspace"])
        shared = PaiShared(config, context, client)
        monitor = CloudMonitor(clients["cloudmonitor"]) if asks_cloudmonitor else None
        self.collectors: Sequence[Collector] = (
            *self._collectors(config, shared),
            *self._usage(config, shared, monitor),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._key_http.aclose()
        await self._transport.aclose()

    def _collectors(self, config: AlibabaPaiConfig, shared: PaiShared) -> Iterator[Collector]:
        """All but those of usage."""
        chosen, every = config.collectors, self._settings.poll_interval
        yield PaiWorkspacesCollector(shared, every)
        if chosen.jobs.enabled:
            yield JobsCollector(shared, chosen.jobs.effective_interval(every), partial(PaiJobReader, shared))
        if chosen.job_counts.enabled:
            interval = chosen.job_counts.effective_interval(every)
            yield JobCountsCollector(shared, interval, window=config.job_window)
        if chosen.pods.enabled:
            yield PodsCollector(shared, chosen.pods.effective_interval(every), max_jobs=chosen.pods.max_jobs)
        if chosen.pools.enabled:
            yield PoolsCollector(shared, chosen.pools.effective_interval(every))
        if chosen.pool_workloads.enabled:
            interval = chosen.pool_workloads.effective_interval(every)
            yield PoolWorkloadsCollector(shared, interval, has_jobs=chosen.jobs.enabled)
        if chosen.pool_users.enabled:
            yield PoolUsersCollector("pool_users", shared, chosen.pool_users.effective_interval(every), shared.pools)
        if chosen.nodes.enabled:
            yield NodesCollector("nodes", shared, chosen.nodes.effective_interval(every), shared.pools)

    def _usage(self, config: AlibabaPaiConfig, shared: PaiShared, monitor: CloudMonitor | None) -> Iterator[Collector]:
        """The collectors that the configured source needs; `monitor` is None where CloudMonitor is not asked."""
        chosen, deny = config.collectors.usage, self._settings.metrics.deny
        if not chosen.enabled:
            return
        serving = Decided(chosen.source_of, shared.jobs.live, shared.jobs.watch).serving
        interval = chosen.effective_interval(self._settings.poll_interval)
        families, choices = exposed(JOB_FAMILIES, deny, chosen.profiling), chosen.metrics.choices()
        if monitor is not None:
            jobs = Feeds(monitor, DLC, families, choices)
            pools = Feeds(monitor, QUOTA, exposed(POOL_FAMILIES, deny, chosen.profiling), choices)
            with_pools = pools if config.collectors.pools.enabled else None
            yield CloudMonitorCollector(shared, interval, monitor, jobs, with_pools, serves=serving(CLOUDMONITOR))
        if chosen.source in ("auto", JOB_METRICS):
            yield JobMetricsCollector(shared, interval, serves=serving(JOB_METRICS), max_jobs=chosen.max_jobs)


def _history(config: AlibabaPaiConfig, context: BuildContext) -> History:
    from trainfleet_exporter.providers.alibaba_pai.past import PaiHistory  # noqa: PLC0415 - the daemon has no need

    return PaiHistory(config, context)


PLATFORM = Platform(
    name="alibaba_pai",
    config=AlibabaPaiConfig,
    build=AlibabaPai,
    permissions=_PERMISSIONS,
    kept={**KEPT, "DescribeMetricMetaList": 86400.0, "ListEcsSpecs": 6 * 3600.0},
    free_calls=_FREE_CALLS,
    history=_history,
)
