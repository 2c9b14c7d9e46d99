"""Reading answers: bounded in bytes and in values before anything is decoded, and JSON or nothing.

    wire ──whole, or over the limit──► inflated and counted piece by piece ──over a limit──► refused
                                           └──whole──► decoded, once

A few bytes can inflate to millions of values, and each takes some hundred bytes when decoded. So values are counted
before they are made, and of the answers that are longer than one piece only one at a time is inflated and decoded. The
payload is then the caller's: it must be let go before the caller waits for anything, or the next answer comes on top.
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
from trainfleet_exporter.process.yielding import yield_to_loop
from trainfleet_exporter.transport.calls import NOT_JSON, BodyLimits

_MIB = 2**20
_SLICE_BYTES = 256 * 1024
"""Bytes that are inflated or counted at a time: about a millisecond's work."""
_SHORT_BODY_BYTES = _MIB
"""Bytes of a body, as they come, that every call may hold at the same time."""
_LARGE_BODIES = 4
"""Of 32 MiB each at most; several, so that a slow one does not stop all the others."""
_GZIP_WINDOW = 31  # zlib's word for: a gzip header and trailer, largest window
_decode = msgspec.json.Decoder().decode
_SURROGATES = re.compile(rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})")
"""A surrogate pair or half of one, where each backslash begins an escape. It begins with `\\u` and nothing else: so
the search is 20 times faster than one for halves alone."""
_BOTH_HALVES = len(rb"\ud83d\ude00")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode() * 3  # as many as half a pair would have bytes
_MOST_ESCAPES = 200_000
"""Of surrogates, or of backslashes, that are looked through for halves of pairs: some 40 ms of the event loop."""


class _LargeAnswers:
    """What the large answers of one event loop wait for, whichever provider reads them."""

    def __init__(self) -> None:
        self.bodies = asyncio.Semaphore(_LARGE_BODIES)
        """Held while a large body is received and until it is decoded."""
        self.decoding = asyncio.Lock()
        """Held while a large body is inflated and decoded. Waiting for the network, or for `bodies`, with it would
        make the others time out."""


_LARGE_ANSWERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _LargeAnswers] = WeakKeyDictionary()


def _large_answers() -> _LargeAnswers:
    return _LARGE_ANSWERS.setdefault(asyncio.get_running_loop(), _LargeAnswers())


async def read_wire(stream: AsyncIterable[bytes], limits: BodyLimits, until_decoded: AsyncExitStack) -> bytes:
    """The whole body as it comes. BadAnswer if it is over the limit. Errors of the stream pass.

    A long one waits until fewer than four others are received or decoded; `until_decoded` keeps its place.
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
        wire.clear()  # an error keeps what was in use when it was raised


async def unpack(wire: bytes, encoding: str, limits: BodyLimits, until_decoded: AsyncExitStack) -> bytes:
    """The body, inflated where `encoding` (the Content-Encoding) is gzip, and fit to be decoded.

    A long one waits until no other is decoded; `until_decoded` keeps its place.
    BadAnswer if it is over a limit, in another encoding, or no single whole gzip member.
    """
    await yield_to_loop()  # what is made of an answer is a slice of work, and many may come at once
    match encoding.strip().lower():
        case "" | "identity":
            inflates = False
        case "gzip" | "x-gzip":
            inflates = bool(wire)  # errors and 204s often name an encoding and have no body at all
        case _:
            raise BadAnswer("the answer is encoded otherwise than in gzip, which was asked for")
    pieces: Iterator[bytes | memoryview] = (
        Inflater(limits.decoded).inflate(wire) if inflates else _cut(wire, limits.decoded)
    )
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
            if len(piece) == _SLICE_BYTES:
                await yield_to_loop()  # a bomb must not hold up the loop
        return b"".join(body) if inflates else wire
    finally:
        body.clear()  # see read_wire
        uncounted.clear()


def values_of(body: bytes | memoryview) -> int:
    """How many values a body has at most: its commas and opening brackets."""
    return sum(map(bytes(body).count, b",[{"))


def _cut(wire: bytes, limit: int) -> Iterator[memoryview]:
    if len(wire) > limit:
        raise BadAnswer(f"the answer is over the limit of {_size(limit)}")
    for start in range(0, len(wire), _SLICE_BYTES):
        yield memoryview(wire)[start : start + _SLICE_BYTES]


class Inflater:
    """Inflates one gzip member to `limit` bytes at most, however small the bomb."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._zlib = zlib.decompressobj(_GZIP_WINDOW)

    def inflate(self, wire: bytes) -> Iterator[bytes]:
        """The inflated bytes piece by piece; BadAnswer if they go over the limit or are no whole gzip member."""
        while True:
            size = min(_SLICE_BYTES, self._left + 1)
            try:
                data = self._zlib.decompress(wire, size)
            except zlib.error:
                raise BadAnswer("the answer says gzip and is not") from None
            self._left -= len(data)
            if self._left < 0:
                raise BadAnswer(f"the answer is over the limit of {_size(self._limit)} when inflated")
            if self._zlib.unused_data:
                raise BadAnswer("the gzip answer has something behind its end")
            wire = self._zlib.unconsumed_tail
            if data:
                yield data
            if not wire and len(data) < size:  # else there is more, if only within zlib
                break
        if not self._zlib.eof:  # its checksum included
            raise BadAnswer("the gzip answer is cut off")


def decode_json(body: bytes) -> Any:
    """The JSON value of a body, or NOT_JSON: bad UTF-8, nesting or digits beyond reason, anything else.

    NaN and Infinity, which JSON does not have and some encoders write, are let through: the reader of that value
    drops it, and the rest of the answer is kept.

    Half a surrogate pair, which JSON allows and no encoder takes, becomes U+FFFD, so that one broken name cannot
    break what it is shown in.
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
        # An escaped backslash begins no escape. JSON has no zero bytes, so that they can stand for those meanwhile.
        body = _SURROGATES.sub(_whole, body.replace(rb"\\", b"\0")).replace(b"\0", rb"\\")
        with suppress(ValueError, RecursionError):  # it takes a tenth of the time of what follows
            return _decode(body)
    try:
        # Decoded here: given bytes, json.loads lets encoded surrogates pass.
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return NOT_JSON


def _whole(found: re.Match[bytes]) -> bytes:
    """What stands for a surrogate pair, or for half of one."""
    return found[0] if len(found[0]) == _BOTH_HALVES else _REPLACEMENT


def _size(limit: int) -> str:
    return f"{limit // _MIB} MiB" if limit % _MIB == 0 else f"{limit} bytes"
