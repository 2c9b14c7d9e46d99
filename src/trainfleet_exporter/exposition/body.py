"""The body of an answer on /metrics: a snapshot, then the exporter's telemetry about itself, then the page's end."""

from __future__ import annotations

import struct

from trainfleet_exporter.exposition.formats import Format
from trainfleet_exporter.exposition.piece import Piece
from trainfleet_exporter.exposition.snapshot import Snapshot, gathered

_GZIP_HEAD = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255])
"""Deflate, no flags, no time, unknown system: a page has neither name nor age."""
_QUICK = 3
"""On the exporter's own metrics: a quarter of the time of level 6, for a tenth more bytes."""
_FINAL_BLOCK = b"\x03\x00"
"""An empty block that says it is the last."""


async def body(snapshot: Snapshot, fmt: Format, gzip: bool, extra: bytes) -> list[bytes]:
    """The whole body in pieces; their lengths add up to Content-Length.

    `extra` is exposition text made at scrape time in the same format, whole lines, with or without the end mark of
    OpenMetrics. It must not have families that the snapshot has.
    """
    return list(await gzip_pieces(snapshot, fmt, extra) if gzip else plain_pieces(snapshot, fmt, extra))


def plain_pieces(snapshot: Snapshot, fmt: Format, extra: bytes) -> tuple[bytes, ...]:
    """The body as it is."""
    end = _end(fmt, extra)
    return (*snapshot.pieces(fmt), end) if end else snapshot.pieces(fmt)


async def gzip_pieces(snapshot: Snapshot, fmt: Format, extra: bytes) -> tuple[bytes, ...]:
    """The body as one gzip member. Only `extra`, and what changed since some snapshot was last deflated, is work."""
    page = await snapshot.deflated(fmt)
    end = Piece(_end(fmt, extra), level=_QUICK)
    size = page.size + len(end.data)
    trailer = struct.pack("<LL", end.crc(page.crc), size & 0xFFFFFFFF)
    return gathered([_GZIP_HEAD, *page.blocks, end.deflated(), _FINAL_BLOCK + trailer])


def _end(fmt: Format, extra: bytes) -> bytes:
    return extra.removesuffix(fmt.end) + fmt.end
