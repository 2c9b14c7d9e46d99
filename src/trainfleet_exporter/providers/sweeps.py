"""The sweeps that every cloud has: workspaces, the jobs of each, and anything else that is read workspace by workspace.

A cloud hands in how one workspace, or the list of them, is read; the order, the turns and what is known afterwards are
the same everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from trainfleet_exporter.errors import DeadlineExceeded
from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import Part, Poll, Sweep
from trainfleet_exporter.providers.division import Look
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.knowledge import NONE_READ, Groundwork, Knowledge, ReadCount
from trainfleet_exporter.providers.turns import Turns

T = TypeVar("T")
Read = Callable[[Part], Awaitable[None]]
ReadEnds = Callable[[], Awaitable[None]]
"""Finds out how jobs of one workspace ended, and publishes its part again."""
ReadJobs = Callable[[Part], Awaitable[ReadEnds | None]]
_FOR_LIVE = 0.8
"""The part of a poll's time in which workspaces have their turn; after that the ends of jobs have theirs."""
_FOR_ENDS = 0.8
"""The part of the time that is left which may go into finding out how jobs ended."""


def workspaces_sweep(
    knowledge: Knowledge,
    *,
    configured: Sequence[str] | None,
    interval: float,
    list_all: Callable[[float], Awaitable[Listing[T]]],
    translate: Callable[[T], Workspace | None],
) -> Sweep:
    """The collector of workspaces. `configured` are the ids that the config names; None for all that are listed.

    `list_all` takes a deadline; `translate` answers None for a workspace that is not to be polled.
    """

    told: set[str] = set()
    look = Look(interval)

    def tell_unlisted(poll: Poll, ids: set[str]) -> None:
        """Say it once of each: it may be mistyped or deleted, and then whatever is counted in it is 0."""
        for workspace_id in sorted(ids - told):
            poll.warn("workspace %s of the config is not among those that the cloud lists", workspace_id)
        told.clear()
        told.update(ids)

    def take(listing: Listing[T]) -> dict[str, Workspace]:
        rows = [translate(row) for row in listing.rows.values()]
        found = {workspace.workspace_id: workspace for workspace in rows if workspace is not None}
        if configured is None:
            knowledge.workspace_ids = with_unread(
                found, knowledge.workspace_ids, malformed=listing.malformed, named=listing.rows
            )
        return found

    async def show(poll: Poll) -> bool:
        known = False
        async with poll.part("workspaces") as part:
            listing = await list_all(poll.deadline)
            part.dropped("malformed", listing.malformed)
            found = take(listing)
            known = True
            if configured is None:
                await part.publish(list(found.values()))
            else:
                if not listing.malformed:  # else it may be a row that could not be read
                    tell_unlisted(poll, set(configured) - listing.rows.keys())
                # One that the list lacks is polled and shown all the same, without its name.
                await part.publish([found.get(key, Workspace(key, "")) for key in configured])
        return known

    async def look_at(poll: Poll) -> bool:
        """Know which workspaces there are, where another shard shows them."""
        if configured is None:
            listing = await list_all(poll.deadline)
            poll.dropped("malformed", listing.malformed)
            take(listing)
            if listing.malformed:
                return True
        look.done()
        return True

    async def run(poll: Poll) -> None:
        is_home = knowledge.division.is_home
        if not is_home and not look.is_due():
            return
        knowledge.workspaces_polled.begin()
        known = False
        if configured is not None:  # ids are enough to poll by
            knowledge.workspace_ids = tuple(configured)
        try:
            known = await (show if is_home else look_at)(poll)
        finally:
            knowledge.workspaces_known = known
            knowledge.workspaces_polled.done(good=known)

    return Sweep(name="workspaces", interval=interval, run=run)


def with_unread(
    found: Iterable[str], known: Iterable[str], *, malformed: int, named: Collection[str] = ()
) -> tuple[str, ...]:
    """The ids of a list, and where rows of it could not be read those that were known: each may be one of these rows.

    Nothing is gone for a row that is broken; what is really gone is refused when it is asked for. `named` are ids that
    the list did tell of, found or left out on purpose. Where more are missing than rows are broken, some are surely
    gone: then none is kept, for it cannot be told which.
    """
    wanted = tuple(found)
    unseen = [one for one in known if one not in wanted and one not in named]
    return (*wanted, *unseen) if 0 < len(unseen) <= malformed else wanted


