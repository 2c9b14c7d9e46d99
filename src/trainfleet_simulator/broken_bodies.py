"""Responses whose body contradicts its headers or format."""

from __future__ import annotations

import asyncio
import functools
import gzip
import struct
import zlib
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import HTMLResponse, Response, StreamingResponse

from trainfleet_simulator.rows import TEXTS, read, rows_of, with_content, written

LOGIN = (
    "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>\n"
    '<form action="/login" method="post"><input name="user"><input name="password" type="password"></form>\n'
    "</body></html>\n"
)
_OVERSIZED = 50_000_000  # bytes
_CHUNK = b"x" * 65536
_DEPTH = 100_000
_BOMB_BLOCK = b" " * 2**20
_BOMB_BLOCKS = 1024
_MANY = 32 * 2**20  # bytes
_HALF = b'"\\ud83d"'
_UNITS = {
    "many_lists": (b"[],", b"[]"),
    "many_objects": (b'{"a":1},', b"{}"),
    "many_nans": (b"NaN,", b"NaN"),
    "many_surrogates": (b"[],", _HALF),
}
"""The repeated text, and the text at the end."""
_PADDING = b'{"padding":[%b%b%b%b],' % (b"[]," * 40_000, b'{"a":1},' * 40_000, b"NaN," * 80_000, _HALF)


def break_body(kind: str, answer: Response) -> Response | None:
    """Break a true response; None if it has nothing that this kind breaks."""
    match kind:
        case "html":
            return HTMLResponse(LOGIN)
        case "oversized":
            return _oversized()
        case "gzip_bomb":
            return _gzipped(_bomb(), answer)
        case "many_lists" | "many_objects" | "many_nans" | "many_surrogates":
            return _gzipped(_many(kind), answer)
        case "gzip_broken":
            whole = gzip.compress(bytes(answer.body), mtime=0)
            return _gzipped(whole[: len(whole) // 2], answer)
        case "gzip_false":
            return _gzipped(bytes(answer.body) or b"{}", answer)
        case "bad_utf8":
            return with_content(_with_bad_bytes(bytes(answer.body)), answer)
    try:
        body = read(answer)
    except ValueError:  # a text or nothing: there is no JSON to break
        return None
    return _of_json(kind, body, answer)


def _of_json(kind: str, body: Any, answer: Response) -> Response | None:
    match kind:
        case "padded":
            if not isinstance(body, dict) or not body:
                return None
            return _gzipped(gzip.compress(_PADDING + bytes(answer.body)[1:], 1, mtime=0), answer)
        case "null":
            return with_content(b"null", answer)
        case "deep":
            return with_content(b"[" * _DEPTH + b"]" * _DEPTH, answer)
        case "truncated":
            text = bytes(answer.body).decode()
            return with_content(text[: len(text) // 2].encode(), answer)
        case "wrong_top":
            return written([body] if isinstance(body, dict) else {"items": body}, answer)
        case "wrong_types":
            return written(other_types(body), answer)
    found = rows_of(body)
    if found is None or not found.all:
        return None
    found.replace([other_types(found.all[0]), *found.all[1:]])
    return written(body, answer)


def other_types(value: Any) -> Any:
    """Return an object whose fields have values of other types; for other values, a value of another type."""
    if isinstance(value, dict):
        # A field with JSON as text does not get another text.
        return {name: 7 if name in TEXTS else _of_another_type(inner) for name, inner in value.items()}
    return _of_another_type(value)


def _of_another_type(value: Any) -> Any:
    match value:
        case bool() | int() | float():
            return {"value": value}
        case str() | None:
            return [value]
        case dict():
            return 7
        case _:
            return "a text"


def _with_bad_bytes(body: bytes) -> bytes:
    """Insert invalid bytes into the first text, or at the start."""
    place = max(body.find(b'":"') + 3, 0) if b'":"' in body else 0
    return body[:place] + b"\xff\xfe\xc3(" + body[place:]


def _oversized() -> Response:
    head, tail = b'{"padding":"', b'"}'

    async def stream() -> AsyncIterator[bytes]:
        left = _OVERSIZED - len(head) - len(tail)
        yield head
        while left:
            chunk = _CHUNK[:left]
            left -= len(chunk)
            yield chunk
            await asyncio.sleep(0)  # notices that the client has gone
        yield tail

    headers = {"content-length": str(_OVERSIZED)}
    return StreamingResponse(stream(), headers=headers, media_type="application/json")


def _gzipped(content: bytes, answer: Response) -> Response:
    made = with_content(content, answer)
    made.headers["content-encoding"] = "gzip"
    return made


@functools.cache
def _many(kind: str) -> bytes:
    unit, last = _UNITS[kind]
    head, tail = b'{"padding":[', last + b"]}"
    count = (_MANY - len(head) - len(tail)) // len(unit)
    return gzip.compress(head + unit * count + tail, mtime=0)


@functools.cache
def _bomb() -> bytes:
    """Compress a gigabyte of blanks and an empty object. One block is compressed once and repeated."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflate.compress(_BOMB_BLOCK) + deflate.flush(zlib.Z_FULL_FLUSH)
    end = deflate.compress(b"{}") + deflate.flush()
    crc = 0
    for _ in range(_BOMB_BLOCKS):
        crc = zlib.crc32(_BOMB_BLOCK, crc)
    crc = zlib.crc32(b"{}", crc)
    size = (_BOMB_BLOCKS * len(_BOMB_BLOCK) + 2) % 2**32
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + block * _BOMB_BLOCKS + end + struct.pack("<II", crc, size)
