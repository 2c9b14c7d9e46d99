"""What the collectors of one PAI provider share: the API, the workspaces, the book of jobs, the pools' models."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from trainfleet_exporter.errors import NotReady
from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.alibaba_pai.api import PaiApi
from trainfleet_exporter.providers.alibaba_pai.translate import EcsSpec
from trainfleet_exporter.providers.book import JobBook

EVER = "2000-01-01T00:00:00Z"
"""A StartTime before every job. Without one, ListJobs sees only what was created in the last 7 days."""


class FirstPoll:
    """Lets collectors wait for the first poll, good or bad, of the one that they build on."""

    def __init__(self) -> None:
        self._done = asyncio.Event()

    def done(self) -> None:
        """The first poll ended."""
        self._done.set()

    async def wait(self) -> None:
        """Wait for it; the caller's own deadline bounds this."""
        await self._done.wait()


@dataclass(slots=True)
class Shared:
    """The provider's knowledge that outlives a poll."""

    api: PaiApi
    book: JobBook
    workspace_ids: tuple[str, ...] | None = None
    """None until they have been had once."""
    pool_models: dict[str, str] = field(default_factory=dict)
    """The accelerator model (GPUType) of each quota, as far as it is known."""
    jobs_known: bool = False
    """Whether the latest poll of jobs could read those of some workspace (or there is none)."""
    ecs_specs: Mapping[str, EcsSpec] = field(default_factory=dict)
    """What each machine type of the public resources has, as far as it is known."""
    ecs_specs_polled: FirstPoll = field(default_factory=FirstPoll)
    workspaces_polled: FirstPoll = field(default_factory=FirstPoll)
    jobs_polled: FirstPoll = field(default_factory=FirstPoll)

    def live_jobs(self) -> Collection[Job]:
        """The live jobs that have series of their own. Raises NotReady where none is known for want of an answer."""
        live = self.book.live().values()
        if not live and not self.jobs_known:
            raise NotReady("the list of jobs could not be read")
        return live

    async def workspaces(self) -> tuple[str, ...]:
        """The ids of the workspaces to poll. Raises NotReady while the list could never be read."""
        await self.workspaces_polled.wait()
        if self.workspace_ids is None:
            raise NotReady("the list of workspaces could not be read yet")
        return self.workspace_ids
