"""Collectors for every cloud: lists that all shards need, such as workspaces; a part for each workspace, or pool."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
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


_LEARN_EVERY = 15
"""So many intervals pass between two polls of a list by a shard that does not show it. With four members of a provider
that makes one call more for five."""
_LIST = "workspaces"
"""The part of the list of workspaces. A configured workspace that it lacks is a part of its own, which fails."""
_UNLISTED = "the cloud does not list this workspace; check its id in the config, and the membership of the identity"
_EARLY = 1.0
"""Seconds by which a poll may begin too early."""


class ListCollector(BulkCollector):
    """A list that all shards of a provider need. The primary shard shows it; the others read it now and then.

    Either publishes it as `topic`.
    """

    def __init__(self, name: str, shared: Shared, interval: float, topic: Topic[Any]) -> None:
        super().__init__(name, interval)
        self._is_primary = shared.shard.is_primary
        self._topic = topic
        self._next = float("-inf")
        """The loop time before which the list is not read again by a shard that does not show it."""

    @abstractmethod
    async def show(self, poll: Poll) -> None:
        """Read the list and publish its series."""

    @abstractmethod
    async def learn(self, poll: Poll) -> bool:
        """Read the list and show nothing. Returns whether it is complete; otherwise the next poll reads it again."""

    async def poll(self, poll: Poll) -> None:
        """Read the list if it is time to."""
        now = asyncio.get_running_loop().time
        if self._is_primary:
            with self._topic.polling():
                await self.show(poll)
        elif now() >= self._next:
            with self._topic.polling():
                if await self.learn(poll):
                    self._next = now() + _LEARN_EVERY * self.interval - _EARLY


class WorkspacesCollector(ListCollector, Generic[Row]):
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
        super().__init__("workspaces", shared, interval, shared.workspaces)
        self._shared = shared
        self._configured = shared.configured_workspaces
        self._list_all = list_all
        self._translate = translate
        self._listed = self._configured
        """The configured workspaces without those that the latest complete list lacks."""
        self._known: dict[str, Workspace] = {}
        """By id, the workspaces of the latest list. A configured one stays if a malformed row may be about it."""

    async def show(self, poll: Poll) -> None:
        """Show the listed workspaces. Those of the config are polled even if the list cannot be read."""
        if self._listed is not None:
            self._shared.workspaces.value = self._listed
        async with poll.part(_LIST) as part:
            listing = await self._list_all(poll.deadline)
            part.dropped("malformed", listing.malformed)
            if self._configured is not None and not listing.malformed:  # else the malformed row may be the missing one
                self._listed = tuple(key for key in self._configured if key in listing.rows)
                self._fail_unlisted(poll)
            ids, found = self._take(listing)
            may_be_unread = listing.malformed and self._configured is not None
            self._known = {**self._known, **found} if may_be_unread else found
            await part.publish([self._known[key] for key in ids if key in self._known])

    async def learn(self, poll: Poll) -> bool:
        """Know which workspaces exist. Ids of the config need no call."""
        if self._configured is not None:
            self._shared.workspaces.publish(tuple(self._configured))
            return True
        listing = await self._list_all(poll.deadline)
        poll.dropped("malformed", listing.malformed)
        self._take(listing)
        return not listing.malformed

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
    """A bulk collector with one part for each workspace that this shard counts."""

    def __init__(self, name: str, shared: SharedT, interval: float) -> None:
        super().__init__(name, interval, at_once=shared.at_once)
        self._shared = shared

    async def keys(self) -> Sequence[str]:
        """The ids of the workspaces."""
        return await self._shared.own_workspaces()


class PerPoolCollector(PartsCollector, Generic[SharedT]):
    """A bulk collector with one part for each pool that this shard asks about; `pools` has the ids of all."""

    def __init__(self, name: str, shared: SharedT, interval: float, pools: Topic[Any]) -> None:
        super().__init__(name, interval, at_once=shared.at_once)
        self._shared = shared
        self._pools = pools

    async def keys(self) -> Sequence[str]:
        """The ids of the pools."""
        return self._shared.shard.owned("pool", await self._pools.get())


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
