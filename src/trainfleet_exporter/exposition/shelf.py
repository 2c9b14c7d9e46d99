"""The samples of one family: small parts packed into chunks of up to 1 MB, in an order that stays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from trainfleet_exporter.exposition.piece import PIECE_LIMIT, Piece


class _Item:
    """Bytes of one part: a stretch of `source`, which is what was put, or the joined chunk it became a stretch of."""

    __slots__ = ("chunk", "length", "lines", "source", "start")

    def __init__(self, text: bytes) -> None:
        self.chunk: _Chunk
        self.lines = text.count(b"\n")
        self.hold(text, 0, len(text))

    def hold(self, source: bytes, start: int, length: int) -> None:
        self.source = source
        self.start = start
        self.length = length

    def equals(self, text: bytes) -> bool:
        return self.length == len(text) and self.source.startswith(text, self.start)

    def text(self) -> bytes:
        if self.length == len(self.source):
            return self.source
        return self.source[self.start : self.start + self.length]


class _Chunk:
    """Items that make one piece together. Once joined, the items point into the joined bytes: they are held once."""

    __slots__ = ("_piece", "items", "size")

    def __init__(self) -> None:
        self.items: dict[_Item, None] = {}  # a dict for its order and its cheap removal
        self.size = 0
        self._piece: Piece | None = None

    def take(self, item: _Item) -> None:
        item.chunk = self
        self.items[item] = None
        self.size += item.length
        self._piece = None

    @property
    def unready(self) -> int:
        """Bytes that would have to be joined, or deflated, if they were sent now."""
        return 0 if self._piece is not None and self._piece.is_deflated else self.size

    @property
    def is_joined(self) -> bool:
        return self._piece is not None

    def piece(self) -> Piece:
        if self._piece is None:
            data = b"".join([item.text() for item in self.items])
            start = 0
            for item in self.items:
                item.hold(data, start, item.length)
                start += item.length
            self._piece = Piece(data)
        return self._piece


class Shelf:
    """The parts of one family. Parts keep the order in which they first came; the later pieces of a part that grew
    come last."""

    def __init__(self, limit: int = PIECE_LIMIT) -> None:
        self._limit = limit
        # Neighbours that fit in this are merged. Below the full limit, so that a chunk at the border does not split
        # and merge in turn; near enough that any two neighbours hold more than three quarters of the limit.
        self._merge_limit = limit * 3 // 4
        self._chunks: list[_Chunk] = []
        self._items: dict[Hashable, list[_Item]] = {}
        self._pieces: tuple[Piece, ...] | None = ()

    @property
    def stale(self) -> bool:
        """Whether something changed since `pieces` was last asked."""
        return self._pieces is None

    @property
    def unready(self) -> int:
        """Bytes of the chunks that changed since they were last deflated."""
        return sum([chunk.unready for chunk in self._chunks])

    def join(self) -> Iterator[None]:
        """Join what is to be joined, in steps of a piece each. What changes meanwhile may be left as it is."""
        for chunk in tuple(self._chunks):
            if not chunk.is_joined:
                chunk.piece()
                yield

    def lines(self, part: Hashable) -> int:
        """Number of samples that the part has here."""
        return sum([item.lines for item in self._items.get(part, ())])

    def pieces(self) -> tuple[Piece, ...]:
        """All samples in pieces of at most 1 MB (a single longer line apart); unchanged ones are the same objects."""
        if self._pieces is None:
            self._pieces = tuple([chunk.piece() for chunk in self._chunks])
        return self._pieces

    def replace(self, part: Hashable, texts: Sequence[bytes]) -> None:
        """Puts the part's bytes in place of what it had; bytes equal to those it had change nothing."""
        texts = [text for text in texts if text]
        held = self._items.pop(part, [])
        for item, text in zip(held, texts, strict=False):
            self._rewrite(item, text)
        for item in held[len(texts) :]:
            self._remove(item)
        added = [self._append(text) for text in texts[len(held) :]]
        if texts:
            self._items[part] = held[: len(texts)] + added

    def _rewrite(self, item: _Item, text: bytes) -> None:
        if item.equals(text):
            return
        chunk, growth = item.chunk, len(text) - item.length
        item.hold(text, 0, len(text))
        item.lines = text.count(b"\n")
        chunk.size += growth
        self._touch(chunk)
        if chunk.size > self._limit:
            self._split(chunk)
        elif growth < 0:
            self._tidy(chunk)

    def _remove(self, item: _Item) -> None:
        chunk = item.chunk
        del chunk.items[item]
        chunk.size -= item.length
        self._touch(chunk)
        self._tidy(chunk)

    def _append(self, text: bytes) -> _Item:
        if not self._chunks or self._chunks[-1].size + len(text) > self._limit:
            self._chunks.append(_Chunk())
        item = _Item(text)
        self._chunks[-1].take(item)
        self._pieces = None
        return item

    def _touch(self, chunk: _Chunk) -> None:
        chunk._piece = None
        self._pieces = None

    def _split(self, chunk: _Chunk) -> None:
        """Cuts a chunk that grew over the limit near its middle, so that both sides have room to grow."""
        half = chunk.size // 2
        made = [_Chunk()]
        for item in chunk.items:
            size = made[-1].size
            if size and (size >= half or size + item.length > self._limit):
                made.append(_Chunk())
            made[-1].take(item)
        chunk.items.clear()  # `join` may still come to it: what it would join is another's by now
        place = self._chunks.index(chunk)
        self._chunks[place : place + 1] = made
        for new in made:
            if new.items:  # else it was merged away meanwhile
                self._tidy(new)

    def _tidy(self, chunk: _Chunk) -> None:
        """Merges a chunk that became small with its neighbours, and drops it when it is empty. Afterwards no two
        neighbours around it fit together, which bounds the number of chunks by the bytes they hold."""
        place = self._chunks.index(chunk)
        if not chunk.items:
            del self._chunks[place]
            if not self._chunks:
                return
            place = max(place - 1, 0)
        while True:
            if self._fit(place):
                self._merge(place)
            elif place and self._fit(place - 1):
                place -= 1
                self._merge(place)
            else:
                return

    def _fit(self, place: int) -> bool:
        pair = self._chunks[place : place + 2]
        return len(pair) == 2 and pair[0].size + pair[1].size <= self._merge_limit

    def _merge(self, place: int) -> None:
        into, gone = self._chunks[place], self._chunks.pop(place + 1)
        for item in gone.items:
            into.take(item)
        gone.items.clear()
