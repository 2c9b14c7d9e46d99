"""Slices of long work take turns, and leave each turn of the loop to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trainfleet_exporter.process.yielding import yield_to_loop


async def _slices(name: str, count: int, done: Callable[[str], None]) -> None:
    for _ in range(count):
        await yield_to_loop()
        done(name)


def test_one_slice_runs_between_two_turns_of_others() -> None:
    order: list[str] = []

    async def main() -> None:
        workers = [asyncio.create_task(_slices(name, 5, order.append)) for name in "abc"]
        while not all(worker.done() for worker in workers):
            order.append("-")
            await asyncio.sleep(0)

    asyncio.run(main())
    slices = "".join(order).strip("-").split("-")
    assert max(map(len, slices)) == 1
    assert "".join(slices) == "abc" * 5


def test_cancelled_work_holds_nobody_up() -> None:
    order: list[str] = []

    async def main() -> None:
        first, second, third = (asyncio.create_task(_slices(name, 2, order.append)) for name in "abc")
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        await asyncio.wait_for(third, 1)

    asyncio.run(main())
    assert order == ["c", "c"]


def test_loops_do_not_share_a_queue() -> None:
    for _ in range(2):
        order: list[str] = []
        asyncio.run(_slices("a", 3, order.append))
        assert order == ["a"] * 3
