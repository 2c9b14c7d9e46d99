"""A page and its body: immutable blocks in the order of the families."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trainfleet_exporter.page.deflate import Deflater, crc32_combine
from trainfleet_exporter.page.formats import Format

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
        """Compress the texts; `last` ends the stream. Other threads can run most of the time."""
        kept = tuple(texts)
        deflater = Deflater()
        for chunk in chunks(kept):
            deflater.add(chunk)
        return cls(kept, deflater.finish(last=last), deflater.crc, deflater.size)


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

    def samples(self, family: str) -> tuple[bytes, ...]:
        """The sample lines of one family; empty if it has none or is unknown."""
        block = self.families.get(family)
        return () if block is None else block.texts

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
        crc = crc32_combine(crc, block.crc, block.size)
        size += block.size
    trailer = crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    units = [(_GZIP_HEADER,), *((block.deflated,) for block in blocks)]
    own = (last.deflated, trailer)
    return Body(units, own, sum(len(text) for unit in (*units, own) for text in unit))
