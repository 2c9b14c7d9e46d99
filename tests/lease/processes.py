"""Processes on one simulated machine time: each has an event loop that can be stopped, continued and killed.

Nothing waits: the world jumps to the next timer of a running process, or to the next event of the world. A stopped
process runs nothing, while its clock goes on, as after SIGSTOP.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any


class _NoSelector(selectors.BaseSelector):
    """Nothing is ever readable: all that comes to a process comes from the world."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise NotImplementedError

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise NotImplementedError

    def select(self, timeout: float | None = None) -> list[Any]:
        return []

    def get_map(self) -> Any:
        return {}


class _WorldLoop(asyncio.BaseEventLoop):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._selector = _NoSelector()

    def time(self) -> float:
        return self._world.now

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def next_timer(self) -> float | None:
        """When this loop has something to do."""
        if self._ready:  # type: ignore[attr-defined]  # BaseEventLoop's own
            return self._world.now
        timers = self._scheduled  # type: ignore[attr-defined]  # likewise
        return timers[0].when() if timers else None

    def run_due(self) -> None:
        """Run everything that is due now."""
        asyncio._set_running_loop(self)
        try:
            while True:
                self._run_once()  # type: ignore[attr-defined]  # likewise
                due = self.next_timer()
                if due is None or due > self._world.now:
                    return
        finally:
            asyncio._set_running_loop(None)


class Process:
    """One process. Its coroutine starts when the world runs."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_stopped = False
        self.is_cut_off = False
        """Whether the network, or the file server, is out of reach."""
        self.loop = _WorldLoop(world)
        self.tasks: list[asyncio.Task[Any]] = []
        self._world = world
        world.processes.append(self)

    @property
    def is_running(self) -> bool:
        return self.is_alive and not self.is_stopped

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in this process."""
        task = self.loop.create_task(work)
        self.tasks.append(task)
        return task

    def kill(self) -> None:
        """End it as SIGKILL does: nothing more runs."""
        self.is_alive = False

    def answer(self, future: asyncio.Future[Any], result: Any) -> None:
        """Have a future of this process set: it goes on from there when it runs."""
        if self.is_alive and not future.done():
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


class World:
    """All processes, and what happens between them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wall_offset = 0.0
        """How far the wall clock of the world is off; it may jump."""
        self.holder = ""
        """Whom the lease names."""
        self.lost_at = 0.0
        """When the lease got this holder, or something happened to that."""
        self.processes: list[Process] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def note_holder(self, holder: str) -> None:
        """Note whom the lease names."""
        if holder != self.holder:
            self.holder, self.lost_at = holder, self.now

    def at(self, when: float, event: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), event))

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Have something happen later."""
        self.at(self.now + seconds, event)

    def run(self, until: float, look: Callable[[], None]) -> None:
        """Run until a time; `look` is called after everything that happens."""
        while True:
            due = [
                (when, process)
                for process in self.processes
                if process.is_running
                if (when := process.loop.next_timer()) is not None
            ]
            first = min((when for when, _ in due), default=until)
            if self._events and self._events[0][0] <= first:
                first = self._events[0][0]
            if first >= until:
                self.now = until
                return
            self.now = max(self.now, first)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
                look()
            for when, process in due:
                if when <= self.now and process.is_running:
                    process.loop.run_due()
                    look()

    def close(self) -> None:
        """Free the loops. Tasks that never ended are dropped with their process."""
        for process in self.processes:
            for task in asyncio.all_tasks(process.loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # its process was killed
            process.loop._ready.clear()  # type: ignore[attr-defined]
            process.loop._scheduled.clear()  # type: ignore[attr-defined]
            process.loop.close()
