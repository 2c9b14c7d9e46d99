"""The board against a naive one: the same lines, no empty heads, snapshots that never change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfleet_exporter.exposition.board import Board
from trainfleet_exporter.exposition.formats import Format
from trainfleet_exporter.exposition.piece import PIECE_LIMIT
from trainfleet_exporter.exposition.snapshot import Snapshot, gathered
from trainfleet_exporter.families import FAMILIES

from .reading import lines_by_family, total

FEW = tuple(FAMILIES[n] for n in (0, 2, 3, 16, 20))
NAMES = [family.name for family in FEW]
Rendered = dict[str, list[bytes]]


def lines(family: str, part: int, version: int, first: int, count: int) -> bytes:
    return b"".join(
        f'{family}{{provider="p",part="{part}",n="{n}"}} {version}\n'.encode() for n in range(first, first + count)
    )


@st.composite
def puts(draw: st.DrawFn) -> tuple[int, Rendered]:
    part, version = draw(st.integers(0, 8)), draw(st.integers(0, 3))
    rendered: Rendered = {}
    for family in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        counts = draw(st.lists(st.integers(0, 4), max_size=3))
        rendered[family] = [lines(family, part, version, 10 * n, count) for n, count in enumerate(counts)]
    return part, rendered


def page(snapshot: Snapshot, fmt: Format = Format.TEXT) -> bytes:
    return b"".join(snapshot.pieces(fmt))


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), puts()), max_size=30), st.sampled_from(Format))
def test_any_sequence_of_puts_and_drops(sequence: list[tuple[bool, tuple[int, Rendered]]], fmt: Format) -> None:
    board = Board(FEW, limit=300)
    naive: dict[int, Rendered] = {}
    for drop, (part, rendered) in sequence:
        if drop:
            board.drop(part)
            naive.pop(part, None)
        else:
            board.put(part, rendered)
            naive[part] = rendered
        found = lines_by_family(page(board.snapshot(), fmt))
        for name in NAMES:
            texts = b"".join(b"".join(part_texts.get(name, [])) for part_texts in naive.values())
            shown = name.removesuffix("_total") if fmt is Format.OPENMETRICS else name
            assert sorted(found.get(shown, [])) == sorted(texts.split(b"\n")[:-1])
    for part in range(9):
        assert board.series(part) == b"".join(b"".join(t) for t in naive.get(part, {}).values()).count(b"\n")
    order = [NAMES.index(name) for name in lines_by_family(page(board.snapshot()))]
    assert order == sorted(order)


def test_the_snapshot_is_the_same_object_while_nothing_changed() -> None:
    board = Board()
    empty = board.snapshot()
    assert board.snapshot() is empty
    assert empty.pieces(Format.TEXT) == ()
    board.put("a", {NAMES[0]: [lines(NAMES[0], 0, 0, 0, 3)]})
    first = board.snapshot()
    assert first is not empty
    assert board.snapshot() is first
    board.put("a", {NAMES[0]: [lines(NAMES[0], 0, 0, 0, 3)]})
    board.drop("never there")
    assert board.snapshot() is first


def test_a_snapshot_never_changes() -> None:
    board = Board()
    board.put("a", {NAMES[0]: [lines(NAMES[0], 0, 0, 0, 3)], NAMES[1]: [lines(NAMES[1], 0, 0, 0, 1)]})
    old = board.snapshot()
    before = page(old)
    board.put("a", {NAMES[0]: [lines(NAMES[0], 0, 1, 0, 5)]})
    board.put("b", {NAMES[1]: [lines(NAMES[1], 1, 1, 0, 5)]})
    board.drop("a")
    assert page(old) == before
    # also when it is read for the first time only after the changes
    assert page(old, Format.OPENMETRICS).count(b"\n") == before.count(b"\n")


def test_an_unknown_family_is_refused_and_changes_nothing() -> None:
    board = Board(FEW)
    board.put("a", {NAMES[0]: [b"x{} 1\n"]})
    before = board.snapshot()
    with pytest.raises(KeyError, match="no such family: unheard_of"):
        board.put("a", {NAMES[0]: [b"x{} 2\n"], "unheard_of": [b"y{} 1\n"]})
    assert board.snapshot() is before
    assert board.series("a") == 1


def test_pieces_of_a_large_page() -> None:
    board = Board(FEW)
    big = [b"x" * 99 + b"\n"] * (PIECE_LIMIT // 100)
    board.put("sweep", {NAMES[1]: [b"".join(big)] * 3, NAMES[2]: [b"".join(big[:10])]})
    for part in range(300):
        board.put(part, {NAMES[1]: [b"y" * 9_999 + b"\n"], NAMES[3]: [b"z" * 99 + b"\n"]})
    pieces = board.snapshot().pieces(Format.TEXT)
    assert all(len(piece) <= PIECE_LIMIT for piece in pieces)
    assert len(pieces) <= total(pieces) / PIECE_LIMIT * 1.5 + 3


@given(st.lists(st.integers(1, 12).map(lambda n: bytes([65 + n]) * 16_000 * n), max_size=40))
def test_gathering_small_pieces(texts: list[bytes]) -> None:
    out = gathered(texts)
    assert b"".join(out) == b"".join(texts)
    assert all(0 < len(text) <= PIECE_LIMIT for text in out)
    assert len(out) <= 2 * sum(len(text) >= PIECE_LIMIT // 16 for text in texts) + 1
