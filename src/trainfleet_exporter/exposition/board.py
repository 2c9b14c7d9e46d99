"""What is published now: samples family by family, part by part; and the newest page of it that is ready to be sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Any

from trainfleet_exporter.exposition.deflater import Deflater
from trainfleet_exporter.exposition.formats import Format, head
from trainfleet_exporter.exposition.piece import PIECE_LIMIT, Piece
from trainfleet_exporter.exposition.shelf import Shelf
from trainfleet_exporter.exposition.snapshot import Snapshot
from trainfleet_exporter.families import FAMILIES, Family
from trainfleet_exporter.slices import answering, give_way

log = logging.getLogger(__name__)

_SLICE_SECONDS = 0.001
_AT_ONCE = PIECE_LIMIT // 16
"""Bytes that a scrape itself makes ready, in half a millisecond, so that it sends what was published this moment."""
_REST = 9
"""How many times as long as it took to make a page ready the next one has to wait: a tenth of the time goes into it."""
_LONGEST_REST = 1.0
"""Seconds."""
_LONGEST_PIECE = 60.0
"""Seconds for which a piece that is overdue goes before polls, at most."""
_OVERDUE = 5.0
"""Seconds after which slices of other work wait while a page is deflated, for half of the time: on a single core that
they fill, the threads that deflate would have next to nothing of it."""
_PASSES = 3
"""How often what changed while others had their turn is joined in slices; the rest of it is then joined in one."""


class Board:
    """Holds the latest samples of every part. Belongs to one event loop and is not for threads.

    A part is whatever is replaced whole (a workspace's jobs, the pools, one job's pods), named by any hashable key
    that its owner chooses. What changed is joined and deflated when a page of it is asked for; or ahead of that, where
    somebody runs `keep_ready`, so that a scrape finds all of it done:

        put, drop ──► what is published ──snapshot()──► a page of it, as it is this moment
                                        ──keep_ready()──► the newest page that is ready ──page()──► a scrape
    """

    def __init__(
        self,
        families: Sequence[Family] = FAMILIES,
        limit: int = PIECE_LIMIT,
        beside: Callable[[], Any] = lambda: None,
    ) -> None:
        """`limit` is the size in bytes up to which small parts of a family are kept in one chunk. `beside` tells what
        has to be as old as the page that it is sent with: how fresh its samples are, above all."""
        self._shelves = {family.name: Shelf(limit) for family in families}
        self._heads = {fmt: {family.name: Piece(head(family, fmt)) for family in families} for fmt in Format}
        self._families: dict[Hashable, tuple[str, ...]] = {}
        """What each part has samples of."""
        self._series: dict[Hashable, int] = {}
        self._beside = beside
        self._deflater = Deflater()
        self._snapshot = Snapshot((), self._heads, self._deflater)
        """The newest page; none that was sent is newer."""
        self._ready: Snapshot | None = None
        self._changed = asyncio.Event()
        self._fails = False
        """Whether no page could be made ready when that was last tried."""
        self._making = asyncio.Lock()
        """Of who makes a page ready: two at once would each deflate all of it."""

    def put(self, part: Hashable, rendered: Mapping[str, Sequence[bytes] | None]) -> None:
        """Replaces the part whole by rendered samples (as a `Renderer` gives them): families that are not in `rendered`
        lose what the part had in them, and those that are None there keep it. A reader sees all of the change or
        nothing.

        Raises KeyError, and changes nothing, for a family that the board does not know.
        """
        unknown = rendered.keys() - self._shelves.keys()
        if unknown:
            raise KeyError(f"no such family: {', '.join(sorted(unknown))}")
        for family in self._families.get(part, ()):
            if family not in rendered:
                self._shelves[family].replace(part, ())
        self._families[part] = tuple(rendered)
        for family, texts in rendered.items():
            if texts is not None:
                self._shelves[family].replace(part, texts)
        self._series[part] = sum([self._shelves[family].lines(part) for family in rendered])
        self._changed.set()

    def drop(self, part: Hashable) -> None:
        """Takes the part off the page. A part that is not there is no error."""
        self.put(part, {})
        del self._series[part], self._families[part]

    def series(self, part: Hashable) -> int:
        """Number of series (sample lines) that the part has on the page."""
        return self._series.get(part, 0)

    def snapshot(self) -> Snapshot:
        """The page as it is now; the same object as before while nothing changed."""
        if any(shelf.stale for shelf in self._shelves.values()):
            pages = ((family, shelf.pieces()) for family, shelf in self._shelves.items())
            families = tuple([(family, pieces) for family, pieces in pages if pieces])
            self._snapshot = Snapshot(families, self._heads, self._deflater, self._snapshot.number + 1)
        self._snapshot.beside = self._beside()
        return self._snapshot

    def page(self) -> Snapshot:
        """What a scrape sends: the page as it is now, where little or nothing of it is still to be made ready; else the
        newest that is ready, which is some seconds old at most."""
        if self._ready is None:
            return self.snapshot()
        if sum([shelf.unready for shelf in self._shelves.values()]) <= _AT_ONCE:
            self._ready = self.snapshot()  # so that no later page is older than this
        return self._ready

    async def settled(self) -> None:
        """Have a page ready that shows what is published now."""
        page = await self._make_ready()
        if self._ready is not None:
            self._ready = _newer(page, self._ready)

    async def keep_ready(self, made: Callable[[Snapshot], None] = lambda page: None) -> None:
        """Make pages ready, as things change, until cancelled. `made` is told of each new one.

        While that fails (no memory, no thread to be had), each scrape makes its page itself.
        """
        self._ready = self._snapshot
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                began = perf_counter()
                page = await self._renew()
                if page is not None:
                    made(page)
                    # Parts that share a chunk have it deflated anew with every change of one of them.
                    rest = min(_REST * (perf_counter() - began), _LONGEST_REST)
                else:
                    self._changed.set()
                    rest = _LONGEST_REST
                del page  # which would be held until the next is made
                await asyncio.sleep(rest)
        finally:
            self._ready = None

    async def _renew(self) -> Snapshot | None:
        """Have scrapes sent a new page; None where none can be made."""
        try:
            page = await self._make_ready()
        except Exception:
            if not self._fails:
                log.exception("no page can be made ready ahead of scrapes; told once while it lasts")
            self._fails, self._ready = True, None
            return None
        self._fails, self._ready = False, _newer(page, self._snapshot if self._ready is None else self._ready)
        return self._ready

    async def _make_ready(self) -> Snapshot:
        """Join in slices, deflate piece by piece in a thread; scrapes go before each. A put that comes in between is on
        the page or not, as a whole."""
        async with self._making:
            began = perf_counter()
            for _ in range(_PASSES):
                if not await self._join():
                    break
            page = self.snapshot()
            for piece in page.undeflated():
                await give_way()
                with answering(_LONGEST_PIECE) if perf_counter() - began >= _OVERDUE else nullcontext():
                    await self._deflater.run(piece.deflate)
            for fmt in Format:
                await give_way()
                await page.deflated(fmt)
                page.pieces(fmt)
            return page

    async def _join(self) -> bool:
        """Join what is to be joined; whether there was so much that others had their turn meanwhile."""
        yielded = False
        began = perf_counter()
        for shelf in self._shelves.values():
            for _ in shelf.join():
                if perf_counter() - began >= _SLICE_SECONDS:
                    yielded = True
                    await give_way()
                    began = perf_counter()
        return yielded


def _newer(page: Snapshot, other: Snapshot) -> Snapshot:
    return page if page.number >= other.number else other
