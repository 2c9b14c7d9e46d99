"""The common state of the collectors of one PAI provider; and workspaces (AIWorkSpace ListWorkspaces): one call for
each 100."""

from __future__ import annotations

from collections.abc import Mapping

from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import Topic
from trainfleet_exporter.providers.alibaba_pai import payloads, translate
from trainfleet_exporter.providers.alibaba_pai.client import PaiClient
from trainfleet_exporter.providers.alibaba_pai.collectors.ecs_specs import EcsSpecs
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.translate_pools import Quota
from trainfleet_exporter.providers.collectors import WorkspacesCollector
from trainfleet_exporter.providers.jobs.shared import Shared
from trainfleet_exporter.providers.registry import BuildContext

EVER = "2000-01-01T00:00:00Z"
"""A StartTime before every job. Without one, ListJobs sees only what was created in the last 7 days."""
WITHOUT_JOBS = frozenset({"INITIALIZING", "FAILURE", "DISABLED"})


class PaiShared(Shared):
    """Kept as long as the provider."""

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext, client: PaiClient) -> None:
        super().__init__(config, context)
        self.client = client
        self.pools: Topic[Mapping[str, Quota]] = Topic("quotas", {})
        """Published by the collector of pools: the quotas by id."""
        self.ecs_specs = EcsSpecs(client)
        self.reads_details = config.collectors.pods.enabled
        """Whether GetJob is asked for the histories of jobs."""


# Nothing runs in these, and asking for their jobs is refused.


class PaiWorkspacesCollector(WorkspacesCollector[payloads.Workspace]):
    """The workspaces that the identity is a member of."""

    def __init__(self, shared: PaiShared, interval: float) -> None:
        super().__init__(shared, interval, list_all=shared.client.list_workspaces, translate=_with_jobs)


def _with_jobs(row: payloads.Workspace) -> Workspace | None:
    return None if row.status in WITHOUT_JOBS else translate.workspace(row)
