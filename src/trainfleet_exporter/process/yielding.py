"""Long work on the event loop: cut into slices of a millisecond or so, of which one runs in each turn of the loop.

So a scrape waits for one slice in each of its turns, and not for one of every collector.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

_Waiting = deque[asyncio.Future[None]]
_WAITING: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()
"""What waits for its next slice, by event loop."""


async def yield_to_loop() -> None:
    """End a slice of long work, and wait for the turn of the next one."""
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
