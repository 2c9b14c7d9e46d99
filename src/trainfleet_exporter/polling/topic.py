"""A list that one collector publishes and other collectors build on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Generic, TypeVar

from trainfleet_exporter.errors import NotReady

T = TypeVar("T")
_WAIT_SHARE = 0.25
"""The share of its time that a poll waits for an optional list; the rest is for its own calls."""
_TOGETHER = 1.0
"""Seconds within which polls that are due together have begun; their order is not defined."""


class Topic(Generic[T]):
    """A list with a version that other collectors can wait for.

    Its owner polls it `with topic.polling()` and calls `publish`. A poll that ends without publishing keeps the last
    value, and the list is unknown until the next good poll.
    """

    def __init__(self, name: str, value: T) -> None:
        """`name` is what errors call the list; `value` is the empty list."""
        self.name = name
        self.value = value
        """The list that the latest successful poll published."""
        self.version = 0
        """The number of polls of the list that have ended, also failed ones."""
        self.is_known = False
        """Whether the latest poll could read the list, or some of it."""
        self.is_whole = False
        """Whether the latest poll could read all of it."""
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """Mark a poll of the list as running."""
        version = self.version
        self._begun.set()
        try:
            yield
        finally:
            self._begun.clear()
            if self.version == version:
                self.publish(self.value, known=False)

    def publish(self, value: T, *, known: bool = True, whole: bool = True) -> None:
        """Replace the list and wake all waiting tasks. `whole=False`: a part or value of it could not be read."""
        self.value = value
        self.is_known = known
        self.is_whole = known and whole
        self.version += 1
        self._ended.set()
        self._ended = asyncio.Event()

    async def get(self) -> T:
        """Return the list, and wait if there is none. Raise NotReady if it is empty because it could not be read."""
        if not self.value:
            await self.wait()
        if not self.value and not self.is_known:
            raise self.not_ready()
        return self.value

    async def wait(self, deadline: float | None = None, *, needed: bool = True) -> None:
        """Wait for the first poll, or after a failed one for the poll that is running or due at the same time.

        Without this, collectors that build on a list would fail one interval longer than the list itself. If the latest
        poll lacked something only, or the list is not `needed` for all of the caller's parts, the wait takes at most a
        quarter of the time until `deadline` (loop time). Otherwise the caller's own deadline bounds it.
        """
        if self.is_whole:
            return
        patience = 0.0 if deadline is None else _WAIT_SHARE * (deadline - asyncio.get_running_loop().time())
        ended = self._ended
        if self.version:
            try:
                async with asyncio.timeout(_TOGETHER):
                    await self._begun.wait()
            except TimeoutError:
                return
        is_patient = self.is_known or (self.version > 0 and not needed)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience if is_patient else None):
                await ended.wait()

    def not_ready(self) -> NotReady:
        """The error of a collector that cannot poll without the list."""
        return NotReady(f"the list of {self.name} could not be read")
