"""Collectors for every cloud: workspaces; a part for each workspace, or pool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import BulkCollector, Part, PartsCollector, Poll, Topic
from trainfleet_exporter.providers.jobs.listing import Listing, with_unread
from trainfleet_exporter.providers.jobs.shared import Shared

Row = TypeVar("Row")
T = TypeVar("T")
SharedT = TypeVar("SharedT", bound=Shared)


_LIST = "workspaces"
"""The part of the list of workspaces. A configured workspace that it lacks is a part of its own, which fails."""
_UNLISTED = "the cloud does not list this workspace; check its id in the config, and the membership of the identity"


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
        self._listed = self._configured
        """The configured workspaces without those that the latest complete list lacks."""
        self._known: dict[str, Workspace] = {}
        """By id, the workspaces of the latest list. A configured one stays if a malformed row may be about it."""

    async def poll(self, poll: Poll) -> None:
        """Show the listed workspaces. Those of the config are polled even if the list cannot be read."""
        with self._shared.workspaces.polling():
            if self._listed is not None:
                self._shared.workspaces.value = self._listed
            async with poll.part(_LIST) as part:
                await self._read(poll, part)

    async def _read(self, poll: Poll, part: Part) -> None:
        listing = await self._list_all(poll.deadline)
        part.dropped("malformed", listing.malformed)
        if self._configured is not None and not listing.malformed:  # else the malformed row may be the missing one
            self._listed = tuple(key for key in self._configured if key in listing.rows)
            self._fail_unlisted(poll)
        ids, found = self._take(listing)
        may_be_unread = listing.malformed and self._configured is not None
        self._known = {**self._known, **found} if may_be_unread else found
        await part.publish([self._known[key] for key in ids if key in self._known])

    def _take(self, listing: Listing[Row]) -> tuple[Collection[str], dict[str, Workspace]]:
        """Publish the ids of a list. Returns them, and the listed workspaces by id."""
        rows = [self._translate(row) for row in listing.rows.values()]
        found = {workspace.workspace_id: workspace for workspace in rows if workspace is not None}
        ids: Collection[str] | None = self._listed
        if ids is None:
            known = self._shared.workspaces.value
            ids = with_unread(found, known, malformed=listing.malformed, named=listing.rows)
        self._shared.workspaces.publish(tuple(ids))
        return ids, found

    def _fail_unlisted(self, poll: Poll) -> None:
        """A configured workspace that the list lacks fails by its name: nothing is known of its jobs."""
        unlisted = [key for key in self._configured or () if key not in (self._listed or ())]
        poll.keep_only([_LIST, *unlisted])
        for workspace_id in unlisted:
            poll.failed(workspace_id, NotFound(_UNLISTED))


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
