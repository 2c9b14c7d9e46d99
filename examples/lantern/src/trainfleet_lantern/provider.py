"""Lantern Cloud as a platform: from its config to a provider with its collectors."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.errors import CloudError, NotFound
from trainfleet_exporter.model import Job, ProviderFacts
from trainfleet_exporter.polling import Collector, Part, Poll, Sweep
from trainfleet_exporter.providers.division import Division
from trainfleet_exporter.providers.jobs.filters import job_filter
from trainfleet_exporter.providers.jobs.registry import JobRegistry
from trainfleet_exporter.providers.knowledge import Knowledge
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.providers.sweeps import (
    ReadEnds,
    deadline_for_ends,
    each_sweep,
    ends_of,
    jobs_sweep,
    workspaces_sweep,
)
from trainfleet_exporter.providers.way_out import open_transport
from trainfleet_lantern import translate
from trainfleet_lantern.api import LanternApi
from trainfleet_lantern.config import LanternConfig
from trainfleet_lantern.dialect import LanternDialect
from trainfleet_lantern.tables import SOURCES


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """Who asks, in words (providers.registry.Identity)."""

    origin: str
    expires: float | None = None


class Lantern:
    """One account of Lantern Cloud (providers.registry.Provider)."""

    def __init__(self, config: LanternConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform=config.platform, region=config.region)
        self.endpoints: Mapping[str, str] = {"lantern": config.endpoint()}
        token = config.credentials.token
        self.identity = TokenIdentity("token of the config" if token.path is None else f"token file {token.path}")
        self._transport = open_transport(config, context)
        self._api = LanternApi(self._transport.client(config.endpoint(), LanternDialect(token)))
        self._knowledge = Knowledge(JobRegistry(job_filter(config.jobs)), Division(context.share))
        self._began = time.time()
        self._retention = context.settings.finished_job_retention
        self.collectors: Sequence[Collector] = tuple(self._collectors(config, context.settings.poll_interval))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _collectors(self, config: LanternConfig, every: float) -> list[Collector]:
        chosen, known, at_once = config.collectors, self._knowledge, config.limits.concurrency
        configured = None if config.workspaces == "all" else config.workspaces
        found: list[Collector] = [
            workspaces_sweep(
                known,
                configured=configured,
                interval=every,
                list_all=self._api.list_workspaces,
                translate=translate.workspace,
            )
        ]
        if chosen.jobs.enabled:
            interval = chosen.jobs.effective_interval(every)
            found.append(jobs_sweep(known, interval=interval, at_once=at_once, read=self._read_jobs))
        if chosen.job_counts.enabled:
            interval = chosen.job_counts.effective_interval(every)
            counts = each_sweep(
                "job_counts", interval=interval, at_once=at_once, keys=known.own_workspaces, read=self._read_counts
            )
            found.append(counts)
        if chosen.usage.enabled:
            interval = chosen.usage.effective_interval(every)
            found.append(
                each_sweep("usage", interval=interval, at_once=at_once, keys=self._with_jobs, read=self._read_usage)
            )
        if chosen.pools.enabled and known.division.is_home:  # one list for the whole account
            found.append(Sweep(name="pools", interval=chosen.pools.effective_interval(every), run=self._read_pools))
        return found

    async def _read_jobs(self, part: Part) -> ReadEnds:
        """The live jobs of one workspace; what asks how those ended that are no longer among them."""
        now = time.time()
        listing = await self._api.list_jobs(part.key, part.deadline)
        part.dropped("malformed", listing.malformed)
        found = {key: translate.job(row, part.key) for key, row in listing.rows.items()}
        await self._show_jobs(part, found, now, pending=self._knowledge.book.workspace(part.key).missing(found))
        return lambda: self._read_ends(part, found)

    async def _read_ends(self, part: Part, found: dict[str, Job]) -> None:
        page, now = self._knowledge.book.workspace(part.key), time.time()
        unresolved, deadline = [], deadline_for_ends(part)
        for job_id in page.missing(found):
            try:
                found[job_id] = translate.job(await self._api.get_job(job_id, deadline), part.key)
            except NotFound:
                continue  # deleted: how it ended is known to nobody
            except CloudError as error:  # live jobs are shown all the same
                part.failed(ends_of(part), error)
                unresolved.append(job_id)
        await self._show_jobs(part, found, now, unresolved=unresolved)

    async def _show_jobs(
        self,
        part: Part,
        found: dict[str, Job],
        now: float,
        *,
        unresolved: Collection[str] = (),
        pending: Collection[str] = (),
    ) -> None:
        book = self._knowledge.book
        page = book.workspace(part.key)
        # From here to where they are entered nothing is waited for: a job has one workspace.
        for job_id in book.taken(found.keys(), part.key):
            del found[job_id]
            part.dropped("duplicate")
        page.settle(
            found, now=now, began=self._began, retention=self._retention, unresolved=unresolved, pending=pending
        )
        book.changed()
        shown = filter(book.wanted, page.jobs())
        await part.publish([*page.live_counts(translate.LIVE), *page.finished_counts(), *shown])

    async def _read_counts(self, part: Part) -> None:
        await part.publish(translate.finished_counts(await self._api.count_jobs(part.key, part.deadline), part.key))

    async def _with_jobs(self) -> Sequence[str]:
        """The workspaces, once it is known which jobs are shown."""
        await self._knowledge.jobs_polled.wait()
        return await self._knowledge.own_workspaces()

    async def _read_usage(self, part: Part) -> None:
        listing = await self._api.list_usage(part.key, part.deadline)
        part.dropped("malformed", listing.malformed)
        mine = {job.job_id for job in self._knowledge.live_jobs() if job.workspace_id == part.key}
        part.dropped("unlisted", len(listing.rows.keys() - mine))
        await part.publish([translate.usage(row) for key, row in listing.rows.items() if key in mine])

    async def _read_pools(self, poll: Poll) -> None:
        async with poll.part("pools") as part:
            listing = await self._api.list_pools(part.deadline)
            part.dropped("malformed", listing.malformed)
            await part.publish([shown for row in listing.rows.values() for shown in translate.pool(row)])


PLATFORM = Platform(
    name="lantern",
    config=LanternConfig,
    build=Lantern,
    sources=SOURCES,
    permissions={
        "ListWorkspaces": "workspaces.read",
        "ListJobs": "jobs.read",
        "GetJob": "jobs.read",
        "GetSummary": "jobs.read",
        "ListUsage": "usage.read",
        "ListPools": "pools.read",
    },
    splits=True,
)
