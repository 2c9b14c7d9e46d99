"""Divides long work on the event loop into slices of about a millisecond. One slice runs in each turn of the loop.

So in each of its turns, a scrape waits for one slice, and not for a slice of every collector.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

_Waiting = deque[asyncio.Future[None]]
_WAITING: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()
"""The work that waits for its next slice, by event loop."""


async def yield_to_loop() -> None:
    """End a slice of long work, and wait for the turn of the next slice."""
    loop = asyncio.get_running_loop()
    waiting = _WAITING.setdefault(loop, deque())
    turn: asyncio.Future[None] = loop.create_future()
    waiting.append(turn)
    if len(waiting) == 1:
        loop.call_soon(_start_next, loop, waiting)
    await turn


def _start_next(loop: asyncio.AbstractEventLoop, waiting: _Waiting) -> None:
    while waiting:
        turn = waiting.popleft()
        if not turn.done():  # else its work was cancelled
            turn.set_result(None)
            break
    if waiting:
        loop.call_soon(_start_next, loop, waiting)
