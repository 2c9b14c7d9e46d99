"""Parts that do not fit into one poll: the longest unread come first, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.polling.rig import Rig, count
from trainfleet_exporter.errors import ServerTrouble
from trainfleet_exporter.polling import BulkCollector, FairQueue, Part, Poll


class _Slow(BulkCollector):
    """A hundred parts that take a second each."""

    def __init__(self) -> None:
        super().__init__("pool_usage", 60, self._poll)
        self._turns = FairQueue()
        self.names = [f"w{number:03}" for number in range(100)]
        self.was_read: Counter[str] = Counter()

    async def _poll(self, poll: Poll) -> None:
        await self._turns.read_each(poll, self.names, self._read, at_once=1)

    async def _read(self, part: Part) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() + 1 > part.deadline:
            raise ServerTrouble("no time is left", operation="ListThings")
        await asyncio.sleep(1)
        self.was_read[part.key] += 1
        await part.publish(count(part.key))


async def test_parts_beyond_one_poll_are_read_in_turn() -> None:
    collector = _Slow()
    rig = Rig(collector, poll_timeout=30)
    for polls, come_to in ((1, 30), (2, 60), (3, 90), (4, 100)):
        await rig.runner.tick()
        assert len(collector.was_read) == come_to, polls
    assert await rig.parts() == set(collector.names)
    for _ in range(6):
        await rig.runner.tick()
    assert min(collector.was_read.values()) >= 2
