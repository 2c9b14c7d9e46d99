"""Collectors for every cloud: workspaces; a part for each workspace, or pool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar

from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import BulkCollector, Part, PartsCollector, Poll, Topic
from trainfleet_exporter.providers.jobs.listing import Listing, with_unread
from trainfleet_exporter.providers.jobs.shared import Shared

Row = TypeVar("Row")
T = TypeVar("T")
SharedT = TypeVar("SharedT", bound=Shared)


class WorkspacesCollector(BulkCollector, Generic[Row]):
    """Lists the workspaces that are polled, and publishes their ids as `Shared.workspaces`.

    `list_all` takes a deadline (loop time). `translate` returns None for a workspace that is not to be polled.
    """

    def __init__(
        self,
        shared: Shared,
        interval: float,
        *,
        list_all: Callable[[float], Awaitable[Listing[Row]]],
        translate: Callable[[Row], Workspace | None],
    ) -> None:
        super().__init__("workspaces", interval)
        self._shared = shared
        self._configured = shared.configured_workspaces
        self._list_all = list_all
        self._translate = translate
        self._unlisted: set[str] = set()
        """The configured workspaces that the log has named as missing."""

    async def poll(self, poll: Poll) -> None:
        """Show the listed workspaces, or those of the config, whose ids are enough to poll by."""
        with self._shared.workspaces.polling():
            if self._configured is not None:
                self._shared.workspaces.value = tuple(self._configured)
            async with poll.part("workspaces") as part:
                await self._read(poll, part)

    async def _read(self, poll: Poll, part: Part) -> None:
        listing = await self._list_all(poll.deadline)
        part.dropped("malformed", listing.malformed)
        found = self._take(listing)
        if self._configured is None:
            await part.publish(list(found.values()))
            return
        if not listing.malformed:  # else the malformed row may be the missing one
            self._warn_of_unlisted(poll, set(self._configured) - listing.rows.keys())
        # A workspace that the list lacks is polled and shown all the same, without its name.
        await part.publish([found.get(key, Workspace(key, "")) for key in self._configured])

    def _take(self, listing: Listing[Row]) -> dict[str, Workspace]:
        """Publish the ids of a list; the workspaces by id."""
        rows = [self._translate(row) for row in listing.rows.values()]
        found = {workspace.workspace_id: workspace for workspace in rows if workspace is not None}
        ids = self._configured
        if ids is None:
            known = self._shared.workspaces.value
            ids = with_unread(found, known, malformed=listing.malformed, named=listing.rows)
        self._shared.workspaces.publish(tuple(ids))
        return found

    def _warn_of_unlisted(self, poll: Poll, ids: set[str]) -> None:
        """Say it once of each: it may be mistyped or deleted, and then its counts are 0."""
        for workspace_id in sorted(ids - self._unlisted):
            poll.warn("the cloud does not list a workspace of the config", workspace=workspace_id)
        self._unlisted = ids


class PerWorkspaceCollector(PartsCollector, Generic[SharedT]):
    """A bulk collector with one part for each workspace."""

    def __init__(self, name: str, shared: SharedT, interval: float) -> None:
        super().__init__(name, interval, at_once=shared.at_once)
        self._shared = shared

    async def keys(self) -> Sequence[str]:
        """The ids of the workspaces."""
        return await self._shared.workspaces.get()


class PerPoolCollector(PartsCollector, Generic[SharedT]):
    """A bulk collector with one part for each pool of `pools`."""

    def __init__(self, name: str, shared: SharedT, interval: float, pools: Topic[Any]) -> None:
        super().__init__(name, interval, at_once=shared.at_once)
        self._shared = shared
        self._pools = pools

    async def keys(self) -> Sequence[str]:
        """The ids of the pools."""
        return list(await self._pools.get())


def distinct(
    part: Part, found: Iterable[T | None], id_of: Callable[[T], str], elsewhere: Collection[str] = ()
) -> tuple[dict[str, T], int]:
    """Translated rows by id, and how many are malformed (None). An id that comes again, or is one of `elsewhere`, is
    dropped as a duplicate."""
    kept: dict[str, T] = {}
    malformed = 0
    for item in found:
        if item is None:
            malformed += 1
        elif (key := id_of(item)) in kept or key in elsewhere:
            part.dropped("duplicate")
        else:
            kept[key] = item
    part.dropped("malformed", malformed)
    return kept, malformed
