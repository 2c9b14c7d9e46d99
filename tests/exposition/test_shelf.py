"""Packing of parts into chunks: nothing lost, order kept, sizes bounded, only what changed made anew."""

from __future__ import annotations

import itertools
import random
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from trainfleet_exporter.exposition.shelf import Shelf

LIMIT = 100


def text(part: int, size: int, version: int = 0) -> bytes:
    """Recognisable bytes of exactly `size`."""
    return (f"{part}.{version}|".encode() * (size // 3 + 1))[:size]


def content(shelf: Shelf) -> bytes:
    return b"".join(piece.data for piece in shelf.pieces())


def assert_packed(shelf: Shelf, limit: int = LIMIT) -> None:
    sizes = [len(piece.data) for piece in shelf.pieces()]
    assert all(0 < size <= limit for size in sizes)
    assert all(a + b > limit * 3 // 4 for a, b in itertools.pairwise(sizes)), sizes


sizes = st.lists(st.integers(0, LIMIT), max_size=4)
steps = st.lists(st.tuples(st.integers(0, 12), sizes, st.booleans()), max_size=60)


@settings(max_examples=300)
@given(steps)
def test_any_sequence_of_replacements(sequence: list[tuple[int, list[int], bool]]) -> None:
    shelf = Shelf(LIMIT)
    expected: dict[int, list[bytes]] = {}
    for version, (part, lengths, look) in enumerate(sequence):
        texts = [text(part, length, version) for length in lengths]
        shelf.replace(part, texts)
        expected[part] = [found for found in texts if found]
        if look:  # sometimes several changes happen between two looks
            assert_packed(shelf)
    assert_packed(shelf)
    everything = content(shelf)
    assert len(everything) == sum(len(found) for texts in expected.values() for found in texts)
    place = {found: everything.find(found) for texts in expected.values() for found in texts}
    assert -1 not in place.values()


@given(st.lists(st.integers(1, LIMIT), min_size=1, max_size=30), st.data())
def test_parts_of_one_piece_keep_their_order(lengths: list[int], data: st.DataObject) -> None:
    shelf = Shelf(LIMIT)
    expected: dict[int, bytes] = {}
    for part, length in enumerate(lengths):
        expected[part] = text(part, length)
        shelf.replace(part, [expected[part]])
    for version in range(1, 10):
        part = data.draw(st.integers(0, len(lengths) - 1))
        if data.draw(st.booleans()):
            expected.pop(part, None)
            shelf.replace(part, [])
        elif part in expected:
            expected[part] = text(part, data.draw(st.integers(1, LIMIT)), version)
            shelf.replace(part, [expected[part]])
        assert content(shelf) == b"".join(expected.values())
        assert_packed(shelf)


def test_filling_leaves_no_chunk_half_empty() -> None:
    shelf = Shelf(1000)
    for part in range(500):
        shelf.replace(part, [text(part, 10)])
    assert len(shelf.pieces()) == 5


def test_only_the_chunk_of_a_changed_part_is_made_anew() -> None:
    shelf = Shelf(LIMIT)
    for part in range(40):
        shelf.replace(part, [text(part, 20)])
    before = shelf.pieces()
    shelf.replace(17, [text(17, 20, version=1)])
    assert shelf.stale
    after = shelf.pieces()
    assert [a is b for a, b in zip(before, after, strict=True)].count(False) == 1


def test_equal_bytes_change_nothing() -> None:
    shelf = Shelf(LIMIT)
    for part in range(40):
        shelf.replace(part, [text(part, 20), text(part, 30)])
    before = shelf.pieces()
    for part in range(40):
        shelf.replace(part, [text(part, 20), b"", text(part, 30)])
    assert not shelf.stale
    assert shelf.pieces() is before


def test_a_line_over_the_limit_is_a_chunk_of_its_own() -> None:
    shelf = Shelf(LIMIT)
    shelf.replace("small", [b"a" * 60])
    shelf.replace("giant", [b"b" * 250])
    shelf.replace("other", [b"c" * 60])
    assert [len(piece.data) for piece in shelf.pieces()] == [60, 250, 60]
    shelf.replace("giant", [b"b" * 350])
    assert [len(piece.data) for piece in shelf.pieces()] == [60, 350, 60]
    shelf.replace("giant", [])
    assert [len(piece.data) for piece in shelf.pieces()] == [60, 60]


def test_a_part_alone_is_not_copied() -> None:
    shelf = Shelf(LIMIT)
    texts = [b"x" * 90, b"y" * 80]
    shelf.replace("part", texts)
    assert [piece.data for piece in shelf.pieces()] == texts
    assert all(piece.data is found for piece, found in zip(shelf.pieces(), texts, strict=True))


def test_what_is_split_while_it_is_joined_is_held_once() -> None:
    size = 1000
    shelf = Shelf(size * 10)
    for part in range(30):
        shelf.replace(part, [text(part, size)])
    joining = shelf.join()
    next(joining)
    shelf.replace(15, [text(15, 2 * size)])  # in the second of three chunks, which is full
    shelf.pieces()
    for _ in joining:
        pass
    assert content(shelf) == b"".join([text(part, 2 * size if part == 15 else size) for part in range(30)])
    sources = [item.source for items in shelf._items.values() for item in items]
    held = {id(text): len(text) for text in (*sources, *(piece.data for piece in shelf.pieces()))}
    assert sum(held.values()) == 31 * size


def test_thousands_of_cycles_leave_no_garbage() -> None:
    limit, live = 20_000, 200
    shelf = Shelf(limit)
    chance = random.Random(7)
    jobs = list(range(live))

    def cycle(first: int, count: int) -> None:
        for number in range(first, first + count):
            gone = chance.randrange(live)
            shelf.replace(jobs[gone], [])
            jobs[gone] = number
            shelf.replace(number, [text(number, chance.randint(200, 800))])
            changed = jobs[chance.randrange(live)]
            shelf.replace(changed, [text(changed, chance.randint(200, 800), number)])
            if number % 10 == 0:
                shelf.pieces()

    cycle(live, 1000)
    tracemalloc.start()
    shelf.pieces()
    early = tracemalloc.get_traced_memory()[0]
    cycle(10_000, 1000)
    shelf.pieces()
    middle = tracemalloc.get_traced_memory()[0] - early
    cycle(20_000, 3000)
    shelf.pieces()
    late = tracemalloc.get_traced_memory()[0] - early
    tracemalloc.stop()
    assert late < middle * 1.3 + 20_000
    assert_packed(shelf, limit)
    held = sum(len(piece.data) for piece in shelf.pieces())
    assert len(shelf.pieces()) <= 2 * held / (limit * 0.75) + 1
    for job in jobs:
        shelf.replace(job, [])
    assert shelf.pieces() == ()
