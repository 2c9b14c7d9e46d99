"""What the collectors of one PAI provider share: the API, the workspaces and jobs, and what models and types mean."""

from __future__ import annotations

from collections.abc import Mapping

from trainfleet_exporter.providers.alibaba_pai.api import PaiApi
from trainfleet_exporter.providers.alibaba_pai.collectors.ecs_specs import EcsSpecs
from trainfleet_exporter.providers.book import JobBook
from trainfleet_exporter.providers.knowledge import Knowledge

EVER = "2000-01-01T00:00:00Z"
"""A StartTime before every job. Without one, ListJobs sees only what was created in the last 7 days."""


class Shared(Knowledge):
    """The provider's knowledge that outlives a poll."""

    def __init__(self, api: PaiApi, book: JobBook) -> None:
        super().__init__(book)
        self.api = api
        self.pool_models: Mapping[str, str] = {}
        """The accelerator model (GPUType) of each quota, as far as it is known."""
        self.ecs_specs = EcsSpecs(api)
