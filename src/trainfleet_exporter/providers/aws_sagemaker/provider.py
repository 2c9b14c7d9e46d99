"""AWS SageMaker as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.aws_sagemaker.api import AwsDialect, ServerClock
from trainfleet_exporter.providers.aws_sagemaker.client import SageMakerClient
from trainfleet_exporter.providers.aws_sagemaker.collectors.job_counts import JobCountsCollector
from trainfleet_exporter.providers.aws_sagemaker.collectors.jobs import SageMakerJobReader
from trainfleet_exporter.providers.aws_sagemaker.collectors.pools import NodesCollector, PoolsCollector
from trainfleet_exporter.providers.aws_sagemaker.collectors.shared import SageMakerShared
from trainfleet_exporter.providers.aws_sagemaker.collectors.usage import CloudWatchCollector
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.credentials import KEPT, KeyFetch, Place, open_credential
from trainfleet_exporter.providers.aws_sagemaker.usage.cloudwatch import CloudWatch
from trainfleet_exporter.providers.jobs.collectors import JobsCollector
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.providers.transport_factory import open_transport

_PERMISSIONS = {
    "Search": "sagemaker:Search",
    "DescribeTrainingJob": "sagemaker:DescribeTrainingJob",
    "ListClusters": "sagemaker:ListClusters",
    "DescribeCluster": "sagemaker:DescribeCluster",
    "ListClusterNodes": "sagemaker:ListClusterNodes",
    "ListTrainingPlans": "sagemaker:ListTrainingPlans",
    "GetMetricData": "cloudwatch:GetMetricData",
    "AssumeRole": "sts:AssumeRole",
}
"""IAM actions by operation."""


class AwsSageMaker:
    """One account and region of SageMaker (providers.registry.Provider)."""

    def __init__(self, config: AwsSageMakerConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        self._settings = context.settings
        self._transport = open_transport(config, context)
        clock = ServerClock()
        place = Place(
            region=config.region,
            fips=config.fips,
            sts=config.endpoints.sts,
            metadata=config.endpoints.metadata,
        )
        apis = ("sagemaker", *(("cloudwatch",) if config.collectors.usage.enabled else ()))
        self.endpoints = {api: config.endpoint(api) for api in apis}
        self._fetch = KeyFetch(
            config.credentials, place, self._transport, context, clock=clock, endpoints=self.endpoints
        )
        self.identity = open_credential(config.name, config.credentials, self._fetch)
        clients = {
            api: self._transport.client(self.endpoints[api], AwsDialect(api, config.region, self.identity, clock))
            for api in apis
        }
        shared = SageMakerShared(config, context, SageMakerClient(clients["sagemaker"]), clock)
        monitor = CloudWatch(clients["cloudwatch"]) if "cloudwatch" in clients else None
        self.collectors: Sequence[Collector] = tuple(self._collectors(config, shared, monitor))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._fetch.aclose()
        await self._transport.aclose()

    def _collectors(
        self, config: AwsSageMakerConfig, shared: SageMakerShared, monitor: CloudWatch | None
    ) -> Iterator[Collector]:
        chosen, every = config.collectors, self._settings.poll_interval
        if chosen.jobs.enabled:
            yield JobsCollector(shared, chosen.jobs.effective_interval(every), partial(SageMakerJobReader, shared))
        if chosen.job_counts.enabled:
            interval = chosen.job_counts.effective_interval(every)
            yield JobCountsCollector(shared, interval, window=config.job_window)
        if monitor is not None:
            interval = chosen.usage.effective_interval(every)
            yield CloudWatchCollector(shared, interval, monitor, self._settings.metrics.deny)
        if chosen.pools.enabled:
            yield PoolsCollector(shared, chosen.pools.effective_interval(every))
        if chosen.nodes.enabled:
            yield NodesCollector("nodes", shared, chosen.nodes.effective_interval(every), shared.clusters)


PLATFORM = Platform(
    name="aws_sagemaker",
    config=AwsSageMakerConfig,
    build=AwsSageMaker,
    permissions=_PERMISSIONS,
    kept=KEPT,
)
