"""The two kinds of collectors of a provider: bulk collectors and per-object collectors."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainfleet_exporter.errors import DeadlineExceeded

if TYPE_CHECKING:
    from trainfleet_exporter.polling.poll import Part, Poll


@dataclass(eq=False)
class BulkCollector:
    """A collector whose calls do not grow with the jobs, except by pages: one poll reads everything."""

    name: str
    interval: float
    """Seconds from the start of one poll to the start of the next."""
    poll: Callable[[Poll], Awaitable[None]]
    """Reads every part by `Poll.part`, and ends by the poll's deadline."""
    expired: Callable[[str], None] = lambda key: None
    """Drops data that depends on a part, because its polls still fail and its last good values have expired."""


class PerObjectCollector(ABC):
    """A collector that needs calls for each object, such as a job.

    Each object is a part. A cycle over all objects takes one `interval` (seconds); at most `workers` objects are read
    at a time.
    """

    def __init__(self, name: str, interval: float, *, workers: int) -> None:
        self.name = name
        self.interval = interval
        self.workers = workers

    async def begin(self, poll: Poll) -> None:  # noqa: B027 - some have nothing to wait for
        """Wait until the objects are known, or read them, by the poll's deadline."""

    @abstractmethod
    def objects(self) -> Sequence[str]:
        """Return the ids of the objects, most important first. Raise NotReady if their latest poll failed."""

    @abstractmethod
    def is_current(self, object_id: str) -> bool:
        """Return whether the object still exists and is polled here."""

    @abstractmethod
    async def poll(self, part: Part) -> None:
        """Read and publish one object."""

    def watch(self, callback: Callable[[], None]) -> None:  # noqa: B027 - some learn of it in `begin` only
        """Call back when objects are no longer current, so that their series disappear at once."""

    def calls(self, object_id: str) -> int:
        """Return the approximate number of calls for an object. Objects with many calls get the time of several
        polls."""
        return 1


Collector = BulkCollector | PerObjectCollector


class FairQueue:
    """Orders parts, so that polls without enough time still read all of them in turn."""

    def __init__(self) -> None:
        self._poll = 0
        self._turns: dict[str, int] = {}
        """By part, the number of the latest poll that read it, or in which the service failed it: what fails in each
        poll must not always be first."""

    async def read_each(
        self,
        poll: Poll,
        keys: Iterable[str],
        read: Callable[[Part], Awaitable[None]],
        *,
        at_once: int,
        until: float = math.inf,
    ) -> set[str]:
        """Read these parts, the longest unread first, `at_once` at a time; none begins after `until` (loop time).
        Returns the parts that succeeded."""
        clock = asyncio.get_running_loop().time

        async def turn(part: Part) -> None:
            if clock() > until:
                raise DeadlineExceeded("not read before the poll's deadline")
            await read(part)

        succeeded = await poll.read_each(self.order(keys), turn, at_once=at_once)
        self.was_read(succeeded | poll.unserved)
        return succeeded

    def order(self, keys: Iterable[str]) -> list[str]:
        """The parts of a poll that begins now, the longest unread first. Forgets all others."""
        self._poll += 1
        self._turns = {key: self._turns.get(key, 0) for key in keys}
        return sorted(self._turns, key=self._turns.__getitem__)

    def was_read(self, keys: Iterable[str]) -> None:
        """Record that these parts had their turn in this poll."""
        self._turns |= dict.fromkeys(keys, self._poll)
