"""AWS SageMaker as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial

from trainfleet_exporter.fleet.collectors import collectors_of
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector
from trainfleet_exporter.providers.aws_sagemaker import jobs
from trainfleet_exporter.providers.aws_sagemaker.api import AwsDialect, Calls
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.credentials import KEPT, load
from trainfleet_exporter.providers.aws_sagemaker.pools import Pools
from trainfleet_exporter.providers.aws_sagemaker.usage import Usage, past_usage
from trainfleet_exporter.providers.key_search import KeyHttp, open_credential
from trainfleet_exporter.providers.past import DAY, Life, Past, PastCall, Range, Track
from trainfleet_exporter.providers.registry import BuildContext, Platform, open_transport


class AwsSageMaker:
    """One account and region of SageMaker (providers.registry.Provider)."""

    def __init__(self, config: AwsSageMakerConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        self._transport = open_transport(config, context)
        apis = ("sagemaker", *(("cloudwatch",) if config.collectors.usage.enabled else ()))
        self.endpoints = {api: config.endpoint(api) for api in apis}
        self._key_http = KeyHttp(self._transport, context, config.endpoint, self.endpoints)
        find = partial(load, config=config)
        self.identity = open_credential(config.name, config.credentials, find, self._key_http, os.environ)
        self.calls = {
            api: Calls(self._transport.client(url, AwsDialect(api, config.region, self.identity, context.clock)))
            for api, url in list(self.endpoints.items())
        }
        fleet, sagemaker = Workspaces(config, context, jobs.STATES, only=jobs.WORKSPACE), self.calls["sagemaker"]
        topics: list[object] = [jobs.Jobs(config, sagemaker, fleet), Pools(config, sagemaker)]
        if "cloudwatch" in self.calls:
            topics.insert(1, Usage(self.calls["cloudwatch"], fleet, context.settings.metrics.deny))
        every = context.settings.poll_interval
        self.collectors: Sequence[Collector] = tuple(collectors_of(topics, config.collectors, every))

    async def aclose(self) -> None:
        await self._key_http.aclose()
        await self._transport.aclose()


class SageMakerPast(Past):
    """The past of one account and region.

    Cost: a call for each 100 jobs; for each day, a call for each metric and 100,000 points. CloudWatch charges for each
    metric of each instance in a call.
    """

    def __init__(self, config: AwsSageMakerConfig, context: BuildContext) -> None:
        super().__init__()
        self._provider, self._settings = AwsSageMaker(config, context), context.settings

    async def aclose(self) -> None:
        await self._provider.aclose()

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        kept = "CloudWatch keeps points of one minute for 15 days, and of five minutes for 63: older days have no usage"
        return [kept] if wanted.start < now - 15 * DAY else []

    def searches(self, wanted: Range, now: float) -> Iterator[Sequence[PastCall[Life]]]:
        """Live jobs first; then those that changed since the start of the range."""
        since = jobs.changed_since(wanted.start - self._settings.finished_job_retention)
        one = ("TrainingJobName", "Equals", self.job_id)
        for filters in [[one]] if self.job_id else [jobs.LIVE, since]:
            yield [PastCall("training jobs", {"sagemaker": 1}, partial(self._search, filters))]

    async def _search(self, filters: Sequence[jobs.Filter], deadline: float) -> AsyncIterator[Life]:
        async for row in jobs.search(self._provider.calls["sagemaker"], filters, deadline=deadline):
            life = None if row is None else jobs.job_life(row, self._settings.metrics.job_labels)
            if life is not None:
                yield life
            self.dropped["malformed"] += life is None

    def readings(self, day: Range, lives: Sequence[Life]) -> Iterator[PastCall[Track]]:
        if "cloudwatch" in self._provider.calls:
            cloudwatch, deny = self._provider.calls["cloudwatch"], self._settings.metrics.deny
            yield from past_usage(self, cloudwatch, day, lives, deny).calls(day)


PLATFORM = Platform(
    name="aws_sagemaker",
    config=AwsSageMakerConfig,
    build=AwsSageMaker,
    permissions={
        "GetMetricData": "cloudwatch:GetMetricData",
        "AssumeRole": "sts:AssumeRole",
        **{name: f"sagemaker:{name}" for name in ("Search", "DescribeTrainingJob", "ListTrainingPlans")},
        **{name: f"sagemaker:{name}" for name in ("ListClusters", "DescribeCluster", "ListClusterNodes")},
    },
    kept=KEPT,
    past=SageMakerPast,
)
