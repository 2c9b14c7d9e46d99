"""One poll and its parts: what a part knows, what it drops or does without, and whose failure is whose."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.polling.rig import Rig, count
from tests.support.logs import lines_of
from trainfleet_exporter.errors import NotFound, ServerTrouble
from trainfleet_exporter.polling import BulkCollector, Part, Poll
from trainfleet_exporter.transport.json_fields import number


class Polled:
    """One bulk collector whose polls do what each test says."""

    def __init__(self) -> None:
        self.rig = Rig(BulkCollector("jobs", 60, self._run))
        self._does: Callable[[Poll], Awaitable[None]]

    async def poll(self, does: Callable[[Poll], Awaitable[None]]) -> None:
        self._does = does
        await self.rig.runner.tick()

    async def part(self, does: Callable[[Part], Awaitable[None]], **options: float) -> None:
        """Poll one part `a`."""

        async def run(poll: Poll) -> None:
            async with poll.part("a", **options) as part:  # type: ignore[arg-type]  # only a deadline
                await does(part)

        await self.poll(run)

    async def _run(self, poll: Poll) -> None:
        await self._does(poll)


async def test_deleted_part_is_a_failure_only_while_still_listed() -> None:
    async def gone(part: Part) -> None:
        await part.not_found(NotFound("no such job"))

    polled = Polled()
    await polled.part(lambda part: part.publish(count("a")))
    await polled.part(gone)
    assert await polled.rig.parts() == set()
    assert polled.rig.own("collector_success") == 1
    await polled.part(gone)
    assert polled.rig.own("collector_errors_total", reason="not_found") == 1


async def test_dropped_readings_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def drop(part: Part) -> None:
        part.dropped("stale")
        part.dropped("malformed", 2)
        part.dropped("out_of_range", 0)
        for key in ("x", "y", "z"):
            assert number({key: "seven"}, key) is None

    async def drop_one(poll: Poll) -> None:
        poll.dropped("stale")

    polled = Polled()
    await polled.part(drop)
    own = polled.rig.own
    assert own("dropped_readings_total", reason="stale") == 1
    assert own("dropped_readings_total", reason="malformed") == 5
    assert not own("dropped_readings_total", reason="out_of_range")
    await polled.poll(drop_one)
    assert own("dropped_readings_total", reason="stale") == 2
    assert lines_of(caplog.records) == ["dropped unusable readings provider=p collector=jobs malformed=5"]


async def test_a_failure_of_what_is_not_wanted_any_more_is_none() -> None:
    async def run(poll: Poll) -> None:
        for key in ("a", "b"):
            async with poll.part(key, wanted=lambda key=key: key == "a"):  # type: ignore[misc]
                raise ServerTrouble("down")

    polled = Polled()
    await polled.poll(run)
    assert polled.rig.own("collector_errors_total", reason="server") == 1
    assert polled.rig.own("collector_parts_failed") == 1


@pytest.mark.parametrize("stops", [False, True])
async def test_cancelled_part_has_failed_unless_the_exporter_stops(stops: bool) -> None:
    reached: list[str] = []

    async def run(poll: Poll) -> None:
        for key in ("a", "b"):
            async with poll.part(key):
                reached.append(key)
                await asyncio.sleep(1000)

    polled = Polled()
    polling = asyncio.create_task(polled.poll(run))
    await asyncio.sleep(10)
    if stops:
        await polled.rig.runner.stop()
    await polling
    own, last = polled.rig.own, polled.rig.runner.state.error
    if stops:
        assert (own("collector_errors_total", reason="deadline"), last) == (None, None)
    else:
        assert own("collector_errors_total", reason="deadline") == own("collector_parts_failed") == 1
        assert last is not None
        assert (last.part, last.text) == ("a", "not read before the poll's deadline")
    assert reached == ["a"]  # the poll is over
