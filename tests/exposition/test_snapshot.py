"""How a page is put together for sending."""

from __future__ import annotations

from trainfleet_exporter.exposition import Format
from trainfleet_exporter.exposition.deflater import Deflater
from trainfleet_exporter.exposition.piece import PIECE_LIMIT, Piece
from trainfleet_exporter.exposition.snapshot import Snapshot, gathered

SMALL = bytes(65_535)
LARGE = bytes(65_536)


def test_small_ones_are_joined_and_large_ones_sent_as_they_are() -> None:
    out = gathered([b"a", SMALL, LARGE, b"b", b"c", LARGE])
    assert out == (b"a" + SMALL, LARGE, b"bc", LARGE)
    assert out[1] is LARGE


def test_what_is_joined_is_a_piece_at_most_and_as_much_as_that() -> None:
    whole = [SMALL] * 16 + [bytes(16)]
    assert sum(map(len, whole)) == PIECE_LIMIT
    sizes = [len(piece) for piece in gathered([*whole, *whole, b"a", LARGE, *whole, b"b"])]
    assert sizes == [PIECE_LIMIT, PIECE_LIMIT, 1, len(LARGE), PIECE_LIMIT, 1]


def test_the_samples_of_a_family_are_its_own() -> None:
    first, second = (Piece(b"a 1\n"),), (Piece(b"b 1\n"), Piece(b"b 2\n"))
    page = Snapshot((("a", first), ("b", second)), {fmt: {} for fmt in Format}, Deflater())
    assert page.samples("a") == first
    assert page.samples("b") == second
    assert page.samples("c") == ()
