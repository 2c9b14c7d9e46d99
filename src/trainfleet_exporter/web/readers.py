"""Who is being sent pages now, and how much memory only they keep in use.

A page lives on, although a newer one has taken its place, while somebody still reads it. A client that reads slowly, or
not at all, keeps one page; several that came at different times keep several. Those are bounded together: where the
pieces that nothing but old pages have exceed what is allowed, whoever reads the oldest of them is cut off.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from trainfleet_exporter.exposition import Format, Snapshot
from trainfleet_exporter.exposition.piece import PIECE_LIMIT

log = logging.getLogger(__name__)

ALLOWANCE = 64 << 20
"""Bytes that old pages may keep in use in any case; where a page is larger, as many as it has. One old page is thus
kept for whoever reads it, however long that takes."""


class Answer:
    """One answer under way: what is still to be sent of it. Iterating gives its pieces, or `step` bytes of one at once,
    and lets go of each when the next is asked for; it ends early if the answer was cut off."""

    def __init__(self, page: int, abort: Callable[[], None], step: int) -> None:
        self.page = page
        """The number of its page: a higher one is newer."""
        self.rest: deque[bytes] = deque()
        self.is_cut_off = False
        self._abort = abort
        self._step = step

    def __iter__(self) -> Iterator[bytes]:
        while self.rest:
            piece = self.rest[0]
            for start in range(0, len(piece), self._step):
                yield piece[start : start + self._step]  # no copy where that is the whole piece
                if self.is_cut_off:
                    return
            self.rest.popleft()

    def cut_off(self) -> None:
        """Let go of everything, and break the connection."""
        self.is_cut_off = True
        self.rest.clear()
        self._abort()


class Readers:
    """The answers under way. Belongs to one event loop."""

    def __init__(self, allowance: int = ALLOWANCE) -> None:
        self._allowance = allowance
        self._answers: dict[Answer, None] = {}
        self._newest: Callable[[], Snapshot | None] = lambda: None
        """The newest page that anybody was given, held weakly: it may be large, and gone from the board."""
        self._number = 0
        self._are_cut_off = False

    @contextmanager
    def answer(self, page: Snapshot, abort: Callable[[], None], step: int = PIECE_LIMIT) -> Iterator[Answer]:
        """An answer that begins with the newest page, and lasts as long as the context. It has no pieces yet: `give` it
        some. `abort` breaks its connection; `step` is how many bytes its connection takes at a time."""
        if self._newest() is not page:
            self._newest = weakref.ref(page)
            self._number += 1
        answer = Answer(self._number, abort, step)
        self._answers[answer] = None
        del page  # which the context would keep until its end
        try:
            yield answer
        finally:
            del self._answers[answer]

    def give(self, answer: Answer, pieces: Iterable[bytes], fmt: Format) -> None:
        """Let an answer have these pieces to send, of a page in this format. Others may be cut off for it."""
        answer.rest.extend(pieces)
        self._bound(fmt)

    def _bound(self, fmt: Format) -> None:
        old = [answer for answer in self._answers if answer.page < self._number]
        if not old:
            self._are_cut_off = False
            return
        page = self._newest()
        newest = page.pieces(fmt) if page is not None else ()
        # By identity: pieces that did not change are the same objects on every page. Gzipped, those of the newest page
        # are known from the answers that have them to send.
        counted = {id(piece) for piece in newest}
        counted.update(id(piece) for answer in self._answers if answer.page == self._number for piece in answer.rest)
        allowed = max(self._allowance, sum(map(len, newest)))
        held = 0
        gone: list[Answer] = []
        for answer in sorted(old, key=lambda answer: -answer.page):
            for piece in answer.rest:
                if id(piece) not in counted:
                    counted.add(id(piece))
                    held += len(piece)
            if held > allowed and answer.rest:
                gone.append(answer)
        self._cut_off(gone)

    def _cut_off(self, answers: list[Answer]) -> None:
        if answers and not self._are_cut_off:
            self._are_cut_off = True
            log.warning(
                "%d connection(s) cut off: slow clients keep too much memory in use for old pages; told once while it "
                "lasts",
                len(answers),
            )
        for answer in answers:
            answer.cut_off()
