"""A part whose new answer says what it shows: confirmed, it is as fresh as if that had been published again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.polling.rig import Rig, count
from tests.support.clock import START, run_stepped
from trainfleet_exporter.errors import NotFound, ServerTrouble
from trainfleet_exporter.polling import Part, Poll, Rolling, Sweep

MARK = b"what it says"
Read = Callable[[Part], Awaitable[None]]


class Polled:
    """One part `a`, polled as each test tells."""

    def __init__(self, *, keep: int = 3) -> None:
        self.rig = Rig(Sweep(name="jobs", interval=60, run=self._run), keep=keep)
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
    await part.publish(count("a"), mark=MARK)


async def confirm(part: Part) -> None:
    assert part.mark == MARK
    assert part.confirm(part.mark)


async def cannot_confirm(part: Part) -> None:
    assert not part.confirm(MARK)


async def fail(part: Part) -> None:
    raise ServerTrouble("down", operation="GetJob", status=500)


async def miss(part: Part) -> None:
    await part.not_found(NotFound("no such job"))


@pytest.mark.parametrize("again", [publish, confirm])
def test_it_lives_on_as_if_it_had_been_published_again(again: Read) -> None:
    async def main() -> None:
        polled = Polled()
        rig = polled.rig
        await polled.poll(publish)
        for _ in range(10):
            await asyncio.sleep(100)
            await polled.poll(again)
            await rig.runner.expire()
            assert await rig.parts() == {"a"}
        assert rig.own("collector_oldest_part_timestamp_seconds") == START + 1000
        assert rig.own("collector_parts") == rig.own("collector_series") == 1
        await asyncio.sleep(290)
        await rig.runner.expire()
        assert await rig.parts() == set()

    run_stepped(main)


@pytest.mark.parametrize("again", [publish, confirm])
def test_a_failure_before_it_is_over(again: Read) -> None:
    async def main() -> None:
        polled = Polled()
        rig = polled.rig
        await polled.poll(publish)
        await polled.poll(fail)
        assert rig.own("collector_parts_failed") == 1
        await asyncio.sleep(170)
        await polled.poll(again)
        assert rig.own("collector_parts_failed") == 0
        await asyncio.sleep(20)  # three intervals after the failure
        await polled.poll(fail)
        await rig.runner.expire()
        assert await rig.parts() == {"a"}

    run_stepped(main)


@pytest.mark.parametrize("again", [publish, confirm])
def test_what_is_found_again_may_be_missed_again(again: Read) -> None:
    async def main() -> None:
        polled = Polled()
        for _ in range(2):
            await polled.poll(publish)
            await polled.poll(again)
            await polled.poll(miss)
            assert polled.rig.own("collector_success") == 1
        await polled.poll(miss)
        assert polled.rig.own("collector_success") == 0

    run_stepped(main)


def test_only_what_is_shown_can_be_confirmed() -> None:
    async def main() -> None:
        polled = Polled(keep=0)
        await polled.poll(cannot_confirm)  # never published
        await polled.poll(publish)
        await polled.poll(confirm)
        await polled.poll(miss)  # shows nothing now
        await polled.poll(cannot_confirm)
        await polled.poll(publish)
        await polled.poll(fail)  # dropped, as nothing is kept
        await polled.poll(cannot_confirm)
        await polled.poll(lambda part: part.publish(count("a")))  # by an answer without a mark
        await polled.poll(cannot_confirm)

        async def no_mark(part: Part) -> None:
            assert part.mark == b""
            assert not part.confirm(part.mark)

        await polled.poll(no_mark)
        assert await polled.rig.parts() == {"a"}

    run_stepped(main)


def test_what_has_gone_has_no_mark() -> None:
    async def main() -> None:
        polled = Polled()
        await polled.poll(publish)
        await polled.poll(miss)

        async def look(part: Part) -> None:
            assert part.mark == b""

        await polled.poll(look)

    run_stepped(main)


def test_another_answer_is_no_confirmation() -> None:
    async def main() -> None:
        polled = Polled()
        await polled.poll(publish)

        async def other(part: Part) -> None:
            assert not part.confirm(b"something else")

        await asyncio.sleep(60)
        await polled.poll(other)
        assert polled.rig.own("collector_oldest_part_timestamp_seconds") == START

    run_stepped(main)


async def nothing_left(_: float) -> tuple[list[object], None]:
    return [], None


def test_what_is_shown_of_dated_readings_is_never_confirmed() -> None:
    async def main() -> None:
        polled = Polled()
        await polled.poll(lambda part: part.publish(count("a"), mark=MARK, stale_at=START + 9, rebuild=nothing_left))
        await polled.poll(cannot_confirm)

    run_stepped(main)


def test_a_confirmation_of_what_has_ended_meanwhile_changes_nothing() -> None:
    alive = {"a"}
    published = False

    async def main() -> None:
        async def read(part: Part) -> None:
            nonlocal published
            if published:
                alive.clear()  # and nobody was told yet
                assert part.confirm(MARK)
            else:
                await publish(part)
                published = True

        collector = Rolling(
            name="pods",
            interval=60,
            units=lambda: sorted(alive),
            read=read,
            begin=_at_once,
            alive=alive.__contains__,
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
