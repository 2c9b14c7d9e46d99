"""A collector waits for a list that it builds on, as long as that is worth it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.polling import Topic


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
        (True, True, True, 30.0, 0.0),
    ],
)
def test_a_poll_that_others_build_on_is_waited_for(
    good: bool | None, whole: bool | None, needed: bool, takes: float, waits: float
) -> None:
    topic = _polled(good, whole)
    assert run_stepped(lambda: _waited(topic, needed=needed, takes=takes)) == waits


@pytest.mark.parametrize("late", [0.0001, 0.9])
def test_a_poll_due_at_the_same_time_may_begin_last(late: float) -> None:
    waited = run_stepped(lambda: _waited(_polled(good=False), takes=30.0, late=late))
    assert waited == pytest.approx(30.0 + late)


def test_a_poll_due_later_is_waited_for_a_second_only() -> None:
    assert run_stepped(lambda: _waited(_polled(good=False), takes=30.0, late=600.0)) == 1.0


def _polled(good: bool | None, whole: bool | None = None) -> Topic[tuple[str, ...]]:
    """A topic after one poll, or before the first."""
    topic: Topic[tuple[str, ...]] = Topic("things", ())
    if good is not None:
        with topic.polling():
            topic.publish(("a",), known=good, whole=whole is not False)
    return topic


async def _waited(topic: Topic[tuple[str, ...]], *, takes: float, needed: bool = True, late: float = 0.0) -> float:
    """How long a collector waits that is due with a poll of the list, which begins `late` and takes so long."""

    async def poll() -> None:
        await asyncio.sleep(late)
        with topic.polling():
            await asyncio.sleep(takes)
            topic.publish(("b",))

    async def build() -> float:
        loop = asyncio.get_running_loop()
        await topic.wait(loop.time() + 20.0, needed=needed)
        return loop.time()

    # The one that is built on happens to begin last.
    waited, _ = await asyncio.gather(build(), poll())
    return waited
