"""Reads responses. It limits bytes and values before it decodes anything, and accepts only JSON.

    wire ──whole, or over the limit──► inflated and counted piece by piece ──over a limit──► refused
                                           └──whole──► decoded, once

A few bytes can inflate to millions of values, and each takes about a hundred bytes when decoded. So the reader counts
values before it makes them. It inflates and decodes only one response longer than a piece at a time. The caller must
release the payload before it waits for anything. Otherwise two payloads are in memory.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import AsyncIterable, Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.transport.calls import NOT_JSON, BodyLimits

_MIB = 2**20
_SLICE_BYTES = 256 * 1024
"""Bytes that the reader inflates or counts at a time: about a millisecond of work."""
_SHORT_BODY_BYTES = _MIB
"""Received bytes of a body that every call may hold at the same time."""
_LARGE_BODIES = 4
"""At most 32 MiB each. Several, so that a slow one does not stop the others."""
_GZIP_WINDOW = 31  # for zlib: a gzip header and trailer, largest window
_decode = msgspec.json.Decoder().decode
_SURROGATES = re.compile(rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})")
"""A surrogate pair or half of one, where each backslash begins an escape. It begins with `\\u` and nothing else: so
the search is 20 times faster than one for halves alone."""
_BOTH_HALVES = len(rb"\ud83d\ude00")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode() * 3  # as many as half a pair would have bytes
_MOST_ESCAPES = 200_000
"""Of surrogates, or of backslashes, that are looked through for halves of pairs: some 40 ms of the event loop."""


class _LargeAnswers:
    """The locks of large responses, shared by all providers of one event loop."""

    def __init__(self) -> None:
        self.bodies = asyncio.Semaphore(_LARGE_BODIES)
        """Held from the first byte of a large body until it is decoded."""
        self.decoding = asyncio.Lock()
        """Held while a large body is inflated and decoded. Waiting for the network, or for `bodies`, with it would
        make the others time out."""


_LARGE_ANSWERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _LargeAnswers] = WeakKeyDictionary()


def _large_answers() -> _LargeAnswers:
    return _LARGE_ANSWERS.setdefault(asyncio.get_running_loop(), _LargeAnswers())


async def read_wire(stream: AsyncIterable[bytes], limits: BodyLimits, until_decoded: AsyncExitStack) -> bytes:
    """Read the whole body as received. Raise BadAnswer if it exceeds the limit. Errors of the stream pass through.

    A long body waits until fewer than four others are received or decoded; `until_decoded` keeps its place.
    """
    wire: list[bytes] = []
    size = 0
    try:
        async for chunk in stream:
            was_short = size <= _SHORT_BODY_BYTES
            wire.append(chunk)
            size += len(chunk)
            if was_short and size > _SHORT_BODY_BYTES:
                await until_decoded.enter_async_context(_large_answers().bodies)
            if size > limits.wire:
                raise BadAnswer(f"the answer is over the limit of {_size(limits.wire)} on the wire")
        return b"".join(wire)
    finally:
        wire.clear()  # an error would keep the buffers of its frames in memory


async def unpack(wire: bytes, encoding: str, limits: BodyLimits, until_decoded: AsyncExitStack) -> bytes:
    """Inflate the body if `encoding` (the Content-Encoding) is gzip, and check it before decoding.

    A long body waits until no other is decoded; `until_decoded` keeps its place. Raise BadAnswer if it exceeds a limit,
    has another encoding, or is not one complete gzip member.
    """
    match encoding.strip().lower():
        case "" | "identity":
            inflates = False
        case "gzip" | "x-gzip":
            inflates = bool(wire)  # errors and 204s often name an encoding without having a body
        case _:
            raise BadAnswer("the answer has another encoding than gzip")
    pieces: Iterator[bytes | memoryview] = _inflate(wire, limits.decoded) if inflates else _cut(wire, limits.decoded)
    body: list[bytes] = []
    uncounted: list[bytes | memoryview] = []
    size = values = 0
    try:
        for number, piece in enumerate(pieces):
            if number == 1:
                await until_decoded.enter_async_context(_large_answers().decoding)
            if isinstance(piece, bytes):
                body.append(piece)
            uncounted.append(piece)
            size += len(piece)
            if size > 2 * limits.values:  # a shorter body cannot have more: each takes two bytes, but for the last
                values += sum(map(values_of, uncounted))
                uncounted.clear()
            if values > limits.values:
                raise BadAnswer(f"the answer is over the limit of {limits.values:,} values")
        return b"".join(body) if inflates else wire
    finally:
        body.clear()  # see read_wire
        uncounted.clear()


def values_of(body: bytes | memoryview) -> int:
    """Return the most values that a body can have: its commas and opening brackets."""
    return sum(map(bytes(body).count, b",[{"))


def _cut(wire: bytes, limit: int) -> Iterator[memoryview]:
    if len(wire) > limit:
        raise BadAnswer(f"the answer is over the limit of {_size(limit)}")
    for start in range(0, len(wire), _SLICE_BYTES):
        yield memoryview(wire)[start : start + _SLICE_BYTES]


def _inflate(wire: bytes, limit: int) -> Iterator[bytes]:
    """Yield the bytes of one gzip member piece by piece. Raise BadAnswer if they exceed the limit, or if the member is
    incomplete."""
    inflater, left = zlib.decompressobj(_GZIP_WINDOW), limit
    while True:
        size = min(_SLICE_BYTES, left + 1)
        try:
            data = inflater.decompress(wire, size)
        except zlib.error:
            raise BadAnswer("the answer is not gzip, although its header says so") from None
        left -= len(data)
        if left < 0:
            raise BadAnswer(f"the answer is over the limit of {_size(limit)} when inflated")
        if inflater.unused_data:
            raise BadAnswer("the gzip answer has bytes after its end")
        wire = inflater.unconsumed_tail
        if data:
            yield data
        if not wire and len(data) < size:  # else there is more, perhaps within zlib only
            break
    if not inflater.eof:  # its checksum included
        raise BadAnswer("the gzip answer is cut off")


def decode_json(body: bytes) -> Any:
    """Return the JSON value of a body, or NOT_JSON for anything else: bad UTF-8, extreme nesting or too many digits.

    NaN and Infinity are not JSON, but some encoders write them. They pass: the reader of that value drops it and keeps
    the rest of the response.

    JSON allows half a surrogate pair, but encoders reject it. It becomes U+FFFD, so that a broken name cannot break a
    page.
    """
    try:
        return _decode(body)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors; it takes what is strictly JSON, and whole
        return _decode_leniently(body)


def _decode_leniently(body: bytes) -> Any:
    """See decode_json; about half as fast."""
    if surrogates := body.count(rb"\ud") + body.count(rb"\uD"):
        if max(surrogates, body.count(rb"\\")) > _MOST_ESCAPES or b"\0" in body:
            return NOT_JSON
        # An escaped backslash begins no escape. Zero bytes replace them for now, because JSON has no zero bytes.
        body = _SURROGATES.sub(_whole, body.replace(rb"\\", b"\0")).replace(b"\0", rb"\\")
        with suppress(ValueError, RecursionError):  # a tenth of the time of the next step
            return _decode(body)
    try:
        # Decoded here: given bytes, json.loads lets encoded surrogates pass.
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return NOT_JSON


def _whole(found: re.Match[bytes]) -> bytes:
    """Return the text for a surrogate pair, or for half of one."""
    return found[0] if len(found[0]) == _BOTH_HALVES else _REPLACEMENT


def _size(limit: int) -> str:
    return f"{limit // _MIB} MiB" if limit % _MIB == 0 else f"{limit} bytes"
