"""The state that the collectors of one SageMaker provider share."""

from __future__ import annotations

from trainfleet_exporter.polling import Topic
from trainfleet_exporter.providers.aws_sagemaker.api import ServerClock
from trainfleet_exporter.providers.aws_sagemaker.client import SageMakerClient
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.translate import DEFAULT_WORKSPACE
from trainfleet_exporter.providers.jobs.shared import Shared
from trainfleet_exporter.providers.registry import BuildContext


class SageMakerShared(Shared):
    """Lives as long as the provider."""

    def __init__(
        self, config: AwsSageMakerConfig, context: BuildContext, client: SageMakerClient, clock: ServerClock
    ) -> None:
        super().__init__(config, context)
        self.client = client
        self._clock = clock
        # No call lists workspaces. A collector without calls would succeed even if the cloud cannot be reached.
        self.workspaces.publish((DEFAULT_WORKSPACE,))
        self.clusters: Topic[tuple[str, ...]] = Topic("clusters", ())
        """Names of the HyperPod clusters, published by the collector of pools."""
        self.pool_ends: dict[str, float] = {}
        """Ends of training plans by pool (Unix seconds), set by the collector of pools."""
        self.chosen_clusters = None if config.clusters == "all" else config.clusters
        """Names in the config; None for all clusters that the cloud lists."""

    @property
    def ahead(self) -> float:
        """By how many seconds the clock of the service is ahead."""
        return self._clock.ahead
