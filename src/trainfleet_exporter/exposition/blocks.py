"""A page and its body: immutable blocks in the order of the families."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from trainfleet_exporter.exposition.formats import Format

codec: ModuleType = zlib
"""What compresses. Measured on sample lines, compared with zlib's level 6: isal takes a twelfth of the time and makes
5 % more bytes; zlib's level 1 takes half of the time and makes 10 % more."""
try:
    from isal import isal_zlib
except ImportError:  # it has no wheel for this platform
    pass
else:
    codec = isal_zlib

_LEVEL = 1
CHUNK_BYTES = 256 << 10
"""Bytes to join at a time, for compression or writing. Chunks of 1 MB are too large for the processor's cache: scrapes
took 50 % longer. A connection with TLS holds unsent bytes about four times."""
_GZIP_HEADER = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255])
"""Deflate, no flags, no time, unknown system: a page has no name and no date."""


def chunks(texts: Iterable[bytes], limit: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Join texts into chunks of at most `limit` bytes, and cut those that are longer. Keeps no reference to chunks that
    it has returned."""
    run: list[bytes] = []
    size = 0
    for text in texts:
        if size and size + len(text) > limit:
            chunk, run, size = b"".join(run), [], 0
            yield chunk
        start = 0
        while len(text) - start > limit:
            yield text[start : start + limit]
            start += limit
        run.append(text[start:])
        size += len(text) - start
    if size:
        yield b"".join(run)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The samples of one family, or its head: the texts of the parts, and the same as raw deflate."""

    texts: tuple[bytes, ...]
    deflated: bytes
    crc: int
    """CRC-32 of the texts."""
    size: int
    """Bytes of the texts."""

    @classmethod
    def of(cls, texts: Iterable[bytes], *, last: bool = False) -> Block:
        """Compress the texts into blocks that can be joined with those of others; `last` ends the stream. Other threads
        can run most of the time."""
        kept, crc, size = tuple(texts), 0, 0
        compressor = codec.compressobj(_LEVEL, codec.DEFLATED, -zlib.MAX_WBITS)
        deflated: list[bytes] = []
        for chunk in chunks(kept):
            deflated.append(compressor.compress(chunk))
            crc = codec.crc32(chunk, crc)
            size += len(chunk)
        deflated.append(compressor.flush(codec.Z_FINISH if last else codec.Z_FULL_FLUSH))
        return cls(kept, b"".join(deflated), crc, size)

    def add_to(self, crc: int) -> int:
        """Return the CRC-32 of what has this one, followed by the texts."""
        if codec is not zlib:
            combined: int = codec.crc32_combine(crc, self.crc, self.size)
            return combined
        for text in self.texts:  # Python's zlib cannot combine
            crc = zlib.crc32(text, crc)
        return crc


Heads = Mapping[Format, Mapping[str, Block]]


class Body(NamedTuple):
    """The body of a response: the texts of each block in order, and the text made for this response only."""

    units: Sequence[tuple[bytes, ...]]
    own: tuple[bytes, ...]
    size: int
    """Content-Length."""

    def joined(self) -> bytes:
        """The whole body as one text; not for large pages."""
        return b"".join([text for unit in (*self.units, self.own) for text in unit])


@dataclass(frozen=True, slots=True, eq=False)
class MetricsPage:
    """One state of all published samples."""

    number: int
    """Higher for a newer state. Pages of one store with the same number have the same samples."""
    heads: Heads
    families: Mapping[str, Block] = field(default_factory=dict)
    """The samples of each family that has any, in the order of the page."""
    standing: Any = None
    """How the exporter polled at that moment: an immutable value."""
    objects: Sequence[tuple[str, Sequence[object]]] = ()
    """The objects that the status page counts, part by part, each with the name of its provider."""

    def body(self, fmt: Format, own: bytes, *, gzip: bool) -> Body:
        """The page in one format, followed by `own` and the format's end.

        `own` is text made at scrape time in the same format, whole lines, with or without the end mark of OpenMetrics.
        It must not have families of the page. Only `own` is compressed here.
        """
        heads = self.heads[fmt]
        blocks = [block for family, samples in self.families.items() for block in (heads[family], samples)]
        end = own.removesuffix(fmt.end) + fmt.end
        if gzip:
            return _gzip(blocks, Block.of((end,), last=True))
        return Body([block.texts for block in blocks], (end,), sum(block.size for block in blocks) + len(end))


def _gzip(blocks: list[Block], last: Block) -> Body:
    """One gzip member."""
    crc = size = 0
    for block in (*blocks, last):
        crc = block.add_to(crc)
        size += block.size
    trailer = crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    units = [(_GZIP_HEADER,), *((block.deflated,) for block in blocks)]
    own = (last.deflated, trailer)
    return Body(units, own, sum(len(text) for unit in (*units, own) for text in unit))
