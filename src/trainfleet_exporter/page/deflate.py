"""Compresses pages with isal, or with zlib if isal has no wheel for the platform.

Measured on sample lines, compared with zlib's level 6: isal takes a twelfth of the time and makes 5 % more bytes;
zlib's level 1 takes half of the time and makes 10 % more.
"""

from __future__ import annotations

import zlib
from types import ModuleType

codec: ModuleType
"""A module with compressobj, crc32 and the flush modes of zlib."""

try:
    from isal import isal_zlib
    from isal.isal_zlib import crc32_combine
except ImportError:
    from trainfleet_exporter.page.zlib_crc import crc32_combine

    codec = zlib
else:
    codec = isal_zlib

__all__ = ["Deflater", "crc32_combine"]

_LEVEL = 1


class Deflater:
    """Makes raw deflate blocks of some data. They can be joined with blocks of other data.

    isal compresses 256 KB in about a third of a millisecond. Compressing lets other threads run.
    """

    def __init__(self) -> None:
        self._compressor = codec.compressobj(_LEVEL, codec.DEFLATED, -zlib.MAX_WBITS)
        self._blocks: list[bytes] = []
        self.crc = 0
        """CRC-32 of the data."""
        self.size = 0
        """Bytes of the data."""

    def add(self, data: bytes) -> None:
        """Compress more data."""
        self._blocks.append(self._compressor.compress(data))
        self.crc = codec.crc32(data, self.crc)
        self.size += len(data)

    def finish(self, *, last: bool) -> bytes:
        """Return the blocks: they end on a byte border, and with the final block if they are the `last` of a stream."""
        self._blocks.append(self._compressor.flush(codec.Z_FINISH if last else codec.Z_FULL_FLUSH))
        return b"".join(self._blocks)
