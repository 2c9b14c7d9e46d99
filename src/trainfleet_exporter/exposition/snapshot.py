"""What a scrape sends: a page as it was at one moment, in either format, never changing again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from trainfleet_exporter.exposition.crc import crc_combine
from trainfleet_exporter.exposition.formats import Format
from trainfleet_exporter.exposition.piece import PIECE_LIMIT, Piece

_SMALL = PIECE_LIMIT // 16
"""Pieces below this are sent together with their neighbours; above it a copy would cost more than a write."""


@dataclass(frozen=True, slots=True)
class Deflated:
    """Joined deflate blocks of a page without its end, and the CRC-32 and length of what they hold."""

    blocks: tuple[bytes, ...]
    crc: int
    size: int


class Snapshot:
    """An immutable page. `families` are the samples of each family that has any, in the order of the page."""

    def __init__(
        self,
        families: tuple[tuple[str, tuple[Piece, ...]], ...],
        heads: Mapping[Format, Mapping[str, Piece]],
        deflating: asyncio.Lock,
    ) -> None:
        self._families = families
        self._heads = heads
        self._plain: dict[Format, tuple[bytes, ...]] = {}
        self._deflated: dict[Format, Deflated] = {}
        self._deflating = deflating  # of the board: one thread deflates a piece, whoever asks first

    def pieces(self, fmt: Format) -> tuple[bytes, ...]:
        """The page up to, and without, its end: heads and samples in pieces of at most 1 MB. A family without samples
        has no head."""
        if fmt not in self._plain:
            self._plain[fmt] = gathered(piece.data for piece in self._parts(fmt))
        return self._plain[fmt]

    def samples(self, family: str) -> tuple[Piece, ...]:
        """The sample lines of one family; nothing where it has none, or is not known."""
        return next((pieces for name, pieces in self._families if name == family), ())

    async def deflated(self, fmt: Format, executor: Executor | None = None) -> Deflated:
        """The same, deflated. What an earlier snapshot had deflated is taken as it is; the rest is done in a thread (of
        the executor, or the loop's), which lets the event loop go on because zlib frees the interpreter lock."""
        if fmt not in self._deflated:
            async with self._deflating:
                if fmt not in self._deflated:
                    loop = asyncio.get_running_loop()
                    self._deflated[fmt] = await loop.run_in_executor(executor, _deflate, self._parts(fmt))
        return self._deflated[fmt]

    def _parts(self, fmt: Format) -> list[Piece]:
        heads = self._heads[fmt]
        return [part for family, samples in self._families for part in (heads[family], *samples)]


def _deflate(parts: list[Piece]) -> Deflated:
    crc = size = 0
    for part in parts:
        crc = crc_combine(crc, part.crc(), len(part.data))
        size += len(part.data)
    return Deflated(gathered(part.deflated() for part in parts), crc, size)


def gathered(texts: Iterable[bytes]) -> tuple[bytes, ...]:
    """The same bytes with runs of small ones joined, so that a page of many small families is few writes."""
    out: list[bytes] = []
    run: list[bytes] = []
    size = 0
    for text in texts:
        if size + len(text) > PIECE_LIMIT or len(text) >= _SMALL:
            if run:
                out.append(b"".join(run))
            run, size = [], 0
        if len(text) >= _SMALL:
            out.append(text)
        else:
            run.append(text)
            size += len(text)
    if run:
        out.append(b"".join(run))
    return tuple(out)
