"""Turns of parts that do not fit into one poll: those not read for longest come first, whatever happens to them."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.polling.rig import Rig, count
from tests.support.clock import run_stepped
from trainfleet_exporter.errors import ServerTrouble
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.sweeps import each_sweep
from trainfleet_exporter.providers.turns import Turns


def test_those_that_were_not_read_for_longest_are_first() -> None:
    turns = Turns()
    assert turns.order("abcd") == ["a", "b", "c", "d"]
    turns.read("ab")
    assert turns.order("abcd") == ["c", "d", "a", "b"]
    turns.read("c")
    assert turns.order("abcd") == ["d", "a", "b", "c"]
    turns.read("da")
    assert turns.order("abcd") == ["b", "c", "a", "d"]
    assert turns.order("dcx") == ["x", "c", "d"]  # what is new has never been read
    assert turns.order("abcd") == ["a", "b", "c", "d"]  # and who was gone is new again


def test_what_this_poll_has_read() -> None:
    turns = Turns()
    turns.order("ab")
    turns.read("a")
    assert turns.has_read("a")
    assert not turns.has_read("ab")
    turns.read("b")
    assert turns.has_read("ab")
    turns.order("ab")
    assert not turns.has_read("a")
    assert turns.has_read("")


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 20))
def test_nobody_waits_for_more_polls_than_all_parts_take(parts: int, fit: int, polls: int) -> None:
    turns, read = Turns(), {str(number): 0 for number in range(parts)}
    for poll in range(1, polls + 1):
        now = turns.order(read)[:fit]
        turns.read(now)
        read |= dict.fromkeys(now, poll)
        assert poll - min(read.values()) <= math.ceil(parts / fit)


def test_a_sweep_whose_parts_do_not_fit_into_a_poll_reads_them_all_in_turn() -> None:
    keys = [f"w{number:03}" for number in range(100)]
    read: Counter[str] = Counter()

    async def wanted() -> Sequence[str]:
        return keys

    async def read_one(part: Part) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() + 1 > part.deadline:
            raise ServerTrouble("no time is left", operation="ListThings")
        await asyncio.sleep(1)
        read[part.key] += 1
        await part.publish(count(part.key))

    async def main() -> None:
        rig = Rig(each_sweep("pool_usage", interval=60, at_once=1, keys=wanted, read=read_one), poll_timeout=30)
        for polls, come_to in ((1, 30), (2, 60), (3, 90), (4, 100)):
            await rig.runner.tick()
            assert len(read) == come_to, polls
        assert await rig.parts() == set(keys)
        for _ in range(6):
            await rig.runner.tick()
        assert min(read.values()) >= 2

    run_stepped(main)
