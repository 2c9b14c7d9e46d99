"""AWS SageMaker as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

import os
from collections.abc import Sequence

from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.aws_sagemaker.api import AwsDialect
from trainfleet_exporter.providers.aws_sagemaker.calls import Calls
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.credentials import KEPT, Load
from trainfleet_exporter.providers.aws_sagemaker.instances import UnknownTypes
from trainfleet_exporter.providers.aws_sagemaker.jobs import Jobs
from trainfleet_exporter.providers.aws_sagemaker.pools import Pools
from trainfleet_exporter.providers.aws_sagemaker.usage import Usage
from trainfleet_exporter.providers.key_search import KeyHttp, open_credential
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
        self._transport = open_transport(config, context)
        apis = ("sagemaker", *(("cloudwatch",) if config.collectors.usage.enabled else ()))
        self.endpoints = {api: config.endpoint(api) for api in apis}
        self._key_http = KeyHttp(self._transport, context, config.endpoint, self.endpoints)
        self.identity = open_credential(config.name, config.credentials, Load(config), self._key_http, os.environ)
        calls = {
            api: Calls(self._transport.client(url, AwsDialect(api, config.region, self.identity, context.clock)))
            for api, url in list(self.endpoints.items())
        }
        types = UnknownTypes()
        jobs = Jobs(config, context, calls["sagemaker"], types)
        topics: list[object] = [jobs, Pools(config, calls["sagemaker"], types)]
        if "cloudwatch" in calls:
            topics.insert(1, Usage(config, context, jobs.known, calls["cloudwatch"]))
        every = context.settings.poll_interval
        self.collectors: Sequence[Collector] = tuple(collectors_of(topics, config.collectors, every))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._key_http.aclose()
        await self._transport.aclose()


PLATFORM = Platform(
    name="aws_sagemaker",
    config=AwsSageMakerConfig,
    build=AwsSageMaker,
    permissions=_PERMISSIONS,
    kept=KEPT,
)
