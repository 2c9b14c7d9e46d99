"""Reading answers: bounded on the wire and after inflating, and JSON or nothing."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import AsyncIterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.slices import give_way
from trainfleet_exporter.transport.calls import NOT_JSON

_MIB = 2**20
_PIECE = 256 * 1024
"""Bytes that are inflated at a time: about a millisecond's work."""
_GZIP_WINDOW = 31  # zlib's word for: a gzip header and trailer, largest window
_decode = msgspec.json.Decoder().decode
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Bytes of one answer that are read at most: a page of 100 rows is far below 1 MiB."""

    wire: int = 32 * _MIB
    decoded: int = 32 * _MIB


async def read_body(stream: AsyncIterable[bytes], encoding: str, limits: BodyLimits) -> bytes:
    """The whole body, inflated where `encoding` (the Content-Encoding) is gzip.

    BadAnswer if it is over a limit, in another encoding, or no single whole gzip member. Errors of the stream pass.
    """
    match encoding.strip().lower():
        case "" | "identity":
            inflater = None
        case "gzip" | "x-gzip":
            inflater = Inflater(limits.decoded)
        case _:
            raise BadAnswer("the answer is encoded otherwise than in gzip, which was asked for")
    body = bytearray()
    wire = 0
    try:
        async for chunk in stream:
            wire += len(chunk)
            if wire > limits.wire:
                raise BadAnswer(f"the answer is over the limit of {_size(limits.wire)} on the wire")
            if inflater is None:
                body += chunk
            else:
                for piece in inflater.feed(chunk):
                    body += piece
                    await give_way()  # a bomb must not hold up the loop
            if len(body) > limits.decoded:
                raise BadAnswer(f"the answer is over the limit of {_size(limits.decoded)}")
        if inflater and wire:  # errors and 204s often name an encoding and have no body at all
            inflater.finish()
        return bytes(body)
    finally:
        body.clear()  # an error keeps what was in use when it was raised


class Inflater:
    """Inflates one gzip member to `limit` bytes at most, however small the bomb."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._zlib = zlib.decompressobj(_GZIP_WINDOW)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The inflated bytes of one chunk, piece by piece; BadAnswer if they go over the limit or are no gzip."""
        if self._zlib.eof and chunk:
            raise BadAnswer("the gzip answer has something behind its end")
        while True:
            size = min(_PIECE, self._left + 1)
            try:
                data = self._zlib.decompress(chunk, size)
            except zlib.error:
                raise BadAnswer("the answer says gzip and is not") from None
            self._left -= len(data)
            if self._left < 0:
                raise BadAnswer(f"the answer is over the limit of {_size(self._limit)} when inflated")
            if self._zlib.unused_data:
                raise BadAnswer("the gzip answer has something behind its end")
            chunk = self._zlib.unconsumed_tail
            yield data
            if not chunk and len(data) < size:  # else there is more, if only within zlib
                return

    def finish(self) -> None:
        """BadAnswer unless the member came whole, its checksum included."""
        if not self._zlib.eof:
            raise BadAnswer("the gzip answer is cut off")


def decode_json(body: bytes) -> Any:
    """The JSON value of a body, or NOT_JSON: bad UTF-8, nesting or digits beyond reason, anything else.

    NaN and Infinity, which JSON does not have and some encoders write, are let through: whoever reads the one value
    drops it, and the rest of the answer is kept.

    Half a surrogate pair, which JSON allows and no encoder takes, becomes U+FFFD, so that one broken name cannot
    break what it is shown in.
    """
    try:
        return _decode(body)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors; it takes what is strictly JSON, and whole
        return _decode_leniently(body)


def _decode_leniently(body: bytes) -> Any:
    """See decode_json; about half as fast, and some ten times where there are surrogates."""
    try:
        # Decoded here: given bytes, json.loads lets encoded surrogates pass.
        payload = json.loads(body.decode("utf-8-sig"))
        if _SURROGATE_ESCAPE.search(body):
            text = json.dumps(payload, ensure_ascii=False)
            payload = json.loads(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return NOT_JSON
    return payload


def _size(limit: int) -> str:
    return f"{limit // _MIB} MiB" if limit % _MIB == 0 else f"{limit} bytes"
