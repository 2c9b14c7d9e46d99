"""Long work on the event loop: cut into slices of a millisecond or so, of which one runs in each turn of the loop.

So a scrape waits for one slice in each of its turns, and not for one of every collector; and while it is answered,
slices wait for it, a few milliseconds each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

_FIRST_SECONDS = 0.02
"""For so long an answer goes first: one that takes longer waits for its reader."""
_MOST_WAIT = 0.005
"""Seconds between two slices, at most, for all answers together: polls must go on under any number of scrapes."""
_LOOK_AGAIN = 0.001


class _Queue:
    """Who waits for a slice of one loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._last_slice = loop.time()
        self.first_until = 0.0
        """Until when an answer goes first, in the loop's time."""

    def join(self) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._let_one_go_on)
        return turn

    def _let_one_go_on(self) -> None:
        now = self._loop.time()
        if now < min(self.first_until, self._last_slice + _MOST_WAIT):
            self._loop.call_later(_LOOK_AGAIN, self._let_one_go_on)
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its work was cancelled
                turn.set_result(None)
                self._last_slice = now
                break
        if self._waiting:
            self._loop.call_soon(self._let_one_go_on)


_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()


def _queue() -> _Queue:
    loop = asyncio.get_running_loop()
    queue = _QUEUES.get(loop)
    if queue is None:
        queue = _QUEUES[loop] = _Queue(loop)
    return queue


async def yield_to_loop() -> None:
    """End a slice of long work, and wait for the turn of the next one."""
    await _queue().join()


def answer_begins() -> None:
    """Let an answer to a client go first: slices wait for its end, as long as that is bearable."""
    _queue().first_until = asyncio.get_running_loop().time() + _FIRST_SECONDS


def answer_ends() -> None:
    """No answer goes first any more."""
    _queue().first_until = 0.0
