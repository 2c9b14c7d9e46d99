"""The answers on /metrics that are under way, and a bound on the memory that only they keep in use.

A client that reads slowly, or not at all, keeps what it has not taken yet of its page, although a newer page is sent by
now. Several clients that came at different times keep several pages. Together they may keep as much as is allowed;
beyond that, the exporter breaks the connections of those that read the oldest pages.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainfleet_exporter.page import Body, Page, chunks
from trainfleet_exporter.page.blocks import CHUNK_BYTES

log = logging.getLogger(__name__)

ALLOWANCE = 64 << 20
"""Bytes that old pages may keep in use in any case; where a page is larger, as many as it has. One old page is thus
kept for its readers, however long they take."""


class Answer:
    """One answer under way: what is still to be sent of it. Iterating gives it in chunks of at most `step` bytes, and
    lets go of each block when it is sent; it ends early if the answer was cut off."""

    def __init__(self, page: int, body: Body, abort: Callable[[], None], step: int) -> None:
        self.page = page
        """The number of its page: a higher one is newer."""
        self.rest = deque(body.units)
        self.is_cut_off = False
        self._abort = abort
        self._step = step

    def __iter__(self) -> Iterator[bytes]:
        for chunk in chunks(self._texts(), self._step):
            yield chunk
            if self.is_cut_off:
                return

    def _texts(self) -> Iterator[bytes]:
        while self.rest:
            yield from self.rest[0]
            if self.rest:  # else it was cut off
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
        self._are_cut_off = False

    @contextmanager
    def answer(self, page: Page, body: Body, abort: Callable[[], None], step: int = CHUNK_BYTES) -> Iterator[Answer]:
        """An answer that lasts as long as the context; others may be cut off for it. `page` is the newest one, of
        which this is the body; `abort` breaks its connection; `step` is how many bytes that takes at a time."""
        answer = Answer(page.number, body, abort, step)
        self._answers[answer] = None
        self._bound(page)
        del page, body  # which the context would keep until its end
        try:
            yield answer
        finally:
            del self._answers[answer]

    def _bound(self, newest: Page) -> None:
        old = [answer for answer in self._answers if answer.page < newest.number]
        if not old:
            self._are_cut_off = False
            return
        # By identity: blocks that did not change are the same on every page.
        blocks = [*newest.families.values(), *(block for heads in newest.heads.values() for block in heads.values())]
        counted = {_identity(unit) for block in blocks for unit in (block.texts, (block.deflated,))}
        allowed = max(self._allowance, sum(block.size for block in newest.families.values()))
        held = 0
        gone: list[Answer] = []
        for answer in sorted(old, key=lambda answer: -answer.page):
            for unit in answer.rest:
                if _identity(unit) not in counted:
                    counted.add(_identity(unit))
                    held += sum(map(len, unit))
            if held > allowed and answer.rest:
                gone.append(answer)
        self._cut_off(gone)

    def _cut_off(self, answers: list[Answer]) -> None:
        if answers and not self._are_cut_off:
            self._are_cut_off = True
            log.warning(
                "%d connection(s) cut off: slow clients keep too much memory in use for old pages; logged once while "
                "it lasts",
                len(answers),
            )
        for answer in answers:
            answer.cut_off()


def _identity(unit: tuple[bytes, ...]) -> int:
    """The same for the same texts; a tuple of one may have been made for its answer alone."""
    return id(unit[0]) if len(unit) == 1 else id(unit)
