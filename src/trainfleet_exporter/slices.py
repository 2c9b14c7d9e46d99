"""Long work on the event loop, cut into slices: they take turns, one in each turn of the loop, and let scrapes pass.

What is made of the clouds' answers is seconds of Python's work in a poll. Whoever does such work ends each slice of it,
half a millisecond or so, by `await give_way()`:

    a slice ──give_way()──► waits in line ──one in each turn of the loop──► the next slice
                                │    ▲
              an answer is under way: waits till it has been sent, for half of the time at most

So what comes from outside waits for one slice, not for one of each collector; and a page that leaves in a hundred
pieces does not wait a hundred times. That answers go before all else is bounded: an answer that takes seconds waits for
its reader, and holds up nothing any more; and a hundred quick ones must not stop the polls either.

Short work, some tenths of a millisecond such as to sign and send a call, begins by `await fit_in()`: it is done at
once, several of a kind in one turn of the loop, until that turn has become long; who comes then waits in line, too.
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
_SLOW = 2.0
"""Seconds from which on an answer is thought to wait for whoever reads it."""
_LARGE_BODIES = 4
"""Of 32 MiB each at most; several, so that a slow one does not stop all the others."""
_TURN = 0.0005
"""Seconds of a turn of the loop after which no more short work is begun in it."""


class _Line:
    """Who waits for a slice of one loop's time."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bool]] = deque()
        """Each is told whether it goes on beside an answer."""
        self._next: asyncio.Handle | None = None
        """What will let the first of the line go on."""
        self._answers = 0
        self._held_since: float | None = None
        self._credit = _LONGEST
        """Seconds for which slices may be held up: as many as they were not, before."""
        self._counted_at = asyncio.get_running_loop().time()
        self._work_began: float | None = None
        """When the first work in this turn of the loop was begun."""
        self.large = asyncio.Lock()
        """See large_work."""
        self.large_bodies = asyncio.Semaphore(_LARGE_BODIES)

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        join = self._waiting.append
        while True:
            turn: asyncio.Future[bool] = loop.create_future()
            join(turn)
            if self._next is None:
                self._next = loop.call_soon(self._go_on)
            if await turn or not self._answers:
                break
            join = self._waiting.appendleft  # an answer began since
        self._begin_work()

    def fits(self) -> bool:
        """Whether short work may be begun in this turn of the loop; if so, that is noted."""
        return not self._answers and self._begin_work()

    def _begin_work(self) -> bool:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._work_began is None:
            self._work_began = now
            loop.call_soon(self._end_turn)
        return now - self._work_began < _TURN

    def _end_turn(self) -> None:
        self._work_began = None

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
                turn.set_result(self._answers > 0)
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


async def fit_in() -> None:
    """Begin short work: at once, or when it is its turn where an answer is under way or others had theirs just now."""
    line = _line()
    if not line.fits():
        await line.wait()


def large_work() -> asyncio.Lock:
    """Return the lock to hold during work that takes much memory, so that one piece of it is under way at a time.

    Never wait for the network with it: who else holds a large answer would time out.
    """
    return _line().large


def large_bodies() -> asyncio.Semaphore:
    """Return the semaphore to hold while a large body is received and until it is decoded.

    Who holds large_work must not wait for it.
    """
    return _line().large_bodies


def answer_comes() -> None:
    """Tell that an answer is begun in the next turn of the loop: no slice is to begin before it."""
    line = _line()
    line.answer_begins()
    asyncio.get_running_loop().call_soon(line.answer_ends)


@contextmanager
def answering(seconds: float = _SLOW) -> Iterator[None]:
    """While an answer is made and sent, or for so many seconds of that: slices of long work wait for its end, as long
    as that is bearable."""
    line = _line()
    line.answer_begins()
    is_quick = True

    def is_slow() -> None:
        nonlocal is_quick
        is_quick = False
        line.answer_ends()

    slow = asyncio.get_running_loop().call_later(seconds, is_slow)
    try:
        yield
    finally:
        slow.cancel()
        if is_quick:
            line.answer_ends()
