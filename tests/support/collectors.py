"""Collectors from functions, for tests that script polls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from trainfleet_exporter.polling import BulkCollector, Part, PerObjectCollector, Poll


class Bulk(BulkCollector):
    """A bulk collector that polls with a function."""

    def __init__(self, run: Callable[[Poll], Awaitable[Any]], *, name: str = "jobs", interval: float = 60.0) -> None:
        super().__init__(name, interval, run)


class PerObject(PerObjectCollector):
    """A per-object collector with functions for its methods."""

    def __init__(
        self,
        objects: Callable[[], Sequence[str]],
        read: Callable[[Part], Awaitable[None]],
        *,
        name: str = "pods",
        interval: float = 300.0,
        workers: int = 4,
        begin: Callable[[Poll], Awaitable[None]] | None = None,
        is_current: Callable[[str], bool] = lambda name: True,
        watch: Callable[[Callable[[], None]], None] = lambda callback: None,
    ) -> None:
        super().__init__(name, interval, workers=workers)
        self._objects = objects
        self._read = read
        self._begin = begin
        self._is_current = is_current
        self._watch = watch

    async def begin(self, poll: Poll) -> None:
        if self._begin is not None:
            await self._begin(poll)

    def objects(self) -> Sequence[str]:
        return self._objects()

    def is_current(self, object_id: str) -> bool:
        return self._is_current(object_id)

    def watch(self, callback: Callable[[], None]) -> None:
        self._watch(callback)

    async def poll(self, part: Part) -> None:
        await self._read(part)
