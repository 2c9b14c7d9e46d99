"""What the collectors of one PAI provider share: the API, the workspaces, jobs and quotas, and what names mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfleet_exporter.errors import NotReady
from trainfleet_exporter.providers.alibaba_pai.api import PaiApi
from trainfleet_exporter.providers.alibaba_pai.collectors.ecs_specs import EcsSpecs
from trainfleet_exporter.providers.alibaba_pai.translate_pools import Quota
from trainfleet_exporter.providers.division import Division
from trainfleet_exporter.providers.jobs.registry import JobRegistry
from trainfleet_exporter.providers.knowledge import Groundwork, Knowledge

EVER = "2000-01-01T00:00:00Z"
"""A StartTime before every job. Without one, ListJobs sees only what was created in the last 7 days."""


class Shared(Knowledge):
    """The provider's knowledge that outlives a poll."""

    def __init__(self, api: PaiApi, book: JobRegistry, division: Division | None = None) -> None:
        super().__init__(book, division)
        self.api = api
        self.quotas: Mapping[str, Quota] = {}
        """By id, as the last list that could be read has them."""
        self.pool_models: Mapping[str, str] = {}
        """The accelerator model (GPUType) of each quota, as far as it is known."""
        self.pools_known = False
        """Whether the latest poll of pools could read them."""
        self.pools_polled = Groundwork()
        self.ecs_specs = EcsSpecs(api)

    def learn_quotas(self, quotas: Mapping[str, Quota]) -> None:
        """Take over a list of quotas."""
        self.quotas = quotas
        self.pool_models = {quota_id: quota.accelerator_model for quota_id, quota in quotas.items()}

    async def listed_quotas(self) -> Mapping[str, Quota]:
        """The quotas by id. Raises NotReady where none is known for want of an answer."""
        if not self.quotas:
            await self.pools_polled.wait()
        if not self.quotas and not self.pools_known:
            raise NotReady("the list of quotas could not be read")
        return self.quotas

    async def own_quotas(self) -> Sequence[str]:
        """The ids of the quotas that are asked about here, one by one. Raises NotReady as `listed_quotas` does."""
        return self.division.pools(await self.listed_quotas())
