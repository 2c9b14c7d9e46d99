"""Who must go when there are too many."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from trainfleet_exporter.web.guests import Guest, Guests


class _House:
    """Guests, and who was broken off."""

    def __init__(self, limit: int) -> None:
        self.guests = Guests(limit)
        self.here: dict[str, tuple[str, Guest]] = {}
        self.gone: list[str] = []

    def come(self, name: str, address: str = "192.0.2.1") -> bool:
        guest = self.guests.admit(address)
        if guest is None:
            return False
        guest.end = lambda: self._end(name)
        self.here[name] = address, guest
        return True

    def _end(self, name: str) -> None:
        self.gone.append(name)
        del self.here[name]

    def serve(self, *names: str) -> None:
        for name in names:
            self.here[name][1].serve()


def _within_a_loop(work: object) -> None:
    async def main() -> None:
        await work()  # type: ignore[operator]

    run_stepped(main)


def test_the_one_that_waited_longest_makes_room() -> None:
    async def main() -> None:
        house = _House(8)
        assert all(house.come(name) for name in "abcd")
        house.serve("a", "c")
        house.here["a"][1].wait()  # answered, and waits again: for less long than the others
        assert [house.come(name) for name in "efg"] == [True, True, True]
        assert house.gone == ["b", "d", "a"]
        assert len(house.guests) == 4

    _within_a_loop(main)


def test_who_is_served_stays_for_a_while_and_newcomers_are_turned_away() -> None:
    async def main() -> None:
        house = _House(4)
        assert house.come("a")
        assert house.come("b")
        house.serve("a", "b")
        assert not house.come("c")
        await asyncio.sleep(29)
        assert not house.come("c")
        await asyncio.sleep(2)
        assert house.come("c")
        assert house.gone == ["a"]
        assert house.come("d")  # c waits
        assert house.gone == ["a", "c"]

    _within_a_loop(main)


def test_who_has_many_makes_room_for_who_has_few() -> None:
    async def main() -> None:
        house = _House(6)
        for number in range(3):
            assert house.come(f"greedy {number}", "192.0.2.1")
            assert house.come(f"other {number}", "192.0.2.2")
        house.serve("greedy 0", "greedy 1", "greedy 2", "other 0", "other 1", "other 2")
        assert house.come("prometheus", "192.0.2.3")
        assert house.gone == ["greedy 0"]
        assert house.come("second", "192.0.2.3")
        assert house.gone == ["greedy 0", "other 0"]
        assert not house.come("third", "192.0.2.3") or "prometheus" in house.gone  # nobody has more than one beyond it

    _within_a_loop(main)


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "", True),
        ("", "192.0.2.1", False),
    ],
)
def test_addresses_of_one_client(one: str, other: str, are_one: bool) -> None:
    async def main() -> None:
        house = _House(2)
        assert house.come("one", one)
        assert house.come("other", other)
        assert house.gone == (["one"] if are_one else [])

    _within_a_loop(main)


def test_it_is_told_once_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        house = _House(2)
        for number in range(100):
            house.come(str(number))
            await asyncio.sleep(1)
        await asyncio.sleep(100)
        house.come("later")

    with caplog.at_level(logging.INFO):
        _within_a_loop(main)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("trainfleet")]
    shortage = "more connections than are allowed (2, of one address 1): who waits longest is cut off"
    assert told == [f"{shortage}; told once while it lasts"] * 2


@given(
    st.lists(st.tuples(st.sampled_from(["come", "serve", "wait", "leave", "sleep"]), st.integers(0, 4)), max_size=80)
)
def test_there_are_never_more_than_may_be_and_nobody_loses_to_who_has_more(steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        house = _House(6)
        for number, (step, which) in enumerate(steps):
            names = [name for name, (address, _) in house.here.items() if address == f"192.0.2.{which}"]
            match step:
                case "come":
                    before = Counter(address for address, _ in house.here.values())
                    of = {name: address for name, (address, _) in house.here.items()}
                    gone = len(house.gone)
                    came = house.come(str(number), f"192.0.2.{which}")
                    own = before[f"192.0.2.{which}"]
                    assert came or own == 3 or before.total() == 6
                    for name in house.gone[gone:]:
                        assert of[name] == f"192.0.2.{which}" or before[of[name]] > own + 1
                case "sleep":
                    await asyncio.sleep(20)
                case _ if names:
                    getattr(house.here[names[0]][1], step)()
                    if step == "leave":
                        house.here[names[0]][1].leave()  # twice is once
                        del house.here[names[0]]
            counts = Counter(address for address, _ in house.here.values())
            assert len(house.guests) == counts.total() <= 6
            assert max(counts.values(), default=0) <= 3
        for _, guest in list(house.here.values()):
            guest.leave()
        assert len(house.guests) == 0
        assert not house.guests._clients

    _within_a_loop(main)
