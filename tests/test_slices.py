"""Long work in slices: one in each turn of the loop, and behind answers, but not for ever."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from tests.support.clock import SteppedLoop, run_stepped
from trainfleet_exporter.slices import answer_comes, answering, fit_in, give_way


async def count_turns(worked: list[list[int]]) -> None:
    """Add a list for each turn of the loop."""
    while True:
        await asyncio.sleep(0)
        worked.append([])


def test_of_several_workers_one_works_in_each_turn_of_the_loop() -> None:
    async def main() -> None:
        worked: list[list[int]] = [[]]

        async def work(number: int) -> None:
            for _ in range(20):
                await give_way()
                worked[-1].append(number)

        counting = asyncio.create_task(count_turns(worked))
        await asyncio.gather(*(work(number) for number in range(3)))
        counting.cancel()
        assert max(map(len, worked)) == 1
        assert [one for turn in worked for one in turn] == [0, 1, 2] * 20

    run_stepped(main)


def test_one_that_is_cancelled_in_the_line_holds_up_nobody() -> None:
    async def main() -> None:
        first, second, third = (asyncio.create_task(give_way()) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await third
        await give_way()
        assert (first.cancelled(), second.cancelled()) == (True, True)

    run_stepped(main)


def worked_while(answer: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> list[float]:
    """When a worker had its turns, in seconds since it began, beside somebody who answers; each slice takes 10 ms."""

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        faults: list[object] = []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        began = loop.time()
        moments: list[float] = []

        async def work() -> None:
            while loop.time() - began < seconds:
                await give_way()
                moments.append(round(loop.time() - began, 6))
                await asyncio.sleep(0.01)

        other = asyncio.create_task(answer())
        await work()
        other.cancel()
        ended = await asyncio.gather(other, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError | None)
        assert not faults
        return moments

    return run_stepped(main)


def test_work_waits_for_the_end_of_an_answer() -> None:
    async def answer() -> None:
        await asyncio.sleep(0.005)
        with answering():
            await asyncio.sleep(0.1)

    moments = worked_while(answer, 0.2)
    assert moments[:3] == [0.0, 0.105, 0.115]


def test_a_slow_reader_holds_up_work_for_a_moment_only() -> None:
    async def answer() -> None:
        with answering():
            await asyncio.sleep(100)

    moments = worked_while(answer, 10.0)
    assert 0.19 < moments[0] < 0.21
    # From then on half of the time is the work's; and all of it, when it is plain that the reader is slow.
    assert 0.4 < len([moment for moment in moments if moment < 2]) * 0.01 / 2 < 0.8
    assert len([moment for moment in moments if moment > 2]) * 0.01 / 8 > 0.99
    assert max(later - earlier for earlier, later in itertools.pairwise(moments)) < 0.21


def test_what_is_due_for_everybody_is_an_answer_for_as_long_as_it_takes() -> None:
    async def answer() -> None:
        with answering(60):
            await asyncio.sleep(100)

    assert 0.4 < len(worked_while(answer, 10.0)) * 0.01 / 10 < 0.8


def test_long_idleness_does_not_let_answers_hold_up_work_for_longer() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        await give_way()
        await asyncio.sleep(100)
        with answering():
            began = loop.time()
            await give_way()
            assert 0.19 < loop.time() - began < 0.21

    run_stepped(main)


def test_many_quick_readers_leave_work_half_of_the_time() -> None:
    async def answer() -> None:
        while True:
            with answering():
                await asyncio.sleep(0.03)

    assert len(worked_while(answer, 10.0)) * 0.01 / 10 > 0.4


def test_of_two_answers_the_last_one_lets_work_go_on() -> None:
    async def answer() -> None:
        async def one(seconds: float) -> None:
            with answering():
                await asyncio.sleep(seconds)

        await asyncio.gather(one(0.05), one(0.15))

    assert worked_while(answer, 0.3)[:2] == [0.15, 0.16]


def test_an_answer_that_fails_lets_work_go_on() -> None:
    async def answer() -> None:
        await asyncio.sleep(0.005)
        try:
            with answering():
                await asyncio.sleep(0.02)
                raise ValueError
        except ValueError:
            pass

    assert worked_while(answer, 0.1)[:2] == [0.0, 0.025]


def test_short_work_shares_a_turn_of_the_loop_until_that_is_long() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        worked: list[list[int]] = [[]]

        async def work(number: int) -> None:
            await fit_in()
            worked[-1].append(number)
            loop.jump(0.0002)

        counting = asyncio.create_task(count_turns(worked))
        await asyncio.gather(*(work(number) for number in range(6)))
        counting.cancel()
        assert [turn for turn in worked if turn] == [[0, 1, 2], [3], [4], [5]]

    run_stepped(main)


def test_short_work_waits_for_the_end_of_an_answer() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with answering():
            task = asyncio.create_task(fit_in())
            await asyncio.sleep(0.05)
            assert not task.done()
        ended = loop.time()
        await task
        assert loop.time() == ended

    run_stepped(main)


def test_no_slice_begins_between_a_request_and_its_answer() -> None:
    async def main() -> None:
        seen: list[str] = []

        async def work() -> None:
            for _ in range(3):
                await give_way()
                seen.append("slice")

        async def answer() -> None:
            with answering():
                for _ in range(3):
                    seen.append("answer")
                    await asyncio.sleep(0)

        def read() -> None:
            answers.append(asyncio.create_task(answer()))
            answer_comes()

        answers: list[asyncio.Task[None]] = []
        working = asyncio.create_task(work())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(read)  # in the turn in which the first slice is let go
        await working
        await answers[0]
        assert seen == ["answer"] * 3 + ["slice"] * 3

    run_stepped(main)
