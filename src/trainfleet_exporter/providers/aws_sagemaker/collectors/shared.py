"""What the collectors of one SageMaker provider share."""

from __future__ import annotations

from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.polling import Topic
from trainfleet_exporter.providers.aws_sagemaker import payloads
from trainfleet_exporter.providers.aws_sagemaker.client import SageMakerClient
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.translate import DEFAULT_WORKSPACE
from trainfleet_exporter.providers.jobs.shared import Shared
from trainfleet_exporter.providers.registry import BuildContext


class SageMakerShared(Shared):
    """Kept as long as the provider."""

    def __init__(self, config: AwsSageMakerConfig, context: BuildContext, client: SageMakerClient) -> None:
        super().__init__(config, context)
        self.client = client
        # No call lists workspaces. A collector that makes none would succeed while the cloud cannot be reached.
        self.workspaces.publish((DEFAULT_WORKSPACE,))
        self.clusters: Topic[tuple[str, ...]] = Topic("clusters", ())
        """Published by the collector of pools: the names of the HyperPod clusters."""
        self.pool_ends: dict[str, float] = {}
        """Kept by the same: by pool of a training plan, when the plan ends (Unix seconds)."""
        self.chosen_clusters = None if config.clusters == "all" else config.clusters
        """The names that the config gives; None for all that the cloud lists."""
        self.described: dict[str, tuple[float | None, payloads.Job]] = {}
        """Jobs by name where Search is refused: the time of the last change, and the answer of then."""
        self.search_refused_until = float("-inf")
        """The loop time until which Search is not tried again."""


def lacks_permission(error: AccessDenied) -> bool:
    """Whether a policy refuses the call; other refusals are of the key or the date."""
    return error.code.startswith("AccessDenied")
