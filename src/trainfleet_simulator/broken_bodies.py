"""Responses whose body contradicts its headers or format, as tables of what becomes of the true body."""

from __future__ import annotations

import functools
import gzip
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import HTMLResponse, Response

from trainfleet_simulator.rows import TEXTS, dumps, read, rows_of, with_content

LOGIN = (
    "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>\n"
    '<form action="/login" method="post"><input name="user"><input name="password" type="password"></form>\n'
    "</body></html>\n"
)
_OVERSIZED = 50_000_000  # bytes
_DEPTH = 100_000
_BOMB_BLOCK = b" " * 2**20
_BOMB_BLOCKS = 1024
_MANY = 32 * 2**20  # bytes
_HALF = b'"\\ud83d"'
_PADDING = b'{"padding":[%b%b%b%b],' % (b"[]," * 40_000, b'{"a":1},' * 40_000, b"NaN," * 80_000, _HALF)


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


@functools.cache
def _many(unit: bytes, last: bytes) -> bytes:
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


def _with_bad_row(body: Any) -> bytes | None:
    found = rows_of(body)
    if found is None or not found.all:
        return None
    found.replace([other_types(found.all[0]), *found.all[1:]])
    return dumps(body).encode()


_NEEDS_JSON = {"padded", "null", "deep", "truncated", "wrong_top", "wrong_types", "one_bad_row"}
_GZIPPED: Mapping[str, Callable[[bytes, Any], bytes | None]] = {
    "gzip_bomb": lambda true, _: _bomb(),
    "many_lists": lambda true, _: _many(b"[],", b"[]"),
    "many_objects": lambda true, _: _many(b'{"a":1},', b"{}"),
    "many_nans": lambda true, _: _many(b"NaN,", b"NaN"),
    "many_surrogates": lambda true, _: _many(b"[],", _HALF),
    "gzip_broken": lambda true, _: (whole := gzip.compress(true, mtime=0))[: len(whole) // 2],
    "gzip_false": lambda true, _: true or b"{}",
    "padded": lambda true, body: (
        gzip.compress(_PADDING + true[1:], 1, mtime=0) if isinstance(body, dict) and body else None
    ),
}
"""Contents that are declared as gzip, made of the true one and its JSON."""
_PLAIN: Mapping[str, Callable[[bytes, Any], bytes | None]] = {
    "bad_utf8": lambda true, _: _with_bad_bytes(true),
    "null": lambda true, _: b"null",
    "deep": lambda true, _: b"[" * _DEPTH + b"]" * _DEPTH,
    "truncated": lambda true, _: true.decode()[: len(true.decode()) // 2].encode(),
    "wrong_top": lambda _, body: dumps([body] if isinstance(body, dict) else {"items": body}).encode(),
    "wrong_types": lambda _, body: dumps(other_types(body)).encode(),
    "one_bad_row": lambda _, body: _with_bad_row(body),
}


def break_body(kind: str, answer: Response) -> Response | None:
    """Break a true response; None if it has nothing that this kind breaks."""
    if kind == "html":
        return HTMLResponse(LOGIN)
    if kind == "oversized":
        filling = b"x" * (_OVERSIZED - len(b'{"padding":""}'))
        return Response(b'{"padding":"%b"}' % filling, media_type="application/json")
    body: Any = None
    try:
        body = read(answer)
    except ValueError:  # a text or nothing
        if kind in _NEEDS_JSON:
            return None
    content = {**_PLAIN, **_GZIPPED}[kind](bytes(answer.body), body)
    if content is None:
        return None
    made = with_content(content, answer)
    if kind in _GZIPPED:
        made.headers["content-encoding"] = "gzip"
    return made
