"""A piece of a page: bytes that never change, with what can be computed of them once and kept."""

from __future__ import annotations

import zlib

from trainfleet_exporter.exposition.crc import crc_combine, shift

PIECE_LIMIT = 1 << 20
"""Bytes of a piece at most (a single longer line apart): what one scrape holds in a send buffer."""

_LEVEL = 6
"""Measured on pages like ours: as fast as level 4 within a tenth and 1 % smaller; 7 and up cost half as much again."""


class Piece:
    """Immutable bytes of a page with their checksum and their deflated form, both made once and on demand."""

    __slots__ = ("_crc", "_deflated", "_level", "_shift", "data")

    def __init__(self, data: bytes, level: int = _LEVEL) -> None:
        """`level` is zlib's: a lower one for what is sent once."""
        self.data = data
        self._level = level
        self._crc: int | None = None
        self._shift: int | None = None
        self._deflated: bytes | None = None

    @property
    def is_deflated(self) -> bool:
        """Whether the deflated form has been made."""
        return self._deflated is not None

    def crc(self, before: int = 0) -> int:
        """CRC-32 of the data, or of other data, which have this CRC-32 `before`, with these behind them."""
        if self._crc is None or self._shift is None:
            self._shift = shift(len(self.data))
            self._crc = zlib.crc32(self.data)
        return crc_combine(before, self._crc, self._shift)

    def deflate(self) -> None:
        """Have the checksum and the deflated form made, and what it takes to append them to a page. zlib lets other
        threads run meanwhile."""
        self.crc()
        self.deflated()

    def deflated(self) -> bytes:
        """Raw deflate blocks, none of them final, that end at a byte border and need nothing of what came before, so
        that any sequence of pieces can be joined. May be called from any thread: two at once do the work twice and
        come to the same bytes."""
        if self._deflated is None:
            deflater = zlib.compressobj(self._level, zlib.DEFLATED, -zlib.MAX_WBITS)
            self._deflated = deflater.compress(self.data) + deflater.flush(zlib.Z_FULL_FLUSH)
        return self._deflated
