"""Stepped time: an event loop that jumps to its next timer when it has nothing else to do.

The wall clock moves with it (time-machine), so a simulated hour takes only the time of its work. Real loopback HTTP
still works: the loop does not jump while a socket is readable or a thread runs a call.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import time_machine

START = datetime.fromisoformat("2026-01-02T03:04:05+00:00").timestamp()

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    loop: SteppedLoop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.loop.thread_calls:
            return super().select(0.01)
        if timeout is None:
            ready = super().select(5)
            if not ready:
                raise RuntimeError("nothing will ever wake this loop: a test waits for what cannot come")
            return ready
        self.loop.jump(timeout)
        return super().select(0)


class SteppedLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0 and jumps; `thread_calls` counts the calls that run in threads now."""

    def __init__(self, traveller: Any) -> None:
        self._elapsed = 0.0
        self._traveller = traveller
        self.thread_calls = 0
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self._elapsed

    def jump(self, seconds: float) -> None:
        """Move both clocks."""
        self._elapsed += seconds
        self._traveller.shift(seconds)

    def run_in_executor(  # type: ignore[override]  # typeshed names every argument type, and none is used here
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self.thread_calls += 1

        def over(_: Any) -> None:
            self.thread_calls -= 1

        future.add_done_callback(over)
        return future

    async def shutdown_default_executor(self, *arguments: Any) -> None:
        # asyncio waits for ending threads with a timer, and the loop must not jump to it.
        self.thread_calls += 1
        try:
            await super().shutdown_default_executor(*arguments)
        finally:
            self.thread_calls -= 1


@contextmanager
def stepped(start: float = START) -> Iterator[asyncio.Runner]:
    """Give a runner in stepped time, which begins at the Unix time `start` and stands still between two runs."""
    with (
        time_machine.travel(start, tick=False) as traveller,
        asyncio.Runner(loop_factory=lambda: SteppedLoop(traveller)) as runner,
    ):
        yield runner


def run_stepped(main: Callable[[], Coroutine[Any, Any, T]], *, start: float = START) -> T:
    """Run a coroutine function in stepped time, and return its result."""
    with stepped(start) as runner:
        return runner.run(main())
