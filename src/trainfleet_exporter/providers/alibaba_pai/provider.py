"""Alibaba PAI as a platform: one account and region, with the collectors of all topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainfleet_exporter.families.usage import exposed
from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import ProviderFacts, Status
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.alibaba_pai import job_metrics, usage
from trainfleet_exporter.providers.alibaba_pai.client import PERMISSIONS, Api
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.credentials import KEPT
from trainfleet_exporter.providers.alibaba_pai.jobs import STATES, Jobs
from trainfleet_exporter.providers.alibaba_pai.metrics import DLC, JOB_FAMILIES, POOL_FAMILIES, QUOTA
from trainfleet_exporter.providers.alibaba_pai.pools import Pools
from trainfleet_exporter.providers.history import Past
from trainfleet_exporter.providers.registry import BuildContext, Platform

_FREE_CALLS = {"cloudmonitor": 1_000_000}
"""DescribeMetricLast and DescribeMetricList a month, shared by all that reads metrics in the account."""
_MEASURED = frozenset({Status.RUNNING, Status.RESTARTING, Status.STOPPING})
"""Jobs in these states use something."""


class AlibabaPai:
    """One account and region of PAI (providers.registry.Provider)."""

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        chosen, every = config.collectors, context.settings.poll_interval
        by_cloudmonitor = chosen.usage.enabled and chosen.usage.by_cloudmonitor
        self._api = Api(config, context, cloudmonitor=by_cloudmonitor)
        self.identity, self.endpoints = self._api.identity, self._api.endpoints
        self._config, self._deny = config, context.settings.metrics.deny
        self._fleet = Workspaces(config, context, STATES)
        self._sources = JobSources(
            self._fleet,
            in_bulk=lambda job: chosen.usage.source_of(job) == usage.SOURCE,
            measured=_MEASURED,
            interval=chosen.usage.effective_interval(every),
        )
        self._pools = Pools(self._api, config, self._fleet)
        jobs = Jobs(self._api, config, self._fleet, self._pools.models)
        topics = [self._pools, *([self._usage()] if by_cloudmonitor else [])]
        self.collectors: Sequence[Collector] = (
            *collectors_of([jobs], chosen, every),
            *([jobs.pods(chosen.pods.effective_interval(every))] if chosen.pods.enabled else []),
            *collectors_of(topics, chosen, every),
            *self._job_metrics(every),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def _usage(self) -> usage.Usage:
        chosen, has_pools = self._config.collectors.usage, self._config.collectors.pools.enabled
        choices, denied = chosen.metrics.choices(), self._deny
        return usage.Usage(
            self._api,
            self._fleet,
            usage.Space(DLC, "jobId", exposed(JOB_FAMILIES, denied, chosen.profiling), choices),
            usage.Space(QUOTA, "quotaId", exposed(POOL_FAMILIES, denied, chosen.profiling), choices)
            if has_pools
            else None,
            quotas=self._pools.quotas,
            sources=self._sources,
        )

    def _job_metrics(self, every: float) -> Iterator[Collector]:
        chosen = self._config.collectors.usage
        if chosen.enabled and chosen.source in ("auto", job_metrics.SOURCE):
            yield job_metrics.collector_of_job_metrics(
                self._api,
                self._fleet,
                chosen.effective_interval(every),
                sources=self._sources,
                max_jobs=chosen.max_jobs,
            )


def _past(config: AlibabaPaiConfig, context: BuildContext) -> Past:
    from trainfleet_exporter.providers.alibaba_pai.past import PaiPast  # noqa: PLC0415 - the daemon has no need

    return PaiPast(config, context)


PLATFORM = Platform(
    name="alibaba_pai",
    config=AlibabaPaiConfig,
    build=AlibabaPai,
    permissions=PERMISSIONS,
    kept={**KEPT, "DescribeMetricMetaList": 86400.0, "ListEcsSpecs": 6 * 3600.0},
    free_calls=_FREE_CALLS,
    past=_past,
)
