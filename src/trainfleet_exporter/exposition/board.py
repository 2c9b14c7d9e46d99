"""What is published now: samples family by family, part by part."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence

from trainfleet_exporter.exposition.families import FAMILIES, Family
from trainfleet_exporter.exposition.formats import Format, head
from trainfleet_exporter.exposition.piece import PIECE_LIMIT, Piece
from trainfleet_exporter.exposition.shelf import Shelf
from trainfleet_exporter.exposition.snapshot import Snapshot


class Board:
    """Holds the latest samples of every part. Belongs to one event loop and is not for threads.

    A part is whatever is replaced whole (a workspace's jobs, the pools, one job's pods), named by any hashable key
    that its owner chooses. Nothing is joined or deflated before a snapshot is asked for, so that a thousand small
    changes between two scrapes cost one joining.
    """

    def __init__(self, families: Sequence[Family] = FAMILIES, limit: int = PIECE_LIMIT) -> None:
        """`limit` is the size in bytes up to which small parts of a family are kept in one chunk."""
        self._shelves = {family.name: Shelf(limit) for family in families}
        self._heads = {fmt: {family.name: Piece(head(family, fmt)) for family in families} for fmt in Format}
        self._series: dict[Hashable, int] = {}
        self._deflating = asyncio.Lock()
        self._snapshot = Snapshot((), self._heads, self._deflating)

    def put(self, part: Hashable, rendered: Mapping[str, Sequence[bytes]]) -> None:
        """Replaces the part whole by rendered samples (as `Renderer.render` gives them): families that are not in
        `rendered` lose what the part had in them. A reader sees all of the change or nothing.

        Raises KeyError, and changes nothing, for a family that the board does not know.
        """
        unknown = rendered.keys() - self._shelves.keys()
        if unknown:
            raise KeyError(f"no such family: {', '.join(sorted(unknown))}")
        for family, shelf in self._shelves.items():
            shelf.replace(part, rendered.get(family, ()))
        self._series[part] = sum(text.count(b"\n") for texts in rendered.values() for text in texts)

    def drop(self, part: Hashable) -> None:
        """Takes the part off the page. A part that is not there is no error."""
        self.put(part, {})
        del self._series[part]

    def series(self, part: Hashable) -> int:
        """Number of series (sample lines) that the part has on the page."""
        return self._series.get(part, 0)

    def snapshot(self) -> Snapshot:
        """The page as it is now; the same object as before while nothing changed."""
        if any(shelf.stale for shelf in self._shelves.values()):
            pages = ((family, shelf.pieces()) for family, shelf in self._shelves.items())
            families = tuple([(family, pieces) for family, pieces in pages if pieces])
            self._snapshot = Snapshot(families, self._heads, self._deflating)
        return self._snapshot
