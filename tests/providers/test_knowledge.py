"""Who builds on a list waits for it as long as is worth it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.providers.knowledge import Groundwork


@pytest.mark.parametrize(
    ("good", "whole", "needed", "takes", "waits"),
    [
        (None, None, True, 30.0, 30.0),  # the first poll: nothing can be done before it
        (None, None, False, 30.0, 30.0),
        (False, None, True, 30.0, 30.0),
        (False, None, False, 30.0, 5.0),
        (False, None, False, 3.0, 3.0),
        (True, False, True, 3.0, 3.0),
        (True, False, True, 30.0, 5.0),  # it may hang, and what it did not lack is to be polled all the same
        (True, None, True, 30.0, 0.0),
        (True, True, True, 30.0, 0.0),
    ],
)
def test_a_poll_that_others_build_on_is_waited_for(
    good: bool | None, whole: bool | None, needed: bool, takes: float, waits: float
) -> None:
    async def main() -> float:
        groundwork = Groundwork()
        if good is not None:
            groundwork.begin()
            groundwork.done(good=good, whole=whole)
        loop = asyncio.get_running_loop()

        async def poll() -> None:
            groundwork.begin()
            await asyncio.sleep(takes)
            groundwork.done(good=True)

        async def build() -> float:
            await groundwork.wait(5.0, needed=needed)
            return loop.time()

        # They are due together, and the one that is built on happens to begin last.
        waited, _ = await asyncio.gather(build(), poll())
        return waited

    assert run_stepped(main) == waits
