"""The search for jobs of the past: by lists of each workspace, round after round, whose rows become lives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

from msgspec.structs import replace

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.providers.history import History, Life, Lives, PastSource, Range, Sink, Unit
from trainfleet_exporter.providers.jobs.filters import job_filter
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.registry import BuildContext

Query = TypeVar("Query")
Row = TypeVar("Row")


class ProviderHistory(History, Generic[Query, Row]):
    """The past of a provider whose jobs are found by lists, and whose usage is read from some sources.

    A cloud says by which queries its jobs are listed, and what life a row describes; `recall` sets `workspaces`,
    `job_id` and `sources`.
    """

    list_api: ClassVar[str]
    """The API whose calls a list takes, as budgets name it."""

    def __init__(self, config: ProviderConfig, context: BuildContext) -> None:
        self.settings = context.settings
        self.workspaces: Sequence[str] = ()
        self.job_id = ""
        """The only job that is wanted; empty for all."""
        self.sources: Sequence[PastSource] = ()
        self._wanted = job_filter(config.jobs)

    @abstractmethod
    def queries(self, wanted: Range, now: float) -> Sequence[Sequence[tuple[str, Query]]]:
        """The lists of a workspace in which all jobs that lived in a range are: round after round (History.searches),
        each list with a word for it."""

    @abstractmethod
    def query_of(self, job_id: str) -> Query:
        """The list of a workspace that has one job."""

    @abstractmethod
    async def list_jobs(self, workspace_id: str, query: Query, deadline: float) -> Listing[Row]:
        """A list. Raises CloudError."""

    @abstractmethod
    def life(self, workspace_id: str, row: Row) -> Life | None:
        """The life of a job by its row; None without an id."""

    def searches(self, wanted: Range, now: float) -> Sequence[Sequence[Unit]]:
        """A unit for each list and workspace."""
        job_id = self.job_id
        rounds = [[(f"job {job_id}", self.query_of(job_id))]] if job_id else self.queries(wanted, now)
        calls = {self.list_api: 1}
        return [
            [
                Unit(f"{workspace_id} {word}", calls, partial(self._search, workspace_id, query))
                for word, query in queries
                for workspace_id in self.workspaces
            ]
            for queries in rounds
        ]

    async def _search(self, workspace_id: str, query: Query, sink: Sink, deadline: float) -> None:
        listing = await self.list_jobs(workspace_id, query, deadline)
        sink.dropped("malformed", listing.malformed)
        for listed, row in listing.rows.items():
            life = self.life(workspace_id, row)
            if life is not None and self._wanted(life.job) and self.job_id in ("", listed):
                sink.life(life)

    def readings(self, day: Range, lives: Lives) -> Iterator[Unit]:
        """Return the plans of the sources."""
        for source in self.sources:
            yield from source.units(day, lives)


def lasting(job: Job, shown_tags: Collection[str]) -> Job:
    """Return the constant facts of a job. They include only shown tags, because other tags may contain anything."""
    return replace(
        job,
        status=Status.UNKNOWN,
        platform_status="",
        reason="",
        holds_resources=None,
        priority=None,
        finished=None,
        duration=None,
        restarts=None,
        tags=tuple(pair for pair in job.tags if pair[0] in shown_tags),
    )


def end_of_life(job: Job, ended: float | None) -> float:
    """When a finished job released everything: at its end or, if that is unknown, at its last known time."""
    known = [moment for moment in (job.created, job.submitted, job.started) if moment is not None]
    return max(known, default=0.0) if ended is None else ended