def jobs_sweep(knowledge: Knowledge, *, interval: float, at_once: int, read: ReadJobs) -> Sweep:
    """The collector of jobs; `read` takes over one workspace's live jobs into its page of the book, and publishes them.

    It returns what asks how jobs ended, if there is anything to ask. That is called when all workspaces have been read,
    so no live job waits for it.
    """
    book = knowledge.book

    async def run(poll: Poll) -> None:
        ends: dict[str, ReadEnds] = {}
        now = asyncio.get_running_loop().time()
        until = now + _FOR_LIVE * (poll.deadline - now)

        async def read_live(part: Part) -> None:
            if asyncio.get_running_loop().time() > until:
                raise DeadlineExceeded("not read within the time of a poll")
            if (asks := await read(part)) is not None:
                ends[ends_of(part)] = asks

        async def read_ends(part: Part) -> None:
            await ends[part.key]()

        knowledge.jobs_polled.begin()
        known = whole = False
        count = NONE_READ
        try:
            division, all_ids = knowledge.division, await knowledge.workspaces()
            await division.measure(poll, all_ids)
            workspace_ids, unsized = division.swept(all_ids), division.unsized(all_ids)
            poll.keep_only([*workspace_ids, *unsized])
            book.keep_only([*workspace_ids, *division.elsewhere(all_ids)])
            # Those that were not read for longest come first: where not all fit into a poll, all have their turn.
            ordered = sorted(workspace_ids, key=lambda key: book.workspace(key).read_at)
            read_ids = await poll.read_each(ordered, read_live, at_once=at_once)
            count = ReadCount(len(read_ids), len(workspace_ids) + len(unsized))
            known, whole = bool(count.read) or not count.wanted, count.read == count.wanted
        finally:
            knowledge.jobs_known, knowledge.jobs_read = known, count
            knowledge.jobs_polled.done(good=known, whole=whole)
        await poll.read_each(ends, read_ends, at_once=at_once)

    return Sweep(name="jobs", interval=interval, run=run, expired=book.expire)


def deadline_for_ends(part: Part) -> float:
    """The deadline (loop time) of calls that find out how jobs ended: it leaves time to show what was found."""
    now = asyncio.get_running_loop().time()
    return now + _FOR_ENDS * (part.deadline - now)


def ends_of(part: Part) -> str:
    """What is reported as failed (`Part.failed`) where it could not be found out how jobs of a workspace ended."""
    return f"ended jobs of {part.key}"


def jobs_elsewhere_sweep(knowledge: Knowledge, *, interval: float, at_once: int, read: Read) -> Sweep:
    """The collector of the live jobs that other shards show, for what is asked for the whole account; `read` takes over
    those of one workspace into its page of the book, and shows nothing."""
    book, turns, polled = knowledge.book, Turns(), Groundwork()
    knowledge.elsewhere_polled, knowledge.elsewhere_known = polled, False
    knowledge.elsewhere_read = NONE_READ

    async def run(poll: Poll) -> None:
        polled.begin()
        known = whole = False
        count = NONE_READ
        try:
            division, all_ids = knowledge.division, await knowledge.workspaces()
            await division.measure(poll, all_ids)
            workspace_ids = division.elsewhere(all_ids)
            poll.keep_only(workspace_ids)
            read_ids = await poll.read_each(turns.order(workspace_ids), read, at_once=at_once)
            turns.read(read_ids)
            count = ReadCount(len(read_ids), len(workspace_ids))
            known, whole = bool(count.read) or not count.wanted, count.read == count.wanted
        finally:
            knowledge.elsewhere_known, knowledge.elsewhere_read = known, count
            polled.done(good=known, whole=whole)

    return Sweep(name="jobs_elsewhere", interval=interval, run=run, expired=book.expire)


def each_sweep(
    name: str, *, interval: float, at_once: int, keys: Callable[[], Awaitable[Sequence[str]]], read: Read
) -> Sweep:
    """A collector with a part for each of `keys` (workspaces, pools), which may raise NotReady."""
    turns = Turns()

    async def run(poll: Poll) -> None:
        wanted = await keys()
        poll.keep_only(wanted)
        turns.read(await poll.read_each(turns.order(wanted), read, at_once=at_once))

    return Sweep(name=name, interval=interval, run=run)
