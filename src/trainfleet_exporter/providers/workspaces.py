"""The collector of workspaces, and collectors with a part for each workspace, for every cloud."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import BulkCollector, PartsCollector, Poll
from trainfleet_exporter.providers.division import Look
from trainfleet_exporter.providers.jobs.listing import Listing, with_unread
from trainfleet_exporter.providers.shared import Shared

Row = TypeVar("Row")
SharedT = TypeVar("SharedT", bound=Shared)


class WorkspacesCollector(BulkCollector, Generic[Row]):
    """Lists the workspaces that are polled, and publishes their ids as `Shared.workspaces`.

    `list_all` takes a deadline (loop time). `translate` returns None for a workspace that is not to be polled. Shards
    other than the primary read the list now and then, and show nothing.
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
        self._look = Look(interval)
        self._unlisted: set[str] = set()
        """The configured workspaces that the log has named as missing."""

    async def poll(self, poll: Poll) -> None:
        """Read the list, unless another shard shows it and it was read lately."""
        is_primary = self._shared.assignment.is_home
        if not is_primary and not self._look.is_due():
            return
        with self._shared.workspaces.polling():
            if self._configured is not None:  # ids are enough to poll by
                self._shared.workspaces.value = tuple(self._configured)
            await (self._show if is_primary else self._learn)(poll)

    async def _show(self, poll: Poll) -> None:
        async with poll.part("workspaces") as part:
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

    async def _learn(self, poll: Poll) -> None:
        """Know which workspaces exist. Ids of the config need no call."""
        malformed = 0
        if self._configured is None:
            listing = await self._list_all(poll.deadline)
            poll.dropped("malformed", listing.malformed)
            malformed = listing.malformed
            self._take(listing)
        else:
            self._shared.workspaces.publish(tuple(self._configured))
        if not malformed:
            self._look.done()

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
            poll.warn("workspace %s of the config is not among those that the cloud lists", workspace_id)
        self._unlisted = ids


class PerWorkspaceCollector(PartsCollector, Generic[SharedT]):
    """A bulk collector with one part for each workspace that this shard counts."""

    def __init__(self, name: str, shared: SharedT, interval: float) -> None:
        super().__init__(name, interval, at_once=shared.at_once)
        self._shared = shared

    async def keys(self) -> Sequence[str]:
        """The ids of the workspaces."""
        return await self._shared.own_workspaces()
