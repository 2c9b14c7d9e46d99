"""Combined checksums against the checksum of the joined bytes."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.exposition.crc import crc_combine, shift
from trainfleet_exporter.exposition.piece import Piece


@given(st.binary(), st.binary())
def test_two_strings(first: bytes, second: bytes) -> None:
    assert crc_combine(zlib.crc32(first), zlib.crc32(second), shift(len(second))) == zlib.crc32(first + second)


@given(st.lists(st.binary(max_size=300)))
def test_a_run_of_pieces(pieces: list[bytes]) -> None:
    crc = 0
    for piece in pieces:
        crc = Piece(piece).crc(crc)
    assert crc == zlib.crc32(b"".join(pieces))


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, 1 << 20, 3_000_001])
def test_long_strings(length: int) -> None:
    first, second = b"head\n", b"\x00\xffx" * (length // 3) + b"y" * (length % 3)
    assert crc_combine(zlib.crc32(first), zlib.crc32(second), shift(length)) == zlib.crc32(first + second)
