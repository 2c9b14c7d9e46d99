"""A part that is published again with the same content: it lives on, and is as fresh as its latest answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.polling.rig import Rig, count
from tests.support.clock import START, run_stepped
from tests.support.collectors import Bulk, PerObject
from trainfleet_exporter.errors import NotFound, ServerTrouble
from trainfleet_exporter.polling import Part, Poll

Read = Callable[[Part], Awaitable[None]]


class Polled:
    """One part `a`, polled as each test says."""

    def __init__(self, *, keep: int = 3) -> None:
        self.rig = Rig(Bulk(name="jobs", interval=60, run=self._run), keep=keep)
        self._read: Read = publish

    async def poll(self, read: Read) -> None:
        self._read = read
        await self.rig.runner.tick()
        # What a test asserts in a poll is a fault of its part, which goes no further by itself.
        assert self.rig.own("collector_errors_total", reason="internal") is None

    async def _run(self, poll: Poll) -> None:
        async with poll.part("a") as part:
            await self._read(part)


async def publish(part: Part) -> None:
    await part.publish(count("a"))


async def fail(part: Part) -> None:
    raise ServerTrouble("down", operation="GetJob", status=500)


async def miss(part: Part) -> None:
    await part.not_found(NotFound("no such job"))


def test_it_lives_on_as_if_it_had_been_published_again() -> None:
    async def main() -> None:
        polled = Polled()
        rig = polled.rig
        await polled.poll(publish)
        for _ in range(10):
            await asyncio.sleep(100)
            await polled.poll(publish)
            await rig.runner.expire()
            assert await rig.parts() == {"a"}
        assert rig.own("collector_oldest_part_timestamp_seconds") == START + 1000
        assert rig.own("collector_parts") == rig.own("collector_series") == 1
        await asyncio.sleep(290)
        await rig.runner.expire()
        assert await rig.parts() == set()

    run_stepped(main)


def test_a_failure_before_it_is_over() -> None:
    async def main() -> None:
        polled = Polled()
        rig = polled.rig
        await polled.poll(publish)
        await polled.poll(fail)
        assert rig.own("collector_parts_failed") == 1
        await asyncio.sleep(170)
        await polled.poll(publish)
        assert rig.own("collector_parts_failed") == 0
        await asyncio.sleep(20)  # three intervals after the failure
        await polled.poll(fail)
        await rig.runner.expire()
        assert await rig.parts() == {"a"}

    run_stepped(main)


def test_what_is_found_again_may_be_missed_again() -> None:
    async def main() -> None:
        polled = Polled()
        for _ in range(2):
            await polled.poll(publish)
            await polled.poll(publish)
            await polled.poll(miss)
            assert polled.rig.own("collector_success") == 1
        await polled.poll(miss)
        assert polled.rig.own("collector_success") == 0

    run_stepped(main)


def test_the_same_again_of_what_has_ended_changes_nothing() -> None:
    alive = {"a"}
    published = False

    async def main() -> None:
        async def read(part: Part) -> None:
            nonlocal published
            if published:
                alive.clear()  # which the runner does not know yet
            await publish(part)
            published = True

        collector = PerObject(
            name="pods",
            interval=60,
            objects=lambda: sorted(alive),
            read=read,
            begin=_at_once,
            is_current=alive.__contains__,
            watch=lambda callback: None,
            workers=1,
        )
        rig = Rig(collector)
        await rig.runner.tick()
        await asyncio.sleep(60)
        await rig.runner.tick()
        assert rig.own("collector_oldest_part_timestamp_seconds") == START

    run_stepped(main)


async def _at_once(poll: Poll) -> None:
    return None
