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
    groundwork = Groundwork()
    if good is not None:
        groundwork.begin()
        groundwork.done(good=good, whole=whole)
    assert run_stepped(lambda: _waited(groundwork, needed=needed, takes=takes)) == waits


@pytest.mark.parametrize("late", [0.0001, 0.9])
def test_what_is_due_together_may_begin_last(late: float) -> None:
    groundwork = Groundwork()
    groundwork.begin()
    groundwork.done(good=False)
    assert run_stepped(lambda: _waited(groundwork, takes=30.0, late=late)) == pytest.approx(30.0 + late)


def test_who_is_not_due_with_it_is_held_up_for_a_moment_only() -> None:
    groundwork = Groundwork()
    groundwork.begin()
    groundwork.done(good=False)
    assert run_stepped(lambda: _waited(groundwork, takes=30.0, late=600.0)) == 1.0


async def _waited(groundwork: Groundwork, *, takes: float, needed: bool = True, late: float = 0.0) -> float:
    """For how long somebody waits who is due together with a poll, which begins `late` and takes that long."""

    async def poll() -> None:
        await asyncio.sleep(late)
        groundwork.begin()
        await asyncio.sleep(takes)
        groundwork.done(good=True)

    async def build() -> float:
        await groundwork.wait(5.0, needed=needed)
        return asyncio.get_running_loop().time()

    # The one that is built on happens to begin last.
    waited, _ = await asyncio.gather(build(), poll())
    return waited
