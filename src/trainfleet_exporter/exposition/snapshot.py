"""What a scrape sends: a page as it was at one moment, in either format, never changing again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainfleet_exporter.exposition.deflater import Deflater
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
    """A page, which never changes. `families` are the samples of each family that has any, in the order of the page; of
    the pages of a board, the one with the higher `number` is newer."""

    def __init__(
        self,
        families: tuple[tuple[str, tuple[Piece, ...]], ...],
        heads: Mapping[Format, Mapping[str, Piece]],
        deflater: Deflater,
        number: int = 0,
    ) -> None:
        self.number = number
        self.beside: Any = None
        """What was true beside the page when it was last known to show all that is published (see `Board`)."""
        self._families = families
        self._heads = heads
        self._plain: dict[Format, tuple[bytes, ...]] = {}
        self._deflated: dict[Format, Deflated] = {}
        self._deflater = deflater

    def pieces(self, fmt: Format) -> tuple[bytes, ...]:
        """The page up to, and without, its end: heads and samples in pieces of at most 1 MB. A family without samples
        has no head."""
        if fmt not in self._plain:
            self._plain[fmt] = gathered(piece.data for piece in self._parts(fmt))
        return self._plain[fmt]

    def samples(self, family: str) -> tuple[Piece, ...]:
        """The sample lines of one family; nothing where it has none, or is not known."""
        return next((pieces for name, pieces in self._families if name == family), ())

    def undeflated(self) -> list[Piece]:
        """The samples that have not been deflated yet."""
        return [piece for _, samples in self._families for piece in samples if not piece.is_deflated]

    async def deflated(self, fmt: Format) -> Deflated:
        """The same, deflated. What an earlier snapshot had deflated is taken as it is; the rest is done in a thread,
        which lets the event loop go on because zlib frees the interpreter lock."""
        if fmt not in self._deflated:
            async with self._deflater.turn:
                if fmt not in self._deflated:
                    parts = self._parts(fmt)
                    is_ready = all(part.is_deflated for part in parts)  # then a thread would only be in the way
                    self._deflated[fmt] = _joined(parts) if is_ready else await self._deflater.run(_joined, parts)
        return self._deflated[fmt]

    def _parts(self, fmt: Format) -> list[Piece]:
        heads = self._heads[fmt]
        return [part for family, samples in self._families for part in (heads[family], *samples)]


def _joined(parts: list[Piece]) -> Deflated:
    crc = size = 0
    for part in parts:
        crc = part.crc(crc)
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
