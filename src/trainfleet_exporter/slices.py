"""Long work on the event loop, cut into slices: they take turns, one in each turn of the loop, and let scrapes pass.

What is made of the clouds' answers is seconds of Python's work in a poll. Whoever does such work ends each slice of it,
a millisecond or so, by `await give_way()`:

    a slice ──give_way()──► waits in line ──one in each turn of the loop──► the next slice
                                │    ▲
              an answer is under way: waits till it has been sent, for half of the time at most

So what comes from outside waits for one slice, not for one of each collector; and a page that leaves in a hundred
pieces does not wait a hundred times. That answers go before all else is bounded: neither a slow reader nor a hundred
quick ones must stop the polls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

_LONGEST = 0.2
"""Seconds that they are held up at a stretch, at most."""
_SHORTEST = 0.01
"""Less than this is not worth holding them up."""


class _Line:
    """Who waits for a slice of one loop's time."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next: asyncio.Handle | None = None
        """What will let the first of the line go on."""
        self._answers = 0
        self._held_since: float | None = None
        self._credit = _LONGEST
        """Seconds for which slices may be held up: as many as they were not, before."""
        self._counted_at = asyncio.get_running_loop().time()

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if self._next is None:
            self._next = loop.call_soon(self._go_on)
        await turn

    def answer_begins(self) -> None:
        self._answers += 1

    def answer_ends(self) -> None:
        self._answers -= 1
        if not self._answers and self._held_since is not None:
            self._let_go()

    def _go_on(self) -> None:
        self._next = None
        if self._answers and self._hold():
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited was cancelled
                turn.set_result(None)
                break
        if self._waiting:
            self._next = asyncio.get_running_loop().call_soon(self._go_on)

    def _hold(self) -> bool:
        """Hold up everybody in the line for as long as that is allowed, or until no answer is under way."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._credit = min(_LONGEST, self._credit + now - self._counted_at)
        self._counted_at = now
        if self._credit < _SHORTEST:
            return False
        self._held_since = now
        self._next = loop.call_later(self._credit, self._let_go)
        return True

    def _let_go(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._held_since is not None
        assert self._next is not None
        self._counted_at = loop.time()
        self._credit -= self._counted_at - self._held_since
        self._held_since = None
        self._next.cancel()
        self._next = loop.call_soon(self._go_on)


_LINES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


def _line() -> _Line:
    loop = asyncio.get_running_loop()
    line = _LINES.get(loop)
    if line is None:
        line = _LINES[loop] = _Line()
    return line


async def give_way() -> None:
    """End a slice of long work, and wait for the turn of the next one."""
    await _line().wait()


@contextmanager
def answering() -> Iterator[None]:
    """While an answer is made and sent: slices of long work wait for its end, as long as that is bearable."""
    line = _line()
    line.answer_begins()
    try:
        yield
    finally:
        line.answer_ends()
