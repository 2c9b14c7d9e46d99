"""Compression by either library: blocks that can be joined, and their checksums."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from trainfleet_exporter.page import Block, Format, MetricsPage, deflate
from trainfleet_exporter.page.blocks import chunks
from trainfleet_exporter.page.zlib_crc import crc32_combine

COMBINES = [crc32_combine, isal_zlib.crc32_combine]


def test_isal_compresses_where_it_is_installed() -> None:
    assert deflate.codec is isal_zlib
    assert deflate.crc32_combine is isal_zlib.crc32_combine


def test_zlib_takes_its_place_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    spec = importlib.util.find_spec("trainfleet_exporter.page.deflate")
    assert spec is not None
    assert spec.loader is not None
    without = importlib.util.module_from_spec(spec)  # apart from the one that others use
    spec.loader.exec_module(without)
    assert without.codec is zlib
    assert without.crc32_combine is crc32_combine
    deflater = without.Deflater()
    deflater.add(b"some text\n" * 100)
    assert zlib.decompress(deflater.finish(last=True), -15) == b"some text\n" * 100
    assert (deflater.crc, deflater.size) == (zlib.crc32(b"some text\n" * 100), 1000)


@pytest.mark.parametrize("combine", COMBINES)
@given(first=st.binary(), second=st.binary())
def test_checksum_of_two_strings(combine: object, first: bytes, second: bytes) -> None:
    assert callable(combine)
    assert combine(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, 1 << 20, 3_000_001])
def test_checksum_of_long_strings(length: int) -> None:
    first, second = b"head\n", b"\x00\xffx" * (length // 3) + b"y" * (length % 3)
    assert crc32_combine(zlib.crc32(first), zlib.crc32(second), length) == zlib.crc32(first + second)


def test_the_size_of_a_page_past_four_gibibytes_is_taken_modulo() -> None:
    half = Block((b"x",), Block.of([b"x"]).deflated, 17, (3 << 30) + 5)
    heads = {fmt: {family: Block.of([b"# head\n"]) for family in "ab"} for fmt in Format}
    body = MetricsPage(1, heads, {"a": half, "b": half}).body(Format.TEXT, b"own 1\n", gzip=True).joined()
    plain = MetricsPage(1, heads, {"a": half, "b": half}).body(Format.TEXT, b"own 1\n", gzip=False).size
    assert plain == 2 * ((3 << 30) + 5) + 2 * 7 + 6
    assert int.from_bytes(body[-4:], "little") == plain - (1 << 32)


@given(st.lists(st.binary(max_size=60)), st.integers(1, 20))
def test_chunks_are_the_same_bytes(texts: list[bytes], limit: int) -> None:
    found = list(chunks(texts, limit))
    assert b"".join(found) == b"".join(texts)
    assert all(0 < len(chunk) <= limit for chunk in found)
    assert all(len(one) + len(other) > limit for one, other in itertools.pairwise(found))
