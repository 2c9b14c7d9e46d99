"""AOM's instant vectors, decoded some hundred samples at a time: an answer of 80,000 cards has 20 MB and more.

Prometheus writes them without spaces, and only such answers are cut, between samples. What is left without any is
decoded before an answer is judged, and the samples are gone over for their form; they are decoded when they are asked
for. Every other answer is decoded in one go (transport.body.decode_json), to the same end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.slices import give_way
from trainfleet_exporter.transport.body import decode_json, values_of
from trainfleet_exporter.transport.calls import BULK, NOT_JSON

_FIRST = b'[{"metric":{'
_NEXT = b'},{"metric":{'
_LAST = b'"]}]'
"""A sample's end, and the vector's."""
_MARK = "\N{HORIZONTAL ELLIPSIS}"
"""Stands for the samples where they are left out; it is no ASCII, and the answers that are cut are nothing else."""
_SLICE = 64 * 1024
"""Bytes that are decoded before the loop has its turn: about 250 samples."""
_SKIMMED = 512 * 1024
"""Bytes whose form is looked at before the loop has its turn."""
_ROWS = 250


class Labels(msgspec.Struct, gc=False):
    """What names the job, the pod and the card of a sample (metric_map); empty texts where it has no such label."""

    service_id: str = ""
    pod_name: str = ""
    task_id: str = ""
    task_name: str = ""
    pod_id: str = ""
    pod: str = ""
    npu_id: str = ""
    gpu_id: str = ""
    npu_index: str = ""
    gpu_index: str = ""
    gpu_uuid: str = ""
    device_id: str = ""
    card_id: str = ""


class Value(msgspec.Struct, gc=False, array_like=True, forbid_unknown_fields=True):
    """The time of a query, and the value of a sample then."""

    time: float
    text: str


class Sample(msgspec.Struct, gc=False):
    """One sample of a vector as Prometheus writes it."""

    metric: Labels
    value: Value


_decode = msgspec.json.Decoder(list[Sample]).decode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_skim = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Vector:
    """The samples between two places of a body."""

    def __init__(self, body: bytes, start: int, end: int) -> None:
        self._body = body
        self._start = start
        self._end = end

    def slices(self) -> Iterator[list[Any]]:
        """The samples, some hundred at a time; where any of them is unusual, as decode_json makes them."""
        for piece in self._pieces(_SLICE):
            try:
                yield _decode(piece)
            except ValueError:  # a label that is a number, a sample without a value
                rows = decode_json(piece)
                if rows is NOT_JSON:  # of all that is looked at before, a number with more digits than anybody reads
                    raise BadAnswer("the answer is not JSON") from None
                yield rows

    async def is_sound(self) -> bool:
        """Whether these are samples that could be cut, and nothing else."""
        for piece in self._pieces(_SKIMMED):
            if not _is_plain(piece):
                return False
            try:
                _skim(piece)
            except (ValueError, RecursionError):
                return False
            await give_way()
        return True

    def _pieces(self, size: int) -> Iterator[bytes]:
        """Lists of samples of about that many bytes."""
        start = self._start
        while start < self._end:
            cut = self._body.find(_NEXT, start + size, self._end)
            end = self._end if cut < 0 else cut + 1
            yield b"[%b]" % self._body[start:end]
            start = end + 1


class Packed:
    """Samples that were decoded in one go, as bytes: a tenth of their size, for they wait while others are decoded."""

    def __init__(self, rows: list[Any]) -> None:
        self._pieces = [_packed(some) for some in slices(rows)]

    def slices(self) -> Iterator[list[Any]]:
        """The samples, some hundred at a time; None for one with a number of more than 64 bits."""
        return map(_unpack, self._pieces)


def _packed(rows: list[Any]) -> bytes:
    try:
        return _pack(rows)
    except (OverflowError, ValueError, RecursionError):
        return _pack([_unpack(_packed([row]))[0] for row in rows] if len(rows) > 1 else [None])


async def decode_answer(body: bytes) -> Any:
    """The payload of an answer (Call.decode), in which the samples of a vector are a Vector, or Packed if it is long.

    BadAnswer for a long answer that would have to be decoded in one go.
    """
    await give_way()  # it has just been put together
    start, end = body.find(_FIRST) + 1, body.rfind(_LAST) + len(_LAST) - 1
    if 0 < start < end and _is_plain(body[:start]) and _is_plain(body[end:]):
        payload = decode_json(b'%b"%b"%b' % (body[:start], _MARK.encode(), body[end:]))
        data = payload.get("data") if isinstance(payload, dict) else None
        vector = Vector(body, start, end)
        if isinstance(data, dict) and data.get("result") == [_MARK] and await vector.is_sound():
            data["result"] = vector
            return payload
    if values_of(body) > BULK.values:
        raise BadAnswer(f"the answer is over the limit of {BULK.values:,} values that cannot be cut")
    payload = decode_json(body)
    data = payload.get("data") if isinstance(payload, dict) and len(body) > _SKIMMED else None
    if isinstance(data, dict) and isinstance(rows := data.get("result"), list):
        data["result"] = Packed(rows)
    return payload


def _is_plain(part: bytes) -> bool:
    """Whether each quotation mark begins or ends a text, so that no text can look like the end of a sample."""
    return b"\\" not in part and part.isascii()


def slices(rows: list[Any]) -> Iterator[list[Any]]:
    """The same of samples that were decoded in one go."""
    source = iter(rows)
    while some := list(islice(source, _ROWS)):
        yield some
