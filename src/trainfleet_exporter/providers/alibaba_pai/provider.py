"""Alibaba PAI as a platform: one account and region, with the collectors of all topics."""

from __future__ import annotations

from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import ProviderFacts, Status
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.alibaba_pai.api import PERMISSIONS, Api
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.credentials import KEPT
from trainfleet_exporter.providers.alibaba_pai.jobs import STATES, Jobs
from trainfleet_exporter.providers.alibaba_pai.past import PaiPast
from trainfleet_exporter.providers.alibaba_pai.pools import Pools
from trainfleet_exporter.providers.alibaba_pai.usage import JOB_METRICS, Usage, collector_of_job_metrics
from trainfleet_exporter.providers.registry import BuildContext, Platform


class AlibabaPai:
    """One account and region of PAI (providers.registry.Provider)."""

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        chosen, every, usage = config.collectors, context.settings.poll_interval, config.collectors.usage
        self._api = api = Api(config, context, config.open_identity, usage=usage.by_cloudmonitor)
        self.identity, self.endpoints = api.identity, api.endpoints
        fleet, deny = Workspaces(config, context, STATES), context.settings.metrics.deny
        interval = usage.effective_interval(every)
        using = frozenset({Status.RUNNING, Status.RESTARTING, Status.STOPPING})
        sources = JobSources(fleet, in_bulk=usage.in_bulk, measured=using, interval=interval)
        pools = Pools(api, config, fleet)
        jobs = Jobs(api, config, fleet, pools.quotas)
        topics: list[object] = [jobs, pools]
        if usage.by_cloudmonitor:
            topics.append(Usage(api, config, fleet, pools.quotas, sources=sources, deny=deny))
        self.collectors: list[Collector] = [*collectors_of(topics, chosen, every)]
        if chosen.pods.enabled:
            self.collectors.append(jobs.pods(chosen.pods.effective_interval(every)))
        if usage.enabled and usage.source in ("auto", JOB_METRICS):
            self.collectors.append(collector_of_job_metrics(api, fleet, interval, sources, usage, deny=deny))

    async def aclose(self) -> None:
        await self._api.aclose()


PLATFORM = Platform(
    name="alibaba_pai",
    config=AlibabaPaiConfig,
    build=AlibabaPai,
    permissions=PERMISSIONS,
    kept={**KEPT, "DescribeMetricMetaList": 86400.0, "ListEcsSpecs": 6 * 3600.0},
    # DescribeMetricLast and DescribeMetricList a month, shared by all that reads metrics in the account.
    free_calls={"cloudmonitor": 1_000_000},
    past=PaiPast,
)
